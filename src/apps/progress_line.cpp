#include "apps/progress_line.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/files.h"

namespace strata::apps {

ProgressLine::ProgressLine(bool enabled) : enabled_(enabled && is_terminal(STDERR_FILENO)) {}

void ProgressLine::show(double done, std::string_view what) {
  constexpr int kCells = 30;
  constexpr std::chrono::milliseconds kInterval{100};
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || now - last_ < kInterval) return;
  last_ = now;
  drawn_ = true;
  const int full = static_cast<int>(std::clamp(done, 0.0, 1.0) * kCells);
  const std::string line = fmt::format("\r\x1b[K[{:=<{}}{:<{}}] {:3.0f} % {}", "", full, "",
                                       kCells - full, 100.0 * std::clamp(done, 0.0, 1.0), what);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace strata::apps
