// Half d, 64 low index bytes (per 4 elements), 8 bytes of ninth index bits, 32 sign bytes (per 8),
// 4 bytes of scale nibbles (per 32). Value d * (2 * scale + 1) * +-grid.
#pragma once

#include "format/quant/codebooks/iq3s.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ3_S {
  static constexpr uint32_t kGgufId = 21;
  static constexpr const char* kName = "IQ3_S";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 110;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const int32_t scale = 2 * ((block[106 + group / 2] >> 4 * (group % 2)) & 15) + 1;
    set_scale(g, load_half(block), scale, scale);
    for (int k = 0; k < 8; ++k) {
      const uint32_t index = block[2 + 8 * group + k] | ((block[66 + group] >> k) & 1u) << 8;
      const uint32_t signs = static_cast<uint32_t>(block[74 + 4 * group + k / 2]) >> 4 * (k % 2);
      codebooks::write_signed(codebooks::iq3s_entry(index), signs, g.q + 4 * k);
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ3_S>(block, out);
  }
};

}  // namespace strata::quant
