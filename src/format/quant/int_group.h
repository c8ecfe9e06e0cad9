// The canonical integer form of 32 consecutive elements of a quantised block, as the int8 matrix
// products consume it, and the float values that follow from it.
#pragma once

#include "format/quant/portable.h"

namespace strata::quant {

// value[i] = d * scale[i/16] * q[i] - dmin * min[i/16], exactly, in real arithmetic.
// Types without a minimum set dmin = 0 and min = {0, 0}.
struct IntGroup {
  int8_t q[32];
  int32_t scale[2];  // of elements 0..15 and 16..31
  int32_t min[2];
  float d;
  float dmin;
};

inline constexpr int kGroupElems = 32;

STRATA_HD inline void set_scale(IntGroup& g, float d, int32_t scale0, int32_t scale1) {
  g.d = d;
  g.scale[0] = scale0;
  g.scale[1] = scale1;
  g.dmin = 0.0f;
  g.min[0] = g.min[1] = 0;
}

STRATA_HD inline void set_min(IntGroup& g, float dmin, int32_t min0, int32_t min1) {
  g.dmin = dmin;
  g.min[0] = min0;
  g.min[1] = min1;
}

// The 16 elements of a group that share scale[half].
template <bool kHasMin>
STRATA_HD inline void decode_half(const IntGroup& g, int half, float* out) {
  const float step = g.d * static_cast<float>(g.scale[half]);
  const float min = kHasMin ? g.dmin * static_cast<float>(g.min[half]) : 0.0f;
  const int8_t* q = g.q + 16 * half;
  for (int i = 0; i < 16; ++i) {
    out[i] = step * static_cast<float>(q[i]);
    if constexpr (kHasMin) out[i] -= min;
  }
}

// Decodes a whole block through its integer form. d has at most 11 significant bits, scale and q
// together at most 13, so both products are exact in float and only the subtraction rounds: the
// result is the correctly rounded value, whatever order another decoder multiplies in.
template <class Type>
STRATA_HD inline void decode_groups(const uint8_t* block, float* out) {
  for (int group = 0; group < Type::kElems / kGroupElems; ++group) {
    IntGroup g;
    Type::unpack(block, group, g);
    // Two calls, not a loop: g++ 12.2 at -O2 compiles the loop over halves of a local group to
    // zeros.
    decode_half<Type::kHasMin>(g, 0, out + kGroupElems * group);
    decode_half<Type::kHasMin>(g, 1, out + kGroupElems * group + 16);
  }
}

// 16 bytes of nibbles: the low ones are elements 0..15, the high ones 16..31.
STRATA_HD inline void unpack_nibbles(const uint8_t* p, int8_t* q, int offset) {
  for (int i = 0; i < 16; ++i) {
    q[i] = static_cast<int8_t>((p[i] & 15) - offset);
    q[i + 16] = static_cast<int8_t>((p[i] >> 4) - offset);
  }
}
STRATA_HD inline void unpack_nibbles(const uint8_t* p, int8_t* q, const int8_t* values) {
  for (int i = 0; i < 16; ++i) {
    q[i] = values[p[i] & 15];
    q[i + 16] = values[p[i] >> 4];
  }
}

// 8 bytes of 2-bit codes, element 0 in the low bits of the first byte.
STRATA_HD inline void unpack_pairs(const uint8_t* p, int8_t* q, int offset) {
  for (int i = 0; i < kGroupElems; ++i) {
    q[i] = static_cast<int8_t>(((p[i / 4] >> 2 * (i % 4)) & 3) - offset);
  }
}

}  // namespace strata::quant
