#include "model/rope.h"

#include <cmath>

namespace strata::model {

namespace {

// Axis (t, h, w) whose coordinate turns pair `i`.
size_t axis_of(const Config& config, int i) {
  if (i % 3 == 1 && i < 3 * config.rope_sections[1]) return 1;
  if (i % 3 == 2 && i < 3 * config.rope_sections[2]) return 2;
  return 0;
}

}  // namespace

std::vector<double> rope_frequencies(int rot_dim, double base) {
  std::vector<double> frequencies;
  for (int i = 0; i < rot_dim / 2; ++i) frequencies.push_back(std::pow(base, -2.0 * i / rot_dim));
  return frequencies;
}

void rope_row(const Config& config, const std::array<int, 3>& position, std::span<float> row) {
  const int pairs = config.rot_dim / 2;
  for (int i = 0; i < pairs; ++i) {
    const double angle =
        position[axis_of(config, i)] * config.rope_frequencies[static_cast<size_t>(i)];
    row[static_cast<size_t>(i)] = static_cast<float>(std::cos(angle));
    row[static_cast<size_t>(pairs + i)] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace strata::model
