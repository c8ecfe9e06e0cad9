#include "text/tokenizer_special.h"

#include <algorithm>
#include <cstring>

namespace strata::text {

const size_t* SpecialMatcher::child(size_t node, char byte) const {
  for (const auto& [key, index] : nodes_[node].children) {
    if (key == byte) return &index;
  }
  return nullptr;
}

void SpecialMatcher::add(std::string_view text, TokenId id) {
  size_t node = 0;
  for (const char byte : text) {
    const size_t* known = child(node, byte);
    if (known != nullptr) {
      node = *known;
      continue;
    }
    nodes_[node].children.emplace_back(byte, nodes_.size());
    node = nodes_.size();
    nodes_.emplace_back();
  }
  if (nodes_[node].id == kNoToken) nodes_[node].id = id;
}

std::optional<SpecialMatcher::Hit> SpecialMatcher::find(std::string_view text, size_t from,
                                                        size_t to) const {
  const auto& starts = nodes_[0].children;
  if (starts.empty()) return std::nullopt;
  for (size_t begin = from; begin < to; ++begin) {
    if (starts.size() == 1) {
      const void* next = std::memchr(text.data() + begin, starts[0].first, to - begin);
      if (next == nullptr) return std::nullopt;
      begin = static_cast<size_t>(static_cast<const char*>(next) - text.data());
    }
    std::optional<Hit> longest;
    size_t node = 0;
    for (size_t at = begin; at < to; ++at) {
      const size_t* next = child(node, text[at]);
      if (next == nullptr) break;
      node = *next;
      if (nodes_[node].id != kNoToken) longest = Hit{begin, at + 1, nodes_[node].id};
    }
    if (longest.has_value()) return longest;
  }
  return std::nullopt;
}

}  // namespace strata::text
