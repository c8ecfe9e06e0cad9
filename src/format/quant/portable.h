// What the block decoders need from the language, so that the same headers compile for host and
// GPU.
#pragma once

#include <cstdint>

// Marks a function as callable on the device.
#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_HD __device__
#else
#define STRATA_HD
#endif

// Declares a namespace-scope constant table that the functions above may index.
#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_TABLE static __device__ const
#else
#define STRATA_TABLE inline constexpr
#endif

namespace strata::quant {

// Little-endian loads from any address: blocks have odd sizes, so nothing in them is aligned.
STRATA_HD inline uint32_t load_u16(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8;
}
STRATA_HD inline uint32_t load_u32(const uint8_t* p) { return load_u16(p) | load_u16(p + 2) << 16; }

STRATA_HD inline float float_from_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
STRATA_HD inline uint32_t bits_from_float(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

}  // namespace strata::quant
