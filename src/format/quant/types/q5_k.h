// Half d, half dmin, 12 bytes of scales and minimums (per 32 elements), 32 bytes of fifth bits, 128
// bytes of nibbles. Value d * scale * code - dmin * minimum.
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"
#include "format/quant/types/k_scales.h"

namespace strata::quant {

struct Q5_K {
  static constexpr uint32_t kGgufId = 13;
  static constexpr const char* kName = "Q5_K";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 176;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = true;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    set_k_scales(block + 4, group, load_half(block), load_half(block + 2), g);
    const uint8_t* high = block + 16;
    const uint8_t* codes = block + 48 + 32 * (group / 2);
    const int shift = 4 * (group % 2);
    for (int i = 0; i < kGroupElems; ++i) {
      g.q[i] = static_cast<int8_t>(((codes[i] >> shift) & 15) | ((high[i] >> group) & 1) << 4);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q5_K>(block, out);
  }
};

}  // namespace strata::quant
