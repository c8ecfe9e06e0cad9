// Parameters of the kernels of elementwise.h. Apart from op_params.h, so that what is compiled once per
// weight type does not depend on every op.
#pragma once

#include <cstdint>

namespace strata::gpu {

struct EmbedParams {
  const uint8_t* table;
  const int32_t* ids;
  const float* scale;  // nullptr: none
  float* out;
  int64_t row_bytes;
  int width;
};

struct HcBroadcastParams {
  const float* e;
  float* residual;
  int streams, width;
};

struct HcWriteParams {
  float* residual;
  const float* y;
  const float* inject_weight;
  int streams, width;
};

}  // namespace strata::gpu
