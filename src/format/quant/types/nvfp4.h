// NVFP4: four E4M3 scale bytes (per 16 elements), 32 bytes of nibbles (8 bytes per 16 elements, low
// nibbles first). Value scale * E2M1 value; the tensor's .scale companion is applied by the caller.
#pragma once

#include "format/quant/codebooks/value_tables.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct NVFP4 {
  static constexpr uint32_t kGgufId = 40;
  static constexpr const char* kName = "NVFP4";
  static constexpr int kElems = 64;
  static constexpr int kBytes = 36;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  // The E4M3 byte, halved for the doubled table, in units of 2^-10. The sign bit is ignored;
  // 0x7F (NaN) counts as zero.
  STRATA_HD static inline int32_t scale_units(uint32_t byte) {
    if (byte == 0x7Fu) return 0;
    const int exponent = static_cast<int>((byte >> 3) & 15u);
    const int mantissa = static_cast<int>(byte & 7u);
    return exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
  }

  STRATA_HD static inline void unpack(const uint8_t* block, int group, IntGroup& g) {
    set_scale(g, 0x1p-10f, scale_units(block[2 * group]), scale_units(block[2 * group + 1]));
    for (int half = 0; half < 2; ++half) {
      const uint8_t* codes = block + 4 + 16 * group + 8 * half;
      int8_t* q = g.q + 16 * half;
      for (int i = 0; i < 8; ++i) {
        q[i] = codebooks::kE2m1Doubled[codes[i] & 15];
        q[i + 8] = codebooks::kE2m1Doubled[codes[i] >> 4];
      }
    }
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<NVFP4>(block, out);
  }
};

}  // namespace strata::quant
