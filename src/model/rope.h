// Interleaved multi-axis rotary angles (docs/MODEL.md 3.4).
#pragma once

#include <array>
#include <span>

#include "model/config.h"

namespace strata::model {

// base^(-2 i / rot_dim) of every pair i.
std::vector<double> rope_frequencies(int rot_dim, double base);

// Cosines, then sines, of the rot_dim / 2 pairs at `position` (t, h, w). Angles are formed in double
// precision on the host, once per token, so that every device rotates by the same numbers.
void rope_row(const Config& config, const std::array<int, 3>& position, std::span<float> row);

}  // namespace strata::model
