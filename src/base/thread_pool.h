// A fixed set of workers for data-parallel loops. The calling thread works too. Between loops,
// workers spin briefly and then sleep, so an idle engine costs nothing and a busy one little.
//
// How work is cut never changes a result: loop bodies write disjoint outputs.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace strata {

class ThreadPool {
 public:
  // `workers` >= 1 counts the calling thread.
  explicit ThreadPool(int workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(i, worker) for every i in [0, count), in any order, and returns when all are done.
  // worker is in [0, workers()). Not reentrant; one caller at a time. body must not throw.
  template <class Body>
  void parallel_for(int64_t count, Body&& body) {
    using Fn = std::remove_reference_t<Body>;
    run(count, [](void* context, int64_t i, int worker) { (*static_cast<Fn*>(context))(i, worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  // CPUs this process may use: affinity mask and cgroup quota respected; at least 1.
  static int available_cpus();

 private:
  using Thunk = void (*)(void* context, int64_t i, int worker);
  void run(int64_t count, Thunk thunk, void* context);
  void work(int worker);
  void loop(int worker);

  std::vector<std::thread> threads_;
  Thunk thunk_ = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> busy_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace strata
