#include "base/thread_pool.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <sched.h>

namespace strata {

namespace {

// Long enough to bridge the gap between two loops of one step, short enough that a core shared
// with another process is given up soon.
constexpr int kSpins = 4000;

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// CPUs granted by a cgroup v2 quota, or 0 when there is none.
int cgroup_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::stod(quota) / period));
}

}  // namespace

int ThreadPool::available_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const int quota = cgroup_cpus(); quota > 0) cpus = std::min(cpus, quota);
  return std::max(1, cpus);
}

ThreadPool::ThreadPool(int workers) {
  for (int i = 1; i < workers; ++i) threads_.emplace_back([this, i] { loop(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run(int64_t count, Thunk thunk, void* context) {
  if (count <= 0) return;
  if (threads_.empty() || count == 1) {
    for (int64_t i = 0; i < count; ++i) thunk(context, i, 0);
    return;
  }
  thunk_ = thunk;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  work(0);
  // Every worker must have left this loop before its fields may be reused.
  int left;
  for (int spins = 0; (left = busy_.load(std::memory_order_acquire)) != 0;) {
    if (++spins < kSpins) {
      cpu_relax();
    } else {
      busy_.wait(left, std::memory_order_acquire);
    }
  }
}

void ThreadPool::work(int worker) {
  for (;;) {
    const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= count_) return;
    thunk_(context_, i, worker);
  }
}

void ThreadPool::loop(int worker) {
  uint32_t seen = 0;
  for (;;) {
    uint32_t now;
    for (int spins = 0; (now = epoch_.load(std::memory_order_acquire)) == seen;) {
      if (++spins < kSpins) {
        cpu_relax();
      } else {
        epoch_.wait(seen, std::memory_order_acquire);
      }
    }
    seen = now;
    if (stop_.load(std::memory_order_relaxed)) return;
    work(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace strata
