#include "base/worker_count.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "base/thread_pool.h"

namespace strata {

namespace {

constexpr int kMaxWorkers = 1024;
constexpr double kTolerance = 1.03;
constexpr std::chrono::milliseconds kBetweenLooks{100};

// One batch: kLoops loops over kTasks stretches of memory each, like the matrix products of a
// token, with a loop of tiny tasks after each. Batches walk on through the buffer, which is larger
// than the L2 caches of all workers together as far as kMaxBytes allows.
constexpr int kLoops = 24;
constexpr int kTasks = 32;
constexpr int kTinyTasks = 4;
constexpr size_t kTaskBytes = 16 << 10;
constexpr size_t kBytesPerWorker = 2 << 20;
constexpr size_t kMinBytes = 12 << 20;
constexpr size_t kMaxBytes = 64 << 20;

class DecodeLikeBatch {
 public:
  // `most`: the largest number of workers that run() will be given.
  explicit DecodeLikeBatch(int most)
      : stretches_(static_cast<int64_t>(
            std::clamp(kBytesPerWorker * static_cast<size_t>(most), kMinBytes, kMaxBytes) /
            kTaskBytes)),
        weights_(
            std::make_unique_for_overwrite<int8_t[]>(static_cast<size_t>(stretches_) * kTaskBytes)),
        activations_(kTaskBytes, 3) {
    pool(most).parallel_for(stretches_, [&](int64_t stretch, int) {
      std::memset(weights_.get() + static_cast<size_t>(stretch) * kTaskBytes,
                  static_cast<int>(stretch % 100), kTaskBytes);
    });
  }

  ThreadPool& pool(int workers) {
    auto& pool = pools_[workers];
    if (!pool) pool = std::make_unique<ThreadPool>(workers);
    return *pool;
  }

  double run(int workers) {
    ThreadPool& threads = pool(workers);
    const auto start = std::chrono::steady_clock::now();
    for (int loop = 0; loop < kLoops; ++loop) {
      threads.parallel_for(kTasks, [&](int64_t task, int) {
        sums_[static_cast<size_t>(task)] += dot((next_ + task) % stretches_, kTaskBytes);
      });
      threads.parallel_for(kTinyTasks, [&](int64_t task, int) {
        sums_[static_cast<size_t>(task)] += dot(next_ % stretches_, kTaskBytes / 32);
      });
      next_ += kTasks;
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  int64_t sum() const { return std::accumulate(sums_.begin(), sums_.end(), int64_t{0}); }

 private:
  int64_t dot(int64_t stretch, size_t bytes) const {
    const int8_t* w = weights_.get() + static_cast<size_t>(stretch) * kTaskBytes;
    int32_t sum = 0;
    for (size_t i = 0; i < bytes; ++i) sum += int32_t{w[i]} * activations_[i];
    return sum;
  }

  std::map<int, std::unique_ptr<ThreadPool>> pools_;
  int64_t stretches_;
  int64_t next_ = 0;
  std::unique_ptr<int8_t[]> weights_;
  std::vector<int8_t> activations_;
  std::array<int64_t, kTasks> sums_ = {};
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

int worker_bound(const CpuTopology& topology) {
  int bound = topology.cores();
  if (topology.quota() > 0 && topology.quota() < bound) bound = static_cast<int>(topology.quota());
  return std::clamp(bound, 1, kMaxWorkers);
}

std::vector<int> worker_candidates(const CpuTopology& topology) {
  const int bound = worker_bound(topology);
  std::vector<int> candidates = {bound};
  for (int workers = 1; workers < bound; workers *= 2) candidates.push_back(workers);
  if (topology.performance_cores() < bound) candidates.push_back(topology.performance_cores());
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  return candidates;
}

WorkerChoice measure_workers(std::span<const int> candidates, const WorkerTimer& timer,
                             const SecondsClock& clock) {
  WorkerChoice choice;
  for (const int workers : candidates) choice.samples.push_back({workers, 0});
  if (choice.samples.empty()) choice.samples.push_back({1, 0});
  choice.workers = choice.samples.front().workers;
  if (choice.samples.size() == 1) return choice;

  std::vector<std::vector<double>> times(choice.samples.size());
  const double start = clock();
  for (int round = 0; round < kWorkerRounds; ++round) {
    if (round > 0 && clock() - start > kWorkerBudgetSeconds) break;
    for (size_t i = 0; i < times.size(); ++i) times[i].push_back(timer(choice.samples[i].workers));
  }
  for (size_t i = 0; i < times.size(); ++i) choice.samples[i].seconds = median(times[i]);
  const double best =
      std::min_element(choice.samples.begin(), choice.samples.end(),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; })
          ->seconds;
  for (const WorkerChoice::Sample& sample : choice.samples) {
    if (sample.seconds <= best * kTolerance) {
      choice.workers = sample.workers;
      break;
    }
  }
  return choice;
}

WorkerChoice measure_workers_repeatedly(std::span<const int> candidates, const WorkerTimer& timer,
                                        const SecondsClock& clock,
                                        const std::function<void()>& pause) {
  WorkerChoice choice = measure_workers(candidates, timer, clock);
  for (int look = 1; look < kWorkerLooks && choice.workers < choice.samples.back().workers; ++look) {
    pause();
    WorkerChoice again = measure_workers(candidates, timer, clock);
    if (again.workers > choice.workers) choice = std::move(again);
  }
  return choice;
}

WorkerChoice measure_workers(const CpuTopology& topology) {
  const std::vector<int> candidates = worker_candidates(topology);
  if (candidates.size() == 1) return {candidates.front(), {{candidates.front(), 0}}};
  DecodeLikeBatch batch(candidates.back());
  for (const int workers : candidates) batch.run(workers);
  WorkerChoice choice = measure_workers_repeatedly(
      candidates, [&](int workers) { return batch.run(workers); },
      [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
      },
      [] { std::this_thread::sleep_for(kBetweenLooks); });
  // The sums keep the compiler from leaving the work out; weights below 100 never sum to this.
  if (batch.sum() < 0) choice.samples.clear();
  return choice;
}

std::string describe(const WorkerChoice& choice, const CpuTopology& topology) {
  std::string text =
      fmt::format("{} worker{} (of {} core{}", choice.workers, choice.workers == 1 ? "" : "s",
                  topology.cores(), topology.cores() == 1 ? "" : "s");
  if (topology.performance_cores() < topology.cores()) {
    text += fmt::format(", {} of them performance cores", topology.performance_cores());
  }
  if (topology.quota() > 0) text += fmt::format(", quota {:.2g} CPUs", topology.quota());
  if (choice.samples.size() > 1) {
    text += "; measured: ";
    for (size_t i = 0; i < choice.samples.size(); ++i) {
      text += fmt::format("{}{} -> {:.3g} ms", i == 0 ? "" : ", ", choice.samples[i].workers,
                          choice.samples[i].seconds * 1e3);
    }
  }
  return text + ")";
}

}  // namespace strata
