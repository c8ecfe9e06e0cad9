// One bit: half d, then 16 bytes of signs. Value d for a set bit, -d for a clear one.
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q1_0 {
  static constexpr uint32_t kGgufId = 41;
  static constexpr const char* kName = "Q1_0";
  static constexpr int kElems = 128;
  static constexpr int kBytes = 18;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    const uint32_t bits = load_u32(block + 2 + 4 * group);
    for (int i = 0; i < kGroupElems; ++i) g.q[i] = (bits >> i) & 1u ? 1 : -1;
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q1_0>(block, out);
  }
};

}  // namespace strata::quant
