#include "backend/gpu/emu/block_pool.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "backend/gpu/emu/random.h"

namespace strata::gpu::emu {

namespace {
using Clock = std::chrono::steady_clock;
// A launch shorter than this is over before a helper would be awake.
constexpr auto kWorthHelp = std::chrono::microseconds(30);
}  // namespace

struct BlockPool::Job {
  const KernelLaunch* launch;
  uint64_t total;
  // Block number i of the order is (start + i * stride) % total, the stride prime to the total.
  uint64_t start;
  uint64_t stride;
  uint64_t seed;
  std::atomic<uint64_t> next{0};
  bool offered = false;                  // of the owner alone
  int helping = 0;                       // under the pool's mutex
  std::optional<std::string> failure{};  // under the pool's mutex
};

BlockPool::BlockPool(int helpers) {
  for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { help(); });
}

BlockPool::~BlockPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<BlockRunner> BlockPool::borrow() {
  {
    const std::lock_guard lock(mutex_);
    if (!runners_.empty()) {
      auto runner = std::move(runners_.back());
      runners_.pop_back();
      return runner;
    }
  }
  return std::make_unique<BlockRunner>();
}

void BlockPool::give_back(std::unique_ptr<BlockRunner> runner) {
  const std::lock_guard lock(mutex_);
  runners_.push_back(std::move(runner));
}

std::optional<std::string> BlockPool::run(const KernelLaunch& launch, uint64_t seed) {
  const uint64_t total = static_cast<uint64_t>(launch.grid.x) *
                         static_cast<uint64_t>(launch.grid.y) *
                         static_cast<uint64_t>(launch.grid.z);
  uint64_t stride = total < 3 ? 1 : 1 + mix(seed, 1) % (total - 1);
  while (std::gcd(stride, total) != 1) ++stride;
  Job job{.launch = &launch,
          .total = total,
          .start = mix(seed, 2) % total,
          .stride = stride % total,
          .seed = seed};
  if (total == 1) job.stride = 1;

  auto runner = borrow();
  work(job, *runner, true);
  give_back(std::move(runner));

  std::unique_lock lock(mutex_);
  if (job.offered) {
    const auto at = std::find(jobs_.begin(), jobs_.end(), &job);
    if (at != jobs_.end()) jobs_.erase(at);
    left_.wait(lock, [&] { return job.helping == 0; });
  }
  return std::move(job.failure);
}

void BlockPool::work(Job& job, BlockRunner& runner, bool owner) {
  const auto begin = owner && !threads_.empty() ? Clock::now() : Clock::time_point();
  const auto x = static_cast<uint64_t>(job.launch->grid.x);
  const auto y = static_cast<uint64_t>(job.launch->grid.y);
  for (;;) {
    const uint64_t i = job.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= job.total) return;
    const uint64_t place = (job.start + i * job.stride) % job.total;
    const Grid block{.x = static_cast<int>(place % x),
                     .y = static_cast<int>(place / x % y),
                     .z = static_cast<int>(place / x / y)};
    if (auto failure = runner.run(*job.launch, block, mix(job.seed, place + 3))) {
      job.next.store(job.total, std::memory_order_relaxed);
      const std::lock_guard lock(mutex_);
      if (!job.failure) job.failure = std::move(failure);
      return;
    }
    if (owner && !job.offered && !threads_.empty() && i + 2 < job.total &&
        Clock::now() - begin > kWorthHelp) {
      job.offered = true;
      {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(&job);
      }
      wake_.notify_all();
    }
  }
}

void BlockPool::help() {
  auto runner = std::make_unique<BlockRunner>();
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job& job = *jobs_.front();
    ++job.helping;
    lock.unlock();
    work(job, *runner, false);
    lock.lock();
    // Nothing is left of it to start.
    const auto at = std::find(jobs_.begin(), jobs_.end(), &job);
    if (at != jobs_.end()) jobs_.erase(at);
    if (--job.helping == 0) left_.notify_all();
  }
}

}  // namespace strata::gpu::emu
