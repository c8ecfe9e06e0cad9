// 32 low index bytes (per 8 elements), 16 bytes of nibbles (per 8: upper index bits, sign of the
// shift), four words whose upper nibbles are the half d and whose other bits are 3-bit scales (per
// 16). Value d * (2 * scale + 1) * (grid + shift) with shift = +-1/8, here in eighths.
#pragma once

#include "format/quant/codebooks/iq1s.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ1_M {
  static constexpr uint32_t kGgufId = 29;
  static constexpr const char* kName = "IQ1_M";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 56;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline int32_t sub_scale(const uint8_t* block, int k) {
    return static_cast<int32_t>(2 * ((load_u16(block + 48 + 2 * (k / 4)) >> 3 * (k % 4)) & 7u) + 1);
  }

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    uint32_t d = 0;
    for (int i = 0; i < 4; ++i) d |= (load_u16(block + 48 + 2 * i) >> 12) << 4 * i;
    set_scale(g, half_to_float(static_cast<uint16_t>(d)) * 0.125f, sub_scale(block, 2 * group),
              sub_scale(block, 2 * group + 1));
    for (int l = 0; l < 4; ++l) {
      const int k = 4 * group + l;
      const uint32_t nibble = (block[32 + k / 2] >> 4 * (k % 2)) & 15u;
      const uint32_t index = block[k] | (nibble & 7u) << 8;
      codebooks::write_eighths(codebooks::iq1s_entry(index), nibble & 8u ? -1 : 1, g.q + 8 * l);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ1_M>(block, out);
  }
};

}  // namespace strata::quant
