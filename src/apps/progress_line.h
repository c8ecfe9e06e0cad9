// One line on standard error that tells how far something is. On anything but a terminal it shows
// nothing.
#pragma once

#include <chrono>
#include <string_view>

namespace strata::apps {

class ProgressLine {
 public:
  explicit ProgressLine(bool enabled);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `done` from 0 to 1. Redraws at most ten times a second.
  void show(double done, std::string_view what);
  void clear();
  bool enabled() const { return enabled_; }

 private:
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace strata::apps
