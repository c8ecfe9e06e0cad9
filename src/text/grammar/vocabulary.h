// The bytes of all tokens as a trie, laid out for walking it once from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"

namespace strata::grammar {

// Immutable after it was made. Nodes are numbered in preorder: node 0 is the root (no bytes), the
// descendants of n are n + 1 .. end(n) - 1.
class Vocabulary {
 public:
  // `tokens`: ids and bytes of the tokens that may stand in constrained text; those without bytes
  // and those longer than kMaxTokenBytes are left out. `end_of_generation`: tokens that end it.
  // `size`: ids go from 0 to size - 1. The views need to live only during the call.
  Vocabulary(std::vector<std::pair<std::string_view, TokenId>> tokens,
             std::vector<TokenId> end_of_generation, int size);

  static constexpr size_t kMaxTokenBytes = 1024;

  int size() const { return size_; }
  size_t words() const { return (static_cast<size_t>(size_) + 63) / 64; }  // of a mask
  // Bytes of the longest token.
  uint32_t longest() const { return longest_; }
  const std::vector<TokenId>& end_of_generation() const { return end_of_generation_; }
  bool ends_generation(TokenId token) const;
  // Empty for tokens that were left out.
  std::string_view bytes(TokenId token) const;

  size_t nodes() const { return byte_.size(); }
  uint8_t byte(uint32_t node) const { return byte_[node]; }
  uint32_t depth(uint32_t node) const { return depth_[node]; }
  uint32_t end(uint32_t node) const { return end_[node]; }
  uint32_t parent(uint32_t node) const { return parent_[node]; }
  // Tokens that end at the node.
  std::span<const TokenId> tokens(uint32_t node) const {
    return {tokens_.data() + first_token_[node], tokens_.data() + first_token_[node + 1]};
  }
  // Nodes entered by `byte`, ascending.
  std::span<const uint32_t> nodes_by_byte(uint8_t byte) const {
    return {by_byte_.data() + first_by_byte_[byte], by_byte_.data() + first_by_byte_[byte + 1]};
  }

 private:
  int size_;
  uint32_t longest_ = 0;
  std::vector<TokenId> end_of_generation_;
  std::vector<uint8_t> byte_;
  std::vector<uint16_t> depth_;
  std::vector<uint32_t> end_, parent_, first_token_;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> by_byte_, first_by_byte_;
  std::vector<char> text_;             // of all tokens
  std::vector<uint32_t> text_offset_;  // by id; size + 1 entries
};

}  // namespace strata::grammar
