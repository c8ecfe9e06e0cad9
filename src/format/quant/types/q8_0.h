// Half d, 32 signed bytes. Value d * byte.
#pragma once

#include "format/quant/half.h"
#include "format/quant/int_group.h"

namespace strata::quant {

struct Q8_0 {
  static constexpr uint32_t kGgufId = 8;
  static constexpr const char* kName = "Q8_0";
  static constexpr int kElems = 32;
  static constexpr int kBytes = 34;
  static constexpr bool kQuantised = true;
  static constexpr bool kHasMin = false;

  STRATA_HD static inline void unpack(const uint8_t* block, int, IntGroup& g) {
    set_scale(g, load_half(block), 1, 1);
    for (int i = 0; i < kGroupElems; ++i) g.q[i] = static_cast<int8_t>(block[2 + i]);
  }

  STRATA_HD static inline void decode(const uint8_t* block, float* out) {
    decode_groups<Q8_0>(block, out);
  }
};

}  // namespace strata::quant
