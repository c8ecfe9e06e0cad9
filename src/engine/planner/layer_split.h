// Where the layers are cut between devices, as users write it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace strata::engine {

struct LayerSplit {
  std::vector<int> points;  // first layer of each device after the first; meaningless if automatic
  bool automatic = true;

  std::string text() const;  // "auto", "18", "16,32"
};

// "auto", "18", "16,32" or "[16, 32]". Fails when a point is not a number or not above the one
// before it.
Result<LayerSplit> parse_layer_split(std::string_view text);

// Fails when a split does not suit a model of `layers` layers on `devices` devices.
Status check_layer_split(const LayerSplit& split, int layers, size_t devices);

}  // namespace strata::engine
