#include "backend/gpu/emu/stream.h"

#include <atomic>
#include <utility>

#include "backend/gpu/emu/random.h"

namespace strata::gpu::emu {

Stream::Stream(uint64_t seed, int max_delay_us)
    : seed_(seed), max_delay_us_(max_delay_us), thread_([this] { serve(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Stream::submit(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++submitted_;
  }
  wake_.notify_one();
}

void Stream::drain() {
  std::unique_lock lock(mutex_);
  const uint64_t goal = submitted_;
  progress_.wait(lock, [&] { return finished_ >= goal; });
}

void Stream::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    const uint64_t position = finished_;
    lock.unlock();
    delay(position);
    work();
    work = nullptr;
    lock.lock();
    ++finished_;
    progress_.notify_all();
  }
}

void Stream::delay(uint64_t position) const {
  if (max_delay_us_ == 0) return;
  // Some work late and most at once: both bring out what relies on an order nobody asked for.
  const uint64_t random = mix(seed_, position);
  if (random % 8 != 0) return;
  std::this_thread::sleep_for(
      std::chrono::microseconds((random >> 8) % static_cast<uint64_t>(max_delay_us_ + 1)));
}

void wait_for_flag(const uint32_t& flag, uint32_t value) {
  const std::atomic_ref<uint32_t> seen(const_cast<uint32_t&>(flag));
  while (static_cast<int32_t>(seen.load(std::memory_order_acquire) - value) < 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Moment::reach() {
  {
    const std::lock_guard lock(mutex_);
    time_ = Clock::now();
    reached_ = true;
  }
  changed_.notify_all();
}

void Moment::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_; });
}

bool Moment::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

Moment::Clock::time_point Moment::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

std::shared_ptr<Moment> Event::record() {
  const std::lock_guard lock(mutex_);
  latest_ = std::make_shared<Moment>();
  return latest_;
}

std::shared_ptr<Moment> Event::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace strata::gpu::emu
