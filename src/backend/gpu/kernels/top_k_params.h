// Parameters of the kernels of top_k.h. Free of any GPU language.
#pragma once

#include <cstdint>

namespace strata::gpu {

struct LogitMaximaParams {
  const float* logits;
  uint32_t* maxima;  // [rows, strips, threads of a block]
  int64_t stride;
  int valid, strips;
};

struct TopKLogitsParams {
  const float* logits;
  const uint32_t* maxima;  // [rows, groups]
  float* values;
  int32_t* ids;
  int64_t stride;
  int valid, groups, k;
};

}  // namespace strata::gpu
