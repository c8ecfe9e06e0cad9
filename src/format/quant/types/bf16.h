// bfloat16: the upper half of a float.
#pragma once

#include "format/quant/half.h"

namespace strata::quant {

struct BF16 {
  static constexpr uint32_t kGgufId = 30;
  static constexpr const char* kName = "BF16";
  static constexpr int kElems = 1;
  static constexpr int kBytes = 2;
  static constexpr bool kQuantised = false;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    *out = bf16_to_float(static_cast<uint16_t>(load_u16(block)));
  }
};

}  // namespace strata::quant
