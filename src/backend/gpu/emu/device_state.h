// One emulated device inside the runtime.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "backend/gpu/emu/emu_runtime.h"
#include "backend/gpu/emu/faults.h"
#include "backend/gpu/emu/memory.h"
#include "backend/gpu/emu/spec.h"
#include "backend/gpu/emu/stream.h"
#include "backend/gpu/runtime.h"

namespace strata::gpu::emu {

// Thread-safe.
class DeviceState {
 public:
  DeviceState(DeviceSpec spec, int ordinal)
      : spec(std::move(spec)), ordinal(ordinal), memory(this->spec.memory_bytes) {}

  const DeviceSpec spec;
  const int ordinal;
  DeviceMemory memory;

  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> launches_done{0};
  std::atomic<uint64_t> copies{0};
  std::atomic<uint64_t> peer_copies{0};
  std::atomic<uint64_t> copies_done[3] = {};  // by CopyKind
  std::atomic<uint64_t> copies_to_host{0};
  std::atomic<uint64_t> allocation_calls{0};
  std::atomic<uint64_t> streams_made{0};

  // What a test holds back; work of that kind stands still on its stream.
  void hold(const EmuHold& what) {
    const std::lock_guard lock(mutex_);
    held_ = what;
    hold_changed_.notify_all();
  }
  void pass_launch() { pass([](const EmuHold& held) { return held.launches; }); }
  void pass_copy(CopyKind kind, size_t bytes) {
    pass([=](const EmuHold& held) { return held.copies == kind && bytes >= held.least_bytes; });
  }

  // What the device was told to do wrong at its copy `number`, which goes to `queue`.
  RuntimeResult count_copy(Stream& queue, uint64_t number) {
    if (number == spec.fail_copy) {
      return fault(RuntimeFault::kOther, 999, "emuErrorUnknown", "the copy was refused");
    }
    if (number == spec.late_error_at_copy) {
      queue.submit([this] { set_error(launch_failure("a copy met an illegal address")); });
    }
    return {};
  }

  // Why `p`, which `owner` has if any device does, is no place for `side` of an operation here.
  std::string misplaced(const char* side, const DeviceState* owner, const void* p,
                        size_t bytes) const {
    const char* what = "memory of another device";
    if (owner == this) {
      what = "only partly within an allocation";
    } else if (owner == nullptr) {
      what = memory.was_released(p) ? "released memory" : "memory of the host";
    }
    return fmt::format("{} ({} bytes) must lie in an allocation of device {}, but is {}", side,
                       bytes, ordinal, what);
  }

  // The first error of work in flight stays.
  void set_error(RuntimeResult error) {
    const std::lock_guard lock(mutex_);
    if (!error_.ok()) return;
    error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }
  RuntimeResult error() const {
    if (!failed()) return {};
    const std::lock_guard lock(mutex_);
    return error_;
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  RuntimeStream add(std::shared_ptr<Stream> stream) {
    const std::lock_guard lock(mutex_);
    RuntimeStream key = stream.get();
    streams_.emplace(key, std::move(stream));
    return key;
  }
  std::shared_ptr<Stream> stream(RuntimeStream key) const {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(key);
    return found == streams_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Stream> remove(RuntimeStream key) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(key);
    if (found == streams_.end()) return nullptr;
    auto stream = std::move(found->second);
    streams_.erase(found);
    return stream;
  }
  // Waits for all streams.
  void drain() const {
    std::vector<std::shared_ptr<Stream>> all;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, stream] : streams_) all.push_back(stream);
    }
    for (const auto& stream : all) stream->drain();
  }
  void drop_streams() {
    std::map<RuntimeStream, std::shared_ptr<Stream>> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(streams_);
    }
  }
  uint64_t live_streams() const {
    const std::lock_guard lock(mutex_);
    return streams_.size();
  }

  // Shared memory that blocks of `entry` may ask for beyond the default.
  void allow_shared(const void* entry, int bytes) {
    const std::lock_guard lock(mutex_);
    allowed_shared_[entry] = bytes;
  }
  int allowed_shared(const void* entry) const {
    const std::lock_guard lock(mutex_);
    const auto found = allowed_shared_.find(entry);
    return found == allowed_shared_.end() ? 0 : found->second;
  }

 private:
  template <class Held>
  void pass(Held&& is_held) {
    std::unique_lock lock(mutex_);
    hold_changed_.wait(lock, [&] { return !is_held(held_); });
  }

  mutable std::mutex mutex_;
  EmuHold held_;
  std::condition_variable hold_changed_;
  std::atomic<bool> failed_{false};
  RuntimeResult error_;
  std::map<RuntimeStream, std::shared_ptr<Stream>> streams_;
  std::map<const void*, int> allowed_shared_;
};

}  // namespace strata::gpu::emu
