// Half d, 16 bytes of nibbles. Value d * table[code].
#pragma once

#include "format/quant/codebooks/value_tables.h"
#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct IQ4_NL {
  static constexpr uint32_t kGgufId = 20;
  static constexpr const char* kName = "IQ4_NL";
  static constexpr int kElems = 32;
  static constexpr int kBytes = 18;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    unpack_nibbles(block + 2, g.q, codebooks::kIq4Values);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<IQ4_NL>(block, out);
  }
};

}  // namespace strata::quant
