// 16 scale bytes (scale low, minimum high nibble, per 16 elements), 64 bytes of 2-bit codes, half
// d, half dmin. Value d * scale * code - dmin * minimum.
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q2_K {
  static constexpr uint32_t kGgufId = 10;
  static constexpr const char* kName = "Q2_K";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 84;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = true;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const uint8_t* sub = block + 2 * group;
    set_scale(g, load_half(block + 80), sub[0] & 15, sub[1] & 15);
    set_min(g, load_half(block + 82), sub[0] >> 4, sub[1] >> 4);
    const uint8_t* codes = block + 16 + 32 * (group / 4);
    const int shift = 2 * (group % 4);
    for (int i = 0; i < kGroupElems; ++i) g.q[i] = static_cast<int8_t>((codes[i] >> shift) & 3);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q2_K>(block, out);
  }
};

}  // namespace strata::quant
