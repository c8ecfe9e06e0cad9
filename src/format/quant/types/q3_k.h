// 32 bytes of third bits, 64 bytes of 2-bit codes, 12 bytes of 6-bit scales (per 16 elements), half
// d. Value d * (scale - 32) * (code - 4).
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q3_K {
  static constexpr uint32_t kGgufId = 11;
  static constexpr const char* kName = "Q3_K";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 110;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline int32_t sub_scale(const uint8_t* block, int k) {
    const int low = (block[96 + k % 8] >> 4 * (k / 8)) & 15;
    const int high = (block[104 + k % 4] >> 2 * (k / 4)) & 3;
    return (low | high << 4) - 32;
  }

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    set_scale(g, load_half(block + 108), sub_scale(block, 2 * group),
              sub_scale(block, 2 * group + 1));
    const uint8_t* codes = block + 32 + 32 * (group / 4);
    const int shift = 2 * (group % 4);
    for (int i = 0; i < kGroupElems; ++i) {
      const int low = (codes[i] >> shift) & 3;
      const int high = (block[i] >> group) & 1;
      g.q[i] = static_cast<int8_t>((low | high << 2) - 4);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q3_K>(block, out);
  }
};

}  // namespace strata::quant
