// Numbers that follow from a seed and a position.
#pragma once

#include <cstdint>

namespace strata::gpu::emu {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
constexpr uint64_t mix(uint64_t seed, uint64_t position) {
  uint64_t z = seed + (position + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

}  // namespace strata::gpu::emu
