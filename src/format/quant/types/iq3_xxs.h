// Half d, 64 grid indices (per 4 elements), a word per 32: four 7-bit sign indices and a 4-bit
// scale. Value d/4 * (2 * scale + 1) * +-grid.
#pragma once

#include "format/quant/codebooks/iq3xxs.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ3_XXS {
  static constexpr uint32_t kGgufId = 18;
  static constexpr const char* kName = "IQ3_XXS";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 98;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const uint32_t word = load_u32(block + 66 + 4 * group);
    const int32_t scale = static_cast<int32_t>(2 * (word >> 28) + 1);
    set_scale(g, load_half(block) * 0.25f, scale, scale);
    for (int k = 0; k < 8; ++k) {
      const uint32_t signs = codebooks::sign_byte((word >> 7 * (k / 2)) & 127u) >> 4 * (k % 2);
      codebooks::write_signed(codebooks::iq3xxs_entry(block[2 + 8 * group + k]), signs,
                              g.q + 4 * k);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ3_XXS>(block, out);
  }
};

}  // namespace strata::quant
