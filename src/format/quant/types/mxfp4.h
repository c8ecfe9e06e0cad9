// OCP MXFP4: an E8M0 exponent byte e, 16 bytes of nibbles. Value 2^(e - 128) * doubled E2M1 value.
// e = 0 and 1 make d a subnormal float.
#pragma once

#include "format/quant/codebooks/value_tables.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct MXFP4 {
  static constexpr uint32_t kGgufId = 39;
  static constexpr const char* kName = "MXFP4";
  static constexpr int kElems = 32;
  static constexpr int kBytes = 17;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  // 2^(e - 128), exact for every byte e.
  STRATA_HD static inline float exponent_scale(uint32_t e) {
    return float_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  }

  STRATA_HD static inline void unpack(const uint8_t* block, int, IntGroup& g) {
    set_scale(g, exponent_scale(block[0]), 1, 1);
    unpack_nibbles(block + 1, g.q, codebooks::kE2m1Doubled);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<MXFP4>(block, out);
  }
};

}  // namespace strata::quant
