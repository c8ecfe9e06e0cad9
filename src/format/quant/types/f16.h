// IEEE half floats.
#pragma once

#include "format/quant/half.h"

namespace strata::quant {

struct F16 {
  static constexpr uint32_t kGgufId = 1;
  static constexpr const char* kName = "F16";
  static constexpr int kElems = 1;
  static constexpr int kBytes = 2;
  static constexpr bool kQuantised = false;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void decode(const uint8_t* block, float* out) { *out = load_half(block); }
};

}  // namespace strata::quant
