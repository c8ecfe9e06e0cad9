// Two bits: half d, then 16 bytes of codes. Value d * (code - 1).
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q2_0 {
  static constexpr uint32_t kGgufId = 42;
  static constexpr const char* kName = "Q2_0";
  static constexpr int kElems = 64;
  static constexpr int kBytes = 18;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    unpack_pairs(block + 2 + 8 * group, g.q, 1);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q2_0>(block, out);
  }
};

}  // namespace strata::quant
