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

void rope_row(const Config& config, const std::array<int, 3>& position, std::span<float> row) {
  const int pairs = config.rot_dim / 2;
  for (int i = 0; i < pairs; ++i) {
    const double frequency = std::pow(config.rope_base, -2.0 * i / config.rot_dim);
    const double angle = position[axis_of(config, i)] * frequency;
    row[static_cast<size_t>(i)] = static_cast<float>(std::cos(angle));
    row[static_cast<size_t>(pairs + i)] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace strata::model
