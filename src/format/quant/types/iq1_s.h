// Half d, 32 low index bytes (per 8 elements), 8 words (per 32: upper index bits, scale, sign of
// the shift). Value d * (2 * scale + 1) * (grid + shift) with shift = +-1/8, here in eighths.
#pragma once

#include "format/quant/codebooks/iq1s.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ1_S {
  static constexpr uint32_t kGgufId = 19;
  static constexpr const char* kName = "IQ1_S";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 50;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const uint32_t word = load_u16(block + 34 + 2 * group);
    const int32_t scale = static_cast<int32_t>(2 * ((word >> 12) & 7u) + 1);
    set_scale(g, load_half(block) * 0.125f, scale, scale);
    const int shift = word & 0x8000u ? -1 : 1;
    for (int l = 0; l < 4; ++l) {
      const uint32_t index = block[2 + 4 * group + l] | ((word >> 3 * l) & 7u) << 8;
      codebooks::write_eighths(codebooks::iq1s_entry(index), shift, g.q + 8 * l);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ1_S>(block, out);
  }
};

}  // namespace strata::quant
