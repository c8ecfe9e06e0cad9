// Finds control and user-defined tokens in text: leftmost first, the longest at a place.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"

namespace strata::text {

class SpecialMatcher {
 public:
  struct Hit {
    size_t begin = 0;
    size_t end = 0;
    TokenId id = 0;
  };

  SpecialMatcher() : nodes_(1) {}

  // `text` must not be empty. A text added twice keeps the first id.
  void add(std::string_view text, TokenId id);

  // The first token in text[from, to). Time: bytes searched times, at worst, the longest token.
  std::optional<Hit> find(std::string_view text, size_t from, size_t to) const;

 private:
  static constexpr TokenId kNoToken = -1;

  struct Node {
    std::vector<std::pair<char, size_t>> children;  // byte, index of the node
    TokenId id = kNoToken;
  };

  const size_t* child(size_t node, char byte) const;

  std::vector<Node> nodes_;  // a trie; 0 is the root
};

}  // namespace strata::text
