// 32-bit floats, as they are.
#pragma once

#include "format/quant/portable.h"

namespace strata::quant {

struct F32 {
  static constexpr uint32_t kGgufId = 0;
  static constexpr const char* kName = "F32";
  static constexpr int kElems = 1;
  static constexpr int kBytes = 4;
  static constexpr bool kQuantised = false;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    *out = float_from_bits(load_u32(block));
  }
};

}  // namespace strata::quant
