// The asynchronous queue of an emulated device: a thread of its own that runs what is submitted in
// order, each piece after a delay that follows from the seed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace strata::gpu::emu {

// Thread-safe.
class Stream {
 public:
  Stream(uint64_t seed, int max_delay_us);
  // Runs what was submitted.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void submit(std::function<void()> work);
  // Waits until everything submitted before has run.
  void drain();

 private:
  void serve();
  void delay(uint64_t position) const;

  const uint64_t seed_;
  const int max_delay_us_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable progress_;
  std::deque<std::function<void()>> queue_;
  uint64_t submitted_ = 0;
  uint64_t finished_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// Returns once `flag` is `value` or one up to 2^31 later. Whoever sets it wakes nobody, as on real cards.
void wait_for_flag(const uint32_t& flag, uint32_t value);

// One recording of an event.
class Moment {
 public:
  using Clock = std::chrono::steady_clock;
  void reach();
  void wait();
  bool reached() const;
  // Of a moment that was reached.
  Clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  Clock::time_point time_{};
};

// Thread-safe.
class Event {
 public:
  explicit Event(int device) : device_(device) {}
  int device() const { return device_; }
  std::shared_ptr<Moment> record();
  // The latest recording; nullptr before the first.
  std::shared_ptr<Moment> latest() const;

 private:
  const int device_;
  mutable std::mutex mutex_;
  std::shared_ptr<Moment> latest_;
};

}  // namespace strata::gpu::emu
