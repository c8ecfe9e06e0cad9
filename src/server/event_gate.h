// Lets engine events through to a connection until the connection is no longer interested.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "engine/engine.h"

namespace strata::server {

// An engine may hold an event sink longer than the server lives. The sink therefore holds only the
// gate, and once close() has returned the target is neither running nor called again. Thread-safe.
// The target must not block and must not call the gate.
class EventGate {
 public:
  using Target = std::function<void(const engine::Event&)>;

  explicit EventGate(Target target) : target_(std::move(target)) {}

  void deliver(const engine::Event& event) {
    const std::lock_guard lock(mutex_);
    if (target_) target_(event);
  }

  void close() {
    Target gone;  // destroyed outside the lock: it may own the connection
    const std::lock_guard lock(mutex_);
    gone.swap(target_);
  }

 private:
  std::mutex mutex_;
  Target target_;
};

}  // namespace strata::server
