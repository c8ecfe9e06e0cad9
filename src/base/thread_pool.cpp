#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

namespace strata {

namespace {

enum State : uint32_t { kAwake, kAsleep };

constexpr int kPausesPerLook = 32;  // between two looks at the clock: a microsecond or so
// An idle helper spins between these bounds: the upper one bridges what lies between two loops of
// a step, the lower one is about what a wake costs.
constexpr int64_t kSpinMin = 5'000;  // ns
constexpr int64_t kSpinMax = 200'000;
constexpr int64_t kYieldAfter = 10'000;
// A gap between two looks at the clock that only another user of the CPU explains.
constexpr int64_t kPreempted = 100'000;
// The caller waits this long for claimed items before it offers its CPU, then before it sleeps.
constexpr int64_t kCallerYieldAfter = 20'000;
constexpr int64_t kCallerSleepAfter = 100'000;
constexpr int64_t kAsideMax = 1'000'000'000;
// Claims shrink with what is left: few claims on a long loop, single items at its end.
constexpr int64_t kClaimsPerWorker = 8;

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t cpu_ns(clockid_t clock) {
  timespec t = {};
  if (::clock_gettime(clock, &t) != 0) return -1;
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Pages that the calling thread has waited for since it began.
int64_t major_faults() {
  rusage usage = {};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
}

void stay_on(int cpu) {
  if (cpu < 0) return;
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpu) + 1);
  if (set == nullptr) return;
  const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpu) + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  ::pthread_setaffinity_np(::pthread_self(), bytes, set);
  CPU_FREE(set);
}

}  // namespace

struct alignas(64) ThreadPool::Helper {
  std::atomic<uint32_t> state{kAwake};
  std::atomic<bool> aside{false};    // may not claim
  std::atomic<bool> holding{false};  // has, or is about to try for, a claim

  // While the caller sleeps on a claim of this helper: where both clocks stood when it began
  // (by the caller), and how much of the time since then the helper had no CPU (by the helper).
  std::atomic<int64_t> wall_mark{0};
  std::atomic<int64_t> cpu_mark{0};
  std::atomic<int64_t> lacked{0};

  int64_t major_faults = 0;  // of the helper
  clockid_t cpu_clock = 0;
  bool has_cpu_clock = false;
  int64_t back_at = 0;  // of the caller
  std::thread thread;
};

ThreadPool::ThreadPool(const Options& options) {
  const int wanted = std::max(0, options.workers - 1);
  if (wanted == 0) return;
  helper_ = std::make_unique<Helper[]>(static_cast<size_t>(wanted));
  for (int i = 0; i < wanted; ++i) {
    Helper& helper = helper_[static_cast<size_t>(i)];
    const int cpu =
        options.cpus.empty() ? -1 : options.cpus[static_cast<size_t>(i + 1) % options.cpus.size()];
    try {
      helper.thread = std::thread([this, i, cpu] {
        ::pthread_setname_np(::pthread_self(), ("strata-cpu-" + std::to_string(i + 1)).c_str());
        stay_on(cpu);
        loop(i + 1);
      });
    } catch (const std::system_error&) {
      return;
    }
    helper.has_cpu_clock =
        ::pthread_getcpuclockid(helper.thread.native_handle(), &helper.cpu_clock) == 0;
    ++helpers_;
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  for (int i = 0; i < helpers_; ++i) {
    Helper& helper = helper_[static_cast<size_t>(i)];
    helper.state.store(kAwake);
    helper.state.notify_one();
    helper.thread.join();
  }
}

void ThreadPool::run(int64_t count, int64_t grain, Thunk thunk, void* context) {
  if (count <= 0) return;
  if (aside_ > 0) take_back_due();
  const int64_t step = std::max<int64_t>(1, grain);
  const int64_t claims = (count - 1) / step + 1;
  const int useful = static_cast<int>(std::min<int64_t>(claims - 1, helpers_ - aside_));
  if (useful <= 0) {
    thunk(context, 0, count, 0);
    return;
  }
  thunk_ = thunk;
  context_ = context;
  count_ = count;
  grain_.store(step, std::memory_order_relaxed);
  reported_.store(0, std::memory_order_relaxed);
  // Sequentially consistent with sleep(): either the helper sees the items or it is seen asleep.
  unclaimed_.store(count);
  if (const int asleep = sleepers_.load(); asleep > helpers_ - useful) {
    wake(asleep - (helpers_ - useful));
  }
  const int64_t own = work(0);
  if (own != count) finish(count - own);
}

// Claims and runs items until none is left; returns how many.
int64_t ThreadPool::work(int worker) {
  int64_t done = 0;
  int64_t left = unclaimed_.load(std::memory_order_acquire);
  while (left > 0) {
    const int64_t share = left / (kClaimsPerWorker * workers());
    const int64_t take = std::min(left, std::max(share, grain_.load(std::memory_order_relaxed)));
    if (!unclaimed_.compare_exchange_weak(left, left - take, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      continue;
    }
    const int64_t begin = count_ - left;
    thunk_(context_, begin, begin + take, worker);
    done += take;
    left = unclaimed_.load(std::memory_order_relaxed);
  }
  return done;
}

void ThreadPool::wake(int wanted) {
  const int64_t start = now_ns();
  if (start < wake_allowed_at_) return;
  for (int i = 0; i < helpers_ && wanted > 0; ++i) {
    Helper& helper = helper_[static_cast<size_t>(i)];
    if (helper.aside.load(std::memory_order_relaxed)) continue;
    uint32_t asleep = kAsleep;
    if (!helper.state.compare_exchange_strong(asleep, kAwake)) continue;
    sleepers_.fetch_sub(1);
    helper.state.notify_one();
    ++wakes_;
    --wanted;
  }
  wake_allowed_at_ = start + kRepay * (now_ns() - start);
}

void ThreadPool::finish(int64_t expected) {
  int64_t start = 0;
  while (reported_.load(std::memory_order_acquire) != expected) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      cpu_relax();
      if (reported_.load(std::memory_order_acquire) == expected) return;
    }
    const int64_t now = now_ns();
    if (start == 0) start = now;
    if (now - start > kCallerSleepAfter) {
      sleep_until_reported(expected);
      return;
    }
    if (now - start > kCallerYieldAfter) ::sched_yield();
  }
}

