// Half d, 16 bytes of nibbles. Value d * (code - 8).
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q4_0 {
  static constexpr uint32_t kGgufId = 2;
  static constexpr const char* kName = "Q4_0";
  static constexpr int kElems = 32;
  static constexpr int kBytes = 18;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    unpack_nibbles(block + 2, g.q, 8);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q4_0>(block, out);
  }
};

}  // namespace strata::quant
