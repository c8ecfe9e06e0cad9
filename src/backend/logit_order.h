// The order of logits (TopKLogitsArgs) as whole numbers: a larger key is a better logit, equal logits have
// equal keys.
#pragma once

#include <cstdint>

#include "format/quant/portable.h"

#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_LOGIT_KEY STRATA_HD
#else
#define STRATA_LOGIT_KEY [[gnu::always_inline]]
#endif

namespace strata::backend {

// From the bits of a float. No logit has key 0.
STRATA_LOGIT_KEY inline uint32_t logit_key(uint32_t bits) {
  constexpr uint32_t kSign = 0x80000000u;
  constexpr uint32_t kLeast = 0x007fffffu;  // of -inf; NaNs with a sign lie below
  constexpr uint32_t kFault = 0xff800000u;  // of +inf; NaNs without one lie above
  uint32_t key = bits ^ ((0u - (bits >> 31)) | kSign);
  key = bits == kSign ? kSign : key;
  key = key > kFault ? kFault : key;
  return key < kLeast ? kFault : key;
}

}  // namespace strata::backend

#undef STRATA_LOGIT_KEY
