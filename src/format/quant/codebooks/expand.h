// Turns the packed codebooks into the form the decoders read, at compile time.
#pragma once

#include "format/quant/portable.h"

namespace strata::quant::codebooks {

// Entry i holds its elements as bytes, element 0 lowest. Word is uint64_t (8) or uint32_t (4).
template <class Word, int kEntries>
struct Grid {
  Word entry[kEntries];
};

// `packed[i]` holds element j of entry i as an index into `values`, in `bits` bits from bit bits*j.
template <class Word, int kEntries>
constexpr Grid<Word, kEntries> expand(const uint16_t (&packed)[kEntries], int bits,
                                      const int (&values)[8]) {
  Grid<Word, kEntries> grid = {};
  for (int i = 0; i < kEntries; ++i) {
    for (int j = 0; j < static_cast<int>(sizeof(Word)); ++j) {
      const unsigned index = (static_cast<unsigned>(packed[i]) >> bits * j) & ((1u << bits) - 1u);
      grid.entry[i] |= static_cast<Word>(static_cast<uint8_t>(values[index])) << 8 * j;
    }
  }
  return grid;
}

// The sign byte of a 7-bit index x: bit 7 makes the number of set bits even.
STRATA_HD inline uint32_t sign_byte(uint32_t x) {
  uint32_t parity = x ^ x >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return x | (parity & 1u) << 7;
}

// Byte j of `entry`, negated where bit j of `signs` is set, for the sizeof(Word) elements at q.
template <class Word>
STRATA_HD inline void write_signed(Word entry, uint32_t signs, int8_t* q) {
  for (int j = 0; j < static_cast<int>(sizeof(Word)); ++j) {
    const int value = static_cast<int>((entry >> 8 * j) & 0xFF);
    q[j] = static_cast<int8_t>((signs >> j) & 1u ? -value : value);
  }
}

// 8 * (signed byte j of `entry`) + shift, for the 8 elements at q.
STRATA_HD inline void write_eighths(uint64_t entry, int shift, int8_t* q) {
  for (int j = 0; j < 8; ++j) {
    q[j] = static_cast<int8_t>(8 * static_cast<int8_t>((entry >> 8 * j) & 0xFF) + shift);
  }
}

}  // namespace strata::quant::codebooks
