// Half d, half m, 16 bytes of nibbles. Value d * code + m.
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q4_1 {
  static constexpr uint32_t kGgufId = 3;
  static constexpr const char* kName = "Q4_1";
  static constexpr int kElems = 32;
  static constexpr int kBytes = 20;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = true;

  STRATA_HD static inline void unpack(const uint8_t* block, int, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    set_min(g, -load_half(block + 2), 1, 1);
    unpack_nibbles(block + 4, g.q, 0);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q4_1>(block, out);
  }
};

}  // namespace strata::quant
