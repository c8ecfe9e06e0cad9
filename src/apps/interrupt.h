// SIGINT and SIGTERM as something to wait for, instead of something that strikes.
#pragma once

#include <functional>
#include <thread>

namespace strata::apps {

// From construction to destruction the two signals do nothing by themselves: they make descriptor()
// readable. Construct it before any thread is started, so that none of them takes a signal.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  // Readable while a signal waits. -1 when the system gave none; then no signal is ever seen.
  int descriptor() const { return descriptor_; }

  // Takes a signal that comes within `timeout_ms` (0: only look; -1: wait for one): its number, or
  // 0.
  int wait(int timeout_ms);

 private:
  int descriptor_ = -1;
};

// While it lives, another thread calls `on_signal` with every signal that comes.
class SignalWatch {
 public:
  SignalWatch(SignalQueue& signals, std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  int stop_ = -1;  // an eventfd
  std::thread thread_;
};

}  // namespace strata::apps
