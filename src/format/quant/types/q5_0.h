// Half d, 32 fifth bits, 16 bytes of nibbles. Value d * (code - 16).
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q5_0 {
  static constexpr uint32_t kGgufId = 6;
  static constexpr const char* kName = "Q5_0";
  static constexpr int kElems = 32;
  static constexpr int kBytes = 22;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    unpack_nibbles(block + 6, g.q, 16);
    const uint32_t high = load_u32(block + 2);
    for (int i = 0; i < kGroupElems; ++i) g.q[i] += static_cast<int8_t>((high >> i & 1u) << 4);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q5_0>(block, out);
  }
};

}  // namespace strata::quant
