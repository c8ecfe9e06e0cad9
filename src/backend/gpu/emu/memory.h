// Memory of one emulated device: host memory with a budget and a list of what is allocated, so that
// an address can be told from one of the host or of another device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace strata::gpu::emu {

// Thread-safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t budget) : budget_(budget) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Poisoned memory, aligned to 256 bytes; nullptr when the budget or the host has no more.
  void* allocate(size_t bytes);
  // False when `data` is not the start of an allocation.
  bool release(void* data);

  uint64_t budget() const { return budget_; }
  uint64_t used() const;
  uint64_t allocations() const;

  // [p, p + bytes) lies within one allocation.
  bool holds(const void* p, size_t bytes) const;
  // Any byte of [p, p + bytes) belongs to an allocation.
  bool touches(const void* p, size_t bytes) const;
  // The address lies in memory that was released lately.
  bool was_released(const void* p) const;
  // Calls f(begin, bytes) for each allocation, by address.
  template <class F>
  void for_each(F f) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, allocation] : live_) f(address, allocation.bytes);
  }
  // What wrote outside its allocation since the last call, as a clause.
  std::optional<std::string> find_overrun() const;

 private:
  struct Allocation {
    size_t bytes;
    size_t taken;  // of the budget
  };
  using Allocations = std::map<uintptr_t, Allocation>;
  static Allocations::const_iterator last_not_after(const Allocations& list, uintptr_t address);
  void forget_oldest();

  const uint64_t budget_;
  mutable std::mutex mutex_;
  Allocations live_;
  uint64_t used_ = 0;
  // Released memory stays mapped and poisoned for a while, so that late users of it read poison.
  Allocations released_;
  std::deque<uintptr_t> released_order_;
  size_t released_bytes_ = 0;
};

}  // namespace strata::gpu::emu
