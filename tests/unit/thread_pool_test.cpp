#include "base/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

// Not inlined, or the compiler takes each half of a pair for a mistake.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of all threads of this process.
double cpu_seconds() {
  timespec t = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Some nanoseconds of arithmetic that the compiler keeps.
void compute(int steps) {
  volatile float x = 1.0f;
  for (int i = 0; i < steps; ++i) x = x * 1.0001f;
}

// True once `condition` holds, false when it does not within some seconds.
template <class Condition>
bool eventually(Condition condition) {
  const auto start = Clock::now();
  while (!condition()) {
    if (seconds_since(start) > 4) return false;
  }
  return true;
}

TEST(ThreadPool, RunsEveryItemOnceWhateverTheCountAndGrain) {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers);
    ASSERT_EQ(pool.workers(), workers);
    for (const int64_t count : {0, 1, 2, 3, 16, 17, 1000, 4099}) {
      for (const int64_t grain : {1, 2, 5, 5000}) {
        std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
        pool.parallel_for(
            count, [&](int64_t i, int) { runs[static_cast<size_t>(i)].fetch_add(1); }, grain);
        for (const auto& n : runs)
          ASSERT_EQ(n.load(), 1) << workers << " " << count << " " << grain;
      }
    }
    pool.parallel_for(-3, [&](int64_t, int) { FAIL() << "an item of an empty loop"; });
  }
}

TEST(ThreadPool, HasOneWorkerWhenAskedForNone) {
  for (const int workers : {0, -5}) {
    ThreadPool pool(workers);
    EXPECT_EQ(pool.workers(), 1);
    int sum = 0;
    pool.parallel_for(10, [&](int64_t i, int worker) { sum += static_cast<int>(i) + worker; });
    EXPECT_EQ(sum, 45);
  }
}

// Stress lasts until helpers have had a part in this many loops, and no longer than a test may.
constexpr int64_t kHelpedLoops = 5000;
constexpr double kStressSeconds = 2.5;

// Repeats `loop(round)`, which returns whether a helper had a part in it; true once enough did.
template <class Loop>
bool stress(Loop loop) {
  const auto start = Clock::now();
  int64_t helped = 0;
  for (int64_t round = 0; helped < kHelpedLoops; ++round) {
    helped += loop(round) ? 1 : 0;
    if (round % 64 == 0 && seconds_since(start) > kStressSeconds) break;
  }
  return helped > 20;  // a busy machine may leave the helpers little
}

// Plain memory on both sides: a thread sanitizer sees every missing order.
TEST(ThreadPool, MakesWritesVisibleFromLoopToLoop) {
  ThreadPool pool(4);
  std::vector<int64_t> a(257), b(257);
  std::vector<int> by(257);
  std::iota(a.begin(), a.end(), 0);
  int64_t rounds = 0;
  EXPECT_TRUE(stress([&](int64_t) {
    pool.parallel_for(257, [&](int64_t i, int worker) {
      const auto at = static_cast<size_t>(i);
      b[at] = a[static_cast<size_t>(256 - i)] + 1;
      by[at] = worker;
    });
    std::swap(a, b);
    ++rounds;
    return std::any_of(by.begin(), by.end(), [](int worker) { return worker != 0; });
  }));
  for (int64_t i = 0; i < 257; ++i) {
    ASSERT_EQ(a[static_cast<size_t>(i)], (rounds % 2 == 0 ? i : 256 - i) + rounds);
  }
}

TEST(ThreadPool, GivesNoTwoCallsAtOnceTheSameWorker) {
  constexpr int kWorkers = 4;
  ThreadPool pool(kWorkers);
  std::array<std::atomic<int>, kWorkers> inside = {};
  std::atomic<int> clashes{0};
  EXPECT_TRUE(stress([&](int64_t) {
    std::atomic<bool> helped{false};
    pool.parallel_for(40, [&](int64_t, int worker) {
      if (worker < 0 || worker >= kWorkers || inside[static_cast<size_t>(worker)]++ != 0) ++clashes;
      compute(20);
      if (worker != 0) helped = true;
      --inside[static_cast<size_t>(worker)];
    });
    return helped.load();
  }));
  EXPECT_EQ(clashes.load(), 0);
}

// A worker that comes late must not run an item with the fields of a loop that is over.
TEST(ThreadPool, NeverTouchesALoopThatIsOver) {
  ThreadPool pool(3);
  struct Context {
    int64_t magic;
    int64_t count;
  };
  std::atomic<int64_t> wrong{0};
  int64_t lost = 0;
  EXPECT_TRUE(stress([&](int64_t round) {
    const int64_t count = 2 + round % 5;
    Context context{round, count};
    std::atomic<int64_t> ran{0};
    std::atomic<bool> helped{false};
    pool.parallel_for(count, [&context, &ran, &helped, &wrong, round](int64_t i, int worker) {
      if (context.magic != round || i >= context.count) wrong.fetch_add(1);
      compute(static_cast<int>(round % 7) * 10);
      if (worker != 0) helped = true;
      ran.fetch_add(1);
    });
    lost += count - ran.load();
    context = {-1, -1};
    return helped.load();
  }));
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(lost, 0);
}

