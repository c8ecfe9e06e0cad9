// Byte-pair encoding of one word: starts from single bytes and joins, again and again, the pair of
// neighbours with the lowest rank, the leftmost first among equals.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace strata::text {

// Which pairs join, how early and into what. Open addressing over a power of two of slots.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = 0;
    TokenId result = 0;
  };

  explicit MergeTable(size_t merges);

  // False when the pair is there already.
  bool insert(TokenId left, TokenId right, Merge merge);
  // Null when the pair does not join. Stays valid as long as the table is unchanged.
  const Merge* find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    uint64_t pair;
    Merge merge;
  };

  size_t slot_of(uint64_t pair) const;

  std::vector<Slot> slots_;
  int shift_ = 0;
};

class BytePairEncoder {
 public:
  // Buffers kept between words; one per thread of use.
  class Scratch {
    friend class BytePairEncoder;
    struct Symbol {
      TokenId id;
      uint32_t previous;
      uint32_t next;
      uint32_t rank;  // of the pair that starts here
    };
    std::vector<Symbol> symbols_;
    std::vector<uint64_t> heap_;  // rank << 32 | position; the smallest on top
  };

  BytePairEncoder(const std::array<TokenId, 256>& byte_tokens, MergeTable merges)
      : byte_tokens_(byte_tokens), merges_(std::move(merges)) {}

  // Appends the tokens of a word of fewer than 2^32 - 1 bytes. O(n log n) time, about 32 bytes of
  // memory per byte of the longest word. Thread-safe with a scratch per thread.
  void encode(std::string_view word, Scratch* scratch, std::vector<TokenId>* out) const;

 private:
  uint32_t rank_of(TokenId left, TokenId right) const;

  std::array<TokenId, 256> byte_tokens_;
  MergeTable merges_;
};

}  // namespace strata::text
