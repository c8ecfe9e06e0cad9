// Half d, 32 low index bytes (per 8 elements), 32 sign bytes, 8 bytes of upper index bits, 8 bytes
// of scale nibbles (per 16). Value d/8 * (2 * scale + 1) * +-grid.
#pragma once

#include "format/quant/codebooks/iq2s.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ2_S {
  static constexpr uint32_t kGgufId = 22;
  static constexpr const char* kName = "IQ2_S";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 82;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const int scales = block[74 + group];
    set_scale(g, load_half(block) * 0.125f, 2 * (scales & 15) + 1, 2 * (scales >> 4) + 1);
    for (int l = 0; l < 4; ++l) {
      const int k = 4 * group + l;
      const uint32_t index = block[2 + k] | ((block[66 + group] >> 2 * l) & 3u) << 8;
      codebooks::write_signed(codebooks::iq2s_entry(index), block[34 + k], g.q + 8 * l);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ2_S>(block, out);
  }
};

}  // namespace strata::quant