TEST(ThreadPool, ClaimsAtLeastAGrainAtATime) {
  ThreadPool pool(3);
  constexpr int64_t kGrain = 10;
  std::vector<int> by(1003);
  EXPECT_TRUE(stress([&](int64_t) {
    pool.parallel_for(
        1003,
        [&](int64_t i, int worker) {
          by[static_cast<size_t>(i)] = worker;
          compute(20);
        },
        kGrain);
    bool helped = false;
    for (size_t begin = 0, end; begin < by.size(); begin = end) {
      end = begin + 1;
      while (end < by.size() && by[end] == by[begin]) ++end;
      EXPECT_TRUE(end == by.size() || end - begin >= kGrain) << begin << " " << end;
      helped = helped || by[begin] != 0;
    }
    return helped && !HasFailure();
  }));
}

TEST(ThreadPool, StopsWhetherItsWorkersSpinOrSleep) {
  for (int round = 0; round < 60; ++round) {
    ThreadPool pool(3);
    if (round % 3 != 0) pool.parallel_for(8, [](int64_t, int) { compute(100); });
    if (round % 3 == 2) std::this_thread::sleep_for(milliseconds(2));
  }
}

TEST(ThreadPool, WakesSleepersForALoopAndNotForASingleItem) {
  ThreadPool pool(2);
  std::this_thread::sleep_for(milliseconds(20));
  for (int i = 0; i < 100; ++i) pool.parallel_for(1, [](int64_t, int) { compute(10); });
  EXPECT_EQ(pool.wakes(), 0);
  bool helped = false;
  EXPECT_TRUE(eventually([&] {
    std::atomic<bool> other{false};
    pool.parallel_for(8, [&](int64_t, int worker) {
      if (worker == 1) other = true;
      // Leaves the CPU to the other worker while there are items, should they share one.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    });
    helped = helped || other.load();
    return helped;
  }));
  EXPECT_GE(pool.wakes(), 1);
}

TEST(ThreadPool, AllocatesNothingInALoop) {
  ThreadPool pool(3);
  const auto loops = [&] {
    for (int i = 0; i < 200; ++i) {
      pool.parallel_for(16, [](int64_t, int) { compute(100); });
      if (i % 50 == 0) std::this_thread::sleep_for(milliseconds(2));
    }
  };
  loops();
  const int64_t before = allocations.load();
  loops();
  EXPECT_EQ(allocations.load(), before);
}

TEST(ThreadPool, UsesNoCpuBetweenLoops) {
  ThreadPool pool(4);
  for (int i = 0; i < 50; ++i) pool.parallel_for(16, [](int64_t, int) { compute(1000); });
  std::this_thread::sleep_for(milliseconds(50));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_LT(cpu_seconds() - before, 0.02);
}

TEST(ThreadPool, KeepsAWorkerOnTheCpuItWasGiven) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = CPU_SETSIZE - 1;
  while (!CPU_ISSET(static_cast<size_t>(cpu), &allowed)) --cpu;
  ThreadPool pool(ThreadPool::Options{2, {cpu}});
  std::atomic<int> ran_on{-1};
  EXPECT_TRUE(eventually([&] {
    pool.parallel_for(8, [&](int64_t, int worker) {
      if (worker == 1) ran_on = ::sched_getcpu();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    });
    return ran_on.load() >= 0;
  }));
  EXPECT_EQ(ran_on.load(), cpu);
}

TEST(ThreadPool, WorksWithCpusThatDoNotExist) {
  ThreadPool pool(ThreadPool::Options{3, {-1, 8191}});
  std::atomic<int64_t> sum{0};
  pool.parallel_for(100, [&](int64_t i, int) { sum += i; });
  EXPECT_EQ(sum.load(), 4950);
}

// Runs loops of two items, the caller holding its own until the other has begun, so that the other
// worker has a part in each. False when it never came.
bool run_until_helped(ThreadPool& pool, milliseconds pause) {
  std::atomic<bool> helped{false};
  const bool came = eventually([&] {
    pool.parallel_for(2, [&](int64_t, int worker) {
      if (worker == 1) {
        helped = true;
        std::this_thread::sleep_for(pause);
        return;
      }
      const auto start = Clock::now();
      while (!helped.load() && seconds_since(start) < 0.005) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    return helped.load();
  });
  return came;
}

TEST(ThreadPool, DoesWithoutAWorkerThatHeldAnItemWithoutACpuAndTakesItBackLater) {
  ThreadPool pool(2);
  ASSERT_TRUE(run_until_helped(pool, milliseconds(20)));
  ASSERT_TRUE(
      eventually([&] { return pool.stalls() > 0 || !run_until_helped(pool, milliseconds(20)); }));
  EXPECT_GE(pool.stalls(), 1);
  // For kRepay times the 20 ms; a part of that is surely not over yet.
  std::atomic<int> others{0};
  const auto start = Clock::now();
  while (seconds_since(start) < 0.03) {
    pool.parallel_for(8, [&](int64_t, int worker) {
      compute(1000);
      others += worker;
    });
  }
  EXPECT_EQ(others.load(), 0);
  EXPECT_TRUE(run_until_helped(pool, milliseconds(0)));
}

#if !defined(__SANITIZE_THREAD__)  // which delivers no signal to a thread that spins

std::atomic<bool> worker_held{false};
std::atomic<bool> worker_free{false};

void hold_worker(int) {
  worker_held.store(true);
  while (!worker_free.load()) {
  }
}

// The system's number of the thread of this process with that name, or 0.
pid_t thread_named(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string comm;
    if (std::getline(file, comm) && comm == name) return std::stoi(entry.path().filename());
  }
  return 0;
}

TEST(ThreadPool, FinishesLoopsWhileAWorkerIsDescheduled) {
  ThreadPool pool(2);
  ASSERT_TRUE(run_until_helped(pool, milliseconds(0)));
  struct sigaction action = {};
  action.sa_handler = hold_worker;
  ASSERT_EQ(::sigaction(SIGUSR2, &action, nullptr), 0);
  worker_held = false;
  worker_free = false;
  const pid_t worker = thread_named("strata-cpu-1");
  ASSERT_NE(worker, 0);
  ASSERT_EQ(::syscall(SYS_tgkill, ::getpid(), worker, SIGUSR2), 0);
  ASSERT_TRUE(eventually([] { return worker_held.load(); }));
  // A pool that waits for its workers stays in the first loop until `release`.
  int64_t sum = 0;
  const auto start = Clock::now();
  std::thread release([start] {
    while (!worker_free.load() && seconds_since(start) < 5) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    worker_free = true;
  });
  for (int round = 0; round < 10000; ++round) {
    pool.parallel_for(4, [&](int64_t i, int) { sum += i; });
  }
  EXPECT_FALSE(worker_free.load());
  EXPECT_EQ(sum, 60000);
  worker_free = true;
  release.join();
  EXPECT_TRUE(run_until_helped(pool, milliseconds(0)));
}

#endif

#if defined(STRATA_TIMED_TESTS)

// The test's thread and those it starts, on one CPU until the end of the scope.
class OnOneCpu {
 public:
  OnOneCpu() {
    ::sched_getaffinity(0, sizeof(before_), &before_);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before_)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof(one), &one);
  }
  ~OnOneCpu() { ::sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

// Another process that never gives up the CPU by itself; it inherits the CPUs of the caller.
class Competitor {
 public:
  Competitor() : child_(::fork()) {
    if (child_ == 0) {
      ::alarm(60);
      for (;;) compute(1000);
    }
  }
  ~Competitor() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_;
};

double wall_seconds() { return seconds_since(Clock::time_point()); }

// A few milliseconds like a decoded token: many short loops, some of them tiny.
double token(ThreadPool& pool, double (*clock)()) {
  const double start = clock();
  for (int layer = 0; layer < 20; ++layer) {
    for (int i = 0; i < 12; ++i) pool.parallel_for(4, [](int64_t, int) { compute(200); });
    pool.parallel_for(32, [](int64_t, int) { compute(1500); });
  }
  return clock() - start;
}

// The median over rounds of the time with two workers as a share of the time with one.
double two_to_one(double (*clock)()) {
  ThreadPool one(1);
  ThreadPool two(2);
  token(two, clock);
  std::vector<double> ratios;
  const auto start = Clock::now();
  while (ratios.size() < 41 && (ratios.size() < 9 || seconds_since(start) < 3)) {
    // In pairs of two orders, so that a drift hits both alike.
    const double a = token(one, clock);
    const double b = token(two, clock) + token(two, clock);
    ratios.push_back(b / (a + token(one, clock)));
  }
  std::nth_element(ratios.begin(), ratios.begin() + ratios.size() / 2, ratios.end());
  const double median = ratios[ratios.size() / 2];
  ::testing::Test::RecordProperty("two_to_one", std::to_string(median));
  return median;
}

TEST(ThreadPoolTime, TwoWorkersOnOneCpuUseNoMoreOfItThanOne) {
  const OnOneCpu pinned;
  EXPECT_LT(two_to_one(cpu_seconds), 1.1);
}

TEST(ThreadPoolTime, TwoWorkersOnOneCpuAreNoSlowerThanOne) {
  const OnOneCpu pinned;
  EXPECT_LT(two_to_one(wall_seconds), 1.2);
}

TEST(ThreadPoolTime, TwoWorkersNextToACompetitorOnOneCpuAreNoSlowerThanOne) {
  const OnOneCpu pinned;
  const Competitor competitor;
  EXPECT_LT(two_to_one(wall_seconds), 1.2);
}

TEST(ThreadPoolTime, TwoWorkersNextToACompetitorAreNoSlowerThanOne) {
  const Competitor competitor;
  EXPECT_LT(two_to_one(wall_seconds), 1.2);
}

TEST(ThreadPoolTime, TwoWorkersNextToTwoCompetitorsAreNoSlowerThanOne) {
  const Competitor first;
  const Competitor second;
  EXPECT_LT(two_to_one(wall_seconds), 1.2);
}

#endif

}  // namespace
}  // namespace strata
