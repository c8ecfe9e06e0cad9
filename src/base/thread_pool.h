// A fixed set of workers for data-parallel loops, made for many short loops one after another (a
// decoded token has hundreds, most of them a few microseconds long). The calling thread works too.
//
// One atomic word holds the number of items that nobody has claimed yet. Whoever takes n from it
// owns n items, and the loop's fields stay valid until those are reported; a worker that arrives
// late finds zero, or items of the loop that runs now, and never touches a loop it has no part in.
// So the caller waits only for items that were claimed, never for a worker that the operating
// system has put aside: alone it finishes every loop.
//
// Helping must not cost more than it brings, also on a machine that others use:
//   - an idle worker spins for a time that adapts to what it has seen, then sleeps; waking it costs
//     the caller a system call, and none is made while enough workers are awake;
//   - after a wake that took t, and after a wait of t for a worker that held an item but had no
//     CPU, the pool does without for kRepay * t. What helping can lose is thus 1 / kRepay of the
//     time at most.
//
// How work is cut never changes a result: loop bodies write disjoint outputs.
// Starting a loop neither allocates nor locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace strata {

class ThreadPool {
 public:
  static constexpr int64_t kRepay = 8;

  struct Options {
    int workers = 1;  // counts the calling thread; below 1 is taken as 1
    // Worker i > 0 stays on cpus[i % cpus.size()]; CPUs that do not exist are ignored. Empty: the
    // operating system places them, which is better wherever others use the machine too. The
    // calling thread, worker 0, is never moved.
    std::vector<int> cpus;
  };

  explicit ThreadPool(int workers) : ThreadPool(Options{workers, {}}) {}
  // When the operating system refuses a thread the pool has fewer workers than asked for.
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const { return helpers_ + 1; }

  // Calls body(i, worker) once for every i in [0, count) and returns when all calls have returned;
  // the effects are then visible to the caller. worker is in [0, workers()); no two concurrent
  // calls have the same. Items are claimed in rising order, `grain` or more at a time: give a grain
  // above 1 where one item takes well below a microsecond. Not reentrant; one caller at a time,
  // from any thread. body must not throw.
  template <class Body>
  void parallel_for(int64_t count, Body&& body, int64_t grain = 1) {
    using Fn = std::remove_reference_t<Body>;
    run(
        count, grain,
        [](void* context, int64_t begin, int64_t end, int worker) {
          Fn& fn = *static_cast<Fn*>(context);
          for (int64_t i = begin; i < end; ++i) fn(i, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  // Times a sleeping worker was woken, and times one was put aside because it held an item without
  // having a CPU. For the caller of parallel_for; counted since construction.
  int64_t wakes() const { return wakes_; }
  int64_t stalls() const { return stalls_; }

 private:
  using Thunk = void (*)(void* context, int64_t begin, int64_t end, int worker);
  struct Helper;

  void run(int64_t count, int64_t grain, Thunk thunk, void* context);
  int64_t work(int worker);
  void wake(int wanted);
  void finish(int64_t expected);
  void sleep_until_reported(int64_t expected);
  void put_aside_stalled();
  void take_back_due();

  void loop(int worker);
  void report(Helper& self, int64_t items);
  bool spin(int64_t& budget_ns) const;
  void sleep(Helper& self);

  std::unique_ptr<Helper[]> helper_;
  int helpers_ = 0;

  // Of the caller alone.
  int aside_ = 0;
  int64_t wake_allowed_at_ = 0;
  int64_t wakes_ = 0;
  int64_t stalls_ = 0;

  // The running loop; written by the caller while nobody can hold a claim.
  alignas(64) Thunk thunk_ = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> grain_{1};  // read before a claim: a late helper may see any loop's

  alignas(64) std::atomic<int64_t> unclaimed_{0};
  std::atomic<int> sleepers_{0};  // read at every loop, written around sleep only
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int64_t> reported_{0};  // items that helpers have done in this loop
  std::atomic<uint32_t> caller_sleeps_{0};
};

}  // namespace strata
