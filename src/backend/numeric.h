// The scalar functions of the arithmetic contract (docs/ARITHMETIC.md): short sequences of
// correctly rounded operations (+, *, /, fma, sqrt, conversions), so that every back end computes
// the same bits. Compile with -ffp-contract=off; each fused multiply-add is written out.
#pragma once

#include <cstdint>

#include "format/quant/portable.h"

// Always inlined: an out-of-line copy would be compiled for the baseline, where a fused multiply-add
// is a library call.
#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_CONTRACT STRATA_HD
#else
#define STRATA_CONTRACT [[gnu::always_inline]]
#endif

namespace strata::numeric {

STRATA_CONTRACT inline float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}
STRATA_CONTRACT inline float sqrt(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}
STRATA_CONTRACT inline float max(float a, float b) { return a > b ? a : b; }
STRATA_CONTRACT inline float min(float a, float b) { return a < b ? a : b; }

// Round half to even for |x| < 2^22, without a rounding-mode instruction.
STRATA_CONTRACT inline float round_even(float x) {
  const float magic = 12582912.0f;  // 1.5 * 2^23
  return (x + magic) - magic;
}

// e^x, relative error below 2e-7 on [-87, 88]; arguments outside are clamped to that range, NaN
// stays NaN. Cody-Waite reduction by ln 2 in two parts, then the Taylor polynomial of degree 7 on
// [-ln2/2, ln2/2].
STRATA_CONTRACT inline float exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  // The sum's low bits hold the rounded quotient, which also forms the exponent.
  const float magic = 12582912.0f;  // 1.5 * 2^23
  const float shifted = x * 1.44269504f + magic;
  const float n = shifted - magic;
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = 1.98412698e-4f;
  p = fma(p, r, 1.38888889e-3f);
  p = fma(p, r, 8.33333333e-3f);
  p = fma(p, r, 4.16666667e-2f);
  p = fma(p, r, 1.66666667e-1f);
  p = fma(p, r, 0.5f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  const uint32_t exponent =
      quant::bits_from_float(shifted) - quant::bits_from_float(magic) + 127u;
  return p * quant::float_from_bits(exponent << 23);
}

STRATA_CONTRACT inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
STRATA_CONTRACT inline float silu(float x) { return x / (1.0f + exp(-x)); }

// ln(1 + e^x) = max(x, 0) + ln(1 + y), y = e^-|x| in (0, 1]; ln(1 + y) = 2 artanh(y / (2 + y)),
// whose argument is at most 1/3.
STRATA_CONTRACT inline float softplus(float x) {
  const float y = exp(x < 0.0f ? x : -x);
  const float s = y / (2.0f + y);
  const float s2 = s * s;
  float p = 1.0f / 15.0f;
  p = fma(p, s2, 1.0f / 13.0f);
  p = fma(p, s2, 1.0f / 11.0f);
  p = fma(p, s2, 1.0f / 9.0f);
  p = fma(p, s2, 1.0f / 7.0f);
  p = fma(p, s2, 1.0f / 5.0f);
  p = fma(p, s2, 1.0f / 3.0f);
  p = fma(p, s2, 1.0f);
  return fma(2.0f * s, p, max(x, 0.0f));
}

}  // namespace strata::numeric

#undef STRATA_CONTRACT
