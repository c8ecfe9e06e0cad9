// 128 bytes of nibbles, 64 bytes of upper bit pairs, 16 signed scales (per 16 elements), half d.
// Value d * scale * (code - 32).
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q6_K {
  static constexpr uint32_t kGgufId = 14;
  static constexpr const char* kName = "Q6_K";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 210;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const uint8_t* scales = block + 192 + 2 * group;
    set_scale(g, load_half(block + 208), static_cast<int8_t>(scales[0]),
              static_cast<int8_t>(scales[1]));
    const int part = group % 4;
    const uint8_t* low = block + 64 * (group / 4) + 32 * (part & 1);
    const uint8_t* high = block + 128 + 32 * (group / 4);
    for (int i = 0; i < kGroupElems; ++i) {
      const int code = ((low[i] >> 4 * (part >> 1)) & 15) | ((high[i] >> 2 * part) & 3) << 4;
      g.q[i] = static_cast<int8_t>(code - 32);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q6_K>(block, out);
  }
};

}  // namespace strata::quant
