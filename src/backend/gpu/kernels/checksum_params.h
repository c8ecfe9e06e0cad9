#pragma once

#include <cstdint>

namespace strata::gpu {

struct ChecksumParams {
  const void* data;
  uint64_t* sums;  // one per block
  int64_t pieces;  // of 16 bytes
};

}  // namespace strata::gpu
