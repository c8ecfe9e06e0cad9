// Half d, 8 bytes per 32 elements: four grid indices, then four 7-bit sign indices and a 4-bit
// scale. Value d/8 * (2 * scale + 1) * +-grid.
#pragma once

#include "format/quant/codebooks/iq2xxs.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ2_XXS {
  static constexpr uint32_t kGgufId = 16;
  static constexpr const char* kName = "IQ2_XXS";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 66;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const uint8_t* indices = block + 2 + 8 * group;
    const uint32_t word = load_u32(indices + 4);
    const int32_t scale = static_cast<int32_t>(2 * (word >> 28) + 1);
    set_scale(g, load_half(block) * 0.125f, scale, scale);
    for (int l = 0; l < 4; ++l) {
      codebooks::write_signed(codebooks::iq2xxs_entry(indices[l]),
                              codebooks::sign_byte((word >> 7 * l) & 127u), g.q + 8 * l);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ2_XXS>(block, out);
  }
};

}  // namespace strata::quant
