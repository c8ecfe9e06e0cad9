// IEEE half and bfloat16 to and from float. Widening is exact; narrowing rounds to nearest, ties to
// even, overflows to infinity and keeps NaN a (quiet) NaN. Plain integer arithmetic: the same bits
// on every machine.
#pragma once

#include "format/quant/portable.h"

namespace strata::quant {

STRATA_HD inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) {
    return float_from_bits(sign | 0x7F800000u | (magnitude & 0x03FFu) << 13);
  }
  if (magnitude < 0x0400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;  // subnormal half, normal float
    return float_from_bits(sign | bits_from_float(value));
  }
  return float_from_bits(sign | ((magnitude << 13) + 0x38000000u));
}

STRATA_HD inline uint16_t float_to_half(float value) {
  const uint32_t bits = bits_from_float(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u | ((magnitude >> 13) & 0x01FFu);
  } else if (magnitude >= 0x477FF000u) {  // 65520, half way from the largest half to the next power
    half = 0x7C00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal
    // The float spacing in [0.5, 1) is 2^-24, the subnormal half's, so this sum rounds for us.
    half = bits_from_float(float_from_bits(magnitude) + 0.5f) - bits_from_float(0.5f);
  } else {
    half = (magnitude + 0x0FFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

STRATA_HD inline float bf16_to_float(uint16_t value) {
  return float_from_bits(static_cast<uint32_t>(value) << 16);
}

STRATA_HD inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = bits_from_float(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

STRATA_HD inline float load_half(const uint8_t* p) {
  return half_to_float(static_cast<uint16_t>(load_u16(p)));
}

}  // namespace strata::quant
