#include "backend/gpu/emu/memory.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace strata::gpu::emu {

namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGuardBytes = 64;  // behind each allocation
constexpr size_t kKeptBytes = size_t{64} << 20;
constexpr unsigned char kPoison = 0xff;  // NaN, -1
constexpr unsigned char kGuard = 0xb7;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// AddressSanitizer watches what lies outside an allocation, and released memory, by itself.
void hide(const void* p, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(p, bytes);
#else
  (void)p;
  (void)bytes;
#endif
}
void unhide(const void* p, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(p, bytes);
#else
  (void)p;
  (void)bytes;
#endif
}
constexpr bool kGuardsReadable =
#if defined(__SANITIZE_ADDRESS__)
    false;
#else
    true;
#endif

// Kernel parameters are searched for addresses word by word, and half a word may be an integer of
// theirs with anything beside it. So no allocation has an address whose lower half is that of a small
// integer, unless it is too large to avoid them.
constexpr uint64_t kHalf = uint64_t{1} << 32;
constexpr uint64_t kSmallIntegers = uint64_t{1} << 24;

bool looks_like_integers(const void* data, size_t bytes) {
  const uint64_t low = reinterpret_cast<uintptr_t>(data) % kHalf;
  return low < kSmallIntegers || low + bytes > kHalf - kSmallIntegers;
}

void* take_block(size_t bytes) {
  std::vector<void*> avoided;
  void* data = std::aligned_alloc(kAlignment, bytes);
  while (data != nullptr && bytes < kHalf / 2 && looks_like_integers(data, bytes)) {
    avoided.push_back(data);
    data = std::aligned_alloc(kAlignment, bytes);
  }
  for (void* block : avoided) std::free(block);
  return data;
}

void free_block(uintptr_t address, size_t bytes) {
  unhide(reinterpret_cast<void*>(address), bytes + kGuardBytes);
  std::free(reinterpret_cast<void*>(address));
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, allocation] : live_) free_block(address, allocation.bytes);
  for (const auto& [address, allocation] : released_) free_block(address, allocation.bytes);
}

void* DeviceMemory::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > budget_) return nullptr;
  const size_t taken = round_up(bytes == 0 ? 1 : bytes);
  if (taken > budget_ - used_) return nullptr;
  void* data = take_block(round_up(taken + kGuardBytes));
  if (data == nullptr) return nullptr;
  std::memset(data, kPoison, bytes);
  std::memset(static_cast<std::byte*>(data) + bytes, kGuard, kGuardBytes);
  hide(static_cast<std::byte*>(data) + bytes, kGuardBytes);
  used_ += taken;
  live_.emplace(reinterpret_cast<uintptr_t>(data), Allocation{bytes, taken});
  return data;
}

bool DeviceMemory::release(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(reinterpret_cast<uintptr_t>(data));
  if (found == live_.end()) return false;
  const Allocation allocation = found->second;
  std::memset(data, kPoison, allocation.bytes);
  hide(data, allocation.bytes);
  used_ -= allocation.taken;
  live_.erase(found);
  released_.emplace(reinterpret_cast<uintptr_t>(data), allocation);
  released_order_.push_back(reinterpret_cast<uintptr_t>(data));
  released_bytes_ += allocation.taken;
  while (released_bytes_ > kKeptBytes) forget_oldest();
  return true;
}

void DeviceMemory::forget_oldest() {
  const auto oldest = released_.find(released_order_.front());
  released_order_.pop_front();
  released_bytes_ -= oldest->second.taken;
  free_block(oldest->first, oldest->second.bytes);
  released_.erase(oldest);
}

uint64_t DeviceMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

uint64_t DeviceMemory::allocations() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

DeviceMemory::Allocations::const_iterator DeviceMemory::last_not_after(const Allocations& list,
                                                                       uintptr_t address) {
  auto it = list.upper_bound(address);
  return it == list.begin() ? list.end() : std::prev(it);
}

bool DeviceMemory::holds(const void* p, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(p);
  const auto it = last_not_after(live_, address);
  if (it == live_.end()) return false;
  const uintptr_t offset = address - it->first;
  return offset <= it->second.bytes && bytes <= it->second.bytes - offset;
}

bool DeviceMemory::touches(const void* p, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(p);
  const auto it = last_not_after(live_, address);
  if (it != live_.end() && address - it->first < it->second.bytes) return true;
  const auto next = live_.lower_bound(address);
  return next != live_.end() && next->first - address < bytes;
}

bool DeviceMemory::was_released(const void* p) const {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(p);
  const auto it = last_not_after(released_, address);
  return it != released_.end() && address - it->first < it->second.bytes;
}

std::optional<std::string> DeviceMemory::find_overrun() const {
  if constexpr (!kGuardsReadable) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const auto& [address, allocation] : live_) {
    const auto* guard = reinterpret_cast<const unsigned char*>(address) + allocation.bytes;
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (guard[i] != kGuard) {
        return fmt::format("something wrote {} bytes past the end of an allocation of {} bytes", i,
                           allocation.bytes);
      }
    }
  }
  return std::nullopt;
}

}  // namespace strata::gpu::emu
