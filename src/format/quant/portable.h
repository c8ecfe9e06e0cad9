// What the block decoders need from the language, so that the same headers compile for host and
// GPU. A GPU build defines the two macros before including anything of format/quant.
#pragma once

#include <cstdint>
#include <cstring>

// Marks a function as callable on the device.
#ifndef STRATA_HD
#define STRATA_HD
#endif

// Declares a namespace-scope constant table that the functions above may index.
#ifndef STRATA_TABLE
#define STRATA_TABLE inline constexpr
#endif

namespace strata::quant {

// Little-endian loads from any address: blocks have odd sizes, so nothing in them is aligned.
STRATA_HD inline uint32_t load_u16(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8;
}
STRATA_HD inline uint32_t load_u32(const uint8_t* p) { return load_u16(p) | load_u16(p + 2) << 16; }

STRATA_HD inline float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
STRATA_HD inline uint32_t bits_from_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace strata::quant
