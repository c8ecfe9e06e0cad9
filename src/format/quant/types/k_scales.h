// The 12 bytes of 6-bit scales and minimums (per 32 elements) that Q4_K and Q5_K share.
#pragma once

#include "format/quant/int_group.h"

namespace strata::quant {

STRATA_HD inline void set_k_scales(const uint8_t* packed, int group, float d, float dmin,
                                   IntGroup& g) {
  int32_t scale;
  int32_t min;
  if (group < 4) {
    scale = packed[group] & 63;
    min = packed[group + 4] & 63;
  } else {
    scale = (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4;
    min = (packed[group + 4] >> 4) | (packed[group] >> 6) << 4;
  }
  set_scale(g, d, scale, scale);
  set_min(g, dmin, min, min);
}

}  // namespace strata::quant
