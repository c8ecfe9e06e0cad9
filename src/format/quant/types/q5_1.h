// Half d, half m, 32 fifth bits, 16 bytes of nibbles. Value d * code + m.
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q5_1 {
  static constexpr uint32_t kGgufId = 7;
  static constexpr const char* kName = "Q5_1";
  static constexpr int kElems = 32;
  static constexpr int kBytes = 24;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = true;

  STRATA_HD static inline void unpack(const uint8_t* block, int, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    set_min(g, -load_half(block + 2), 1, 1);
    unpack_nibbles(block + 8, g.q, 0);
    const uint32_t high = load_u32(block + 4);
    for (int i = 0; i < kGroupElems; ++i) g.q[i] += static_cast<int8_t>((high >> i & 1u) << 4);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q5_1>(block, out);
  }
};

}  // namespace strata::quant