void ThreadPool::sleep_until_reported(int64_t expected) {
  const int64_t start = now_ns();
  for (int i = 0; i < helpers_; ++i) {
    Helper& helper = helper_[static_cast<size_t>(i)];
    const bool marked = helper.holding.load(std::memory_order_relaxed) && helper.has_cpu_clock;
    helper.lacked.store(0, std::memory_order_relaxed);
    helper.cpu_mark.store(marked ? cpu_ns(helper.cpu_clock) : -1, std::memory_order_relaxed);
    helper.wall_mark.store(start, std::memory_order_relaxed);
  }
  for (;;) {
    caller_sleeps_.store(1);
    if (reported_.load() == expected) break;
    caller_sleeps_.wait(1);
  }
  caller_sleeps_.store(0);
  put_aside_stalled();
}

void ThreadPool::put_aside_stalled() {
  const int64_t now = now_ns();
  for (int i = 0; i < helpers_; ++i) {
    Helper& helper = helper_[static_cast<size_t>(i)];
    const int64_t lacked = helper.lacked.load(std::memory_order_relaxed);
    if (lacked < kPreempted || helper.aside.load(std::memory_order_relaxed)) continue;
    helper.back_at = now + std::min(kAsideMax, kRepay * (lacked + kCallerSleepAfter));
    helper.aside.store(true, std::memory_order_relaxed);
    ++aside_;
    ++stalls_;
  }
}

void ThreadPool::take_back_due() {
  const int64_t now = now_ns();
  for (int i = 0; i < helpers_; ++i) {
    Helper& helper = helper_[static_cast<size_t>(i)];
    if (!helper.aside.load(std::memory_order_relaxed) || now < helper.back_at) continue;
    helper.aside.store(false, std::memory_order_relaxed);
    --aside_;
  }
}

void ThreadPool::loop(int worker) {
  Helper& self = helper_[static_cast<size_t>(worker - 1)];
  int64_t budget_ns = kSpinMax;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (self.aside.load(std::memory_order_relaxed)) {
      sleep(self);
      continue;
    }
    if (unclaimed_.load(std::memory_order_relaxed) > 0) {
      self.holding.store(true, std::memory_order_relaxed);
      if (const int64_t items = work(worker); items > 0) report(self, items);
      self.holding.store(false, std::memory_order_relaxed);
    }
    if (!spin(budget_ns)) sleep(self);
  }
}

void ThreadPool::report(Helper& self, int64_t items) {
  if (caller_sleeps_.load() != 0) {
    const int64_t mark = self.cpu_mark.load(std::memory_order_relaxed);
    const int64_t used = mark < 0 ? -1 : cpu_ns(CLOCK_THREAD_CPUTIME_ID) - mark;
    // Waiting for storage is no sign of contention: two that wait at once are faster than one.
    const int64_t faults = major_faults();
    const bool read_storage = faults > std::exchange(self.major_faults, faults);
    if (used >= 0 && !read_storage) {
      const int64_t wall = now_ns() - self.wall_mark.load(std::memory_order_relaxed);
      self.lacked.store(wall - used, std::memory_order_relaxed);
    }
  }
  // Sequentially consistent with sleep_until_reported(): either the caller sees the items or it is
  // seen asleep.
  reported_.fetch_add(items);
  if (caller_sleeps_.load() != 0) {
    caller_sleeps_.store(0);
    caller_sleeps_.notify_one();
  }
}

// True as soon as there is something to do, false when it is time to sleep.
bool ThreadPool::spin(int64_t& budget_ns) const {
  int64_t start = 0;
  int64_t last = 0;
  for (;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (unclaimed_.load(std::memory_order_relaxed) > 0 || stop_.load(std::memory_order_relaxed)) {
        budget_ns = std::min(kSpinMax, 2 * budget_ns);
        return true;
      }
      cpu_relax();
    }
    const int64_t now = now_ns();
    if (start == 0) start = last = now;
    if (now - last > kPreempted) {
      budget_ns = kSpinMin;
      return false;
    }
    if (now - start > budget_ns) {
      budget_ns = std::max(kSpinMin, budget_ns / 2);
      return false;
    }
    last = now;
    if (now - start > kYieldAfter) ::sched_yield();
  }
}

void ThreadPool::sleep(Helper& self) {
  self.state.store(kAsleep);
  sleepers_.fetch_add(1);
  const bool aside = self.aside.load(std::memory_order_relaxed);
  if (!stop_.load() && (aside || unclaimed_.load() <= 0)) self.state.wait(kAsleep);
  uint32_t asleep = kAsleep;
  if (self.state.compare_exchange_strong(asleep, kAwake)) sleepers_.fetch_sub(1);
}

}  // namespace strata
