// Half d, 32 words (per 8 elements: 9-bit grid index, 7-bit sign index), 8 bytes of scale nibbles
// (per 16). Value d/8 * (2 * scale + 1) * +-grid.
#pragma once

#include "format/quant/codebooks/iq2xs.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ2_XS {
  static constexpr uint32_t kGgufId = 17;
  static constexpr const char* kName = "IQ2_XS";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 74;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const int scales = block[66 + group];
    set_scale(g, load_half(block) * 0.125f, 2 * (scales & 15) + 1, 2 * (scales >> 4) + 1);
    for (int l = 0; l < 4; ++l) {
      const uint32_t word = load_u16(block + 2 + 8 * group + 2 * l);
      codebooks::write_signed(codebooks::iq2xs_entry(word & 511u), codebooks::sign_byte(word >> 9),
                              g.q + 8 * l);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ2_XS>(block, out);
  }
};

}  // namespace strata::quant
