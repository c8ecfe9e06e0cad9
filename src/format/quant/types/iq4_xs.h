// Half d, a word of upper scale bits, 4 bytes of lower ones (6-bit scales per 32 elements), 128
// bytes of nibbles. Value d * (scale - 32) * table[code].
#pragma once

#include "format/quant/codebooks/value_tables.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ4_XS {
  static constexpr uint32_t kGgufId = 23;
  static constexpr const char* kName = "IQ4_XS";
  static constexpr int kElems = 256;
  static constexpr int kBytes = 136;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    const int low = (block[4 + group / 2] >> 4 * (group % 2)) & 15;
    const int high = static_cast<int>((load_u16(block + 2) >> 2 * group) & 3u);
    const int32_t scale = (low | high << 4) - 32;
    set_scale(g, load_half(block), scale, scale);
    unpack_nibbles(block + 8 + 16 * group, g.q, codebooks::kIq4Values);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ4_XS>(block, out);
  }
};

}  // namespace strata::quant
