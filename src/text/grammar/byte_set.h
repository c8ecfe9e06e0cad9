// A set of byte values.
#pragma once

#include <array>
#include <cstdint>

namespace strata::grammar {

struct ByteSet {
  std::array<uint64_t, 4> words{};

  static ByteSet range(uint8_t low, uint8_t high) {
    ByteSet set;
    set.add(low, high);
    return set;
  }
  static ByteSet of(uint8_t byte) { return range(byte, byte); }
  static ByteSet all() { return range(0, 255); }

  void add(uint8_t low, uint8_t high) {
    for (int b = low; b <= high; ++b) words[static_cast<size_t>(b >> 6)] |= uint64_t{1} << (b & 63);
  }
  bool has(uint8_t byte) const { return (words[byte >> 6] >> (byte & 63)) & 1; }

  friend bool operator==(const ByteSet&, const ByteSet&) = default;

  // Calls f(low, high) for every maximal run of members, ascending.
  template <class F>
  void for_each_range(F f) const {
    for (int b = 0; b < 256; ++b) {
      if (!has(static_cast<uint8_t>(b))) continue;
      const int low = b;
      while (b < 255 && has(static_cast<uint8_t>(b + 1))) ++b;
      f(static_cast<uint8_t>(low), static_cast<uint8_t>(b));
    }
  }
};

}  // namespace strata::grammar
