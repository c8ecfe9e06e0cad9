#include "apps/interrupt.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace strata::apps {

namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

SignalQueue::SignalQueue() {
  const sigset_t set = stop_signals();
  descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ >= 0) pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalQueue::~SignalQueue() {
  if (descriptor_ < 0) return;
  // A signal that came too late to be seen has been answered by ending.
  while (wait(0) != 0) {
  }
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  close(descriptor_);
}

int SignalQueue::wait(int timeout_ms) {
  pollfd entry = {descriptor_, POLLIN, 0};
  if (poll(&entry, 1, timeout_ms) <= 0) return 0;
  signalfd_siginfo info;
  const bool taken = read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);
  return taken ? static_cast<int>(info.ssi_signo) : 0;
}

SignalWatch::SignalWatch(SignalQueue& signals, std::function<void(int)> on_signal)
    : stop_(eventfd(0, EFD_CLOEXEC)) {
  thread_ = std::thread([this, &signals, on_signal = std::move(on_signal)] {
    for (;;) {
      std::array<pollfd, 2> entries = {pollfd{stop_, POLLIN, 0},
                                       pollfd{signals.descriptor(), POLLIN, 0}};
      if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return;
      if (entries[0].revents != 0) return;
      if (entries[1].revents == 0) continue;
      if (const int signal = signals.wait(0); signal != 0) on_signal(signal);
    }
  });
}

SignalWatch::~SignalWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof one);
  thread_.join();
  close(stop_);
}

}  // namespace strata::apps
