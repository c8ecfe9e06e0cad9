#include "text/grammar/vocabulary.h"

#include <algorithm>

namespace strata::grammar {

Vocabulary::Vocabulary(std::vector<std::pair<std::string_view, TokenId>> tokens,
                       std::vector<TokenId> end_of_generation, int size)
    : size_(size), end_of_generation_(std::move(end_of_generation)) {
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
  std::erase_if(tokens, [this](const auto& t) {
    return t.first.empty() || t.first.size() > kMaxTokenBytes || ends_generation(t.second);
  });
  std::sort(tokens.begin(), tokens.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  text_offset_.reserve(static_cast<size_t>(size) + 1);
  for (const auto& [bytes, id] : tokens) {
    text_offset_.resize(static_cast<size_t>(id) + 1, static_cast<uint32_t>(text_.size()));
    text_.insert(text_.end(), bytes.begin(), bytes.end());
  }
  text_offset_.resize(static_cast<size_t>(size) + 1, static_cast<uint32_t>(text_.size()));

  // char_traits<char> compares as unsigned bytes.
  std::sort(tokens.begin(), tokens.end());
  const auto add_node = [this](uint8_t byte, uint32_t depth, uint32_t parent) {
    byte_.push_back(byte);
    depth_.push_back(static_cast<uint16_t>(depth));
    parent_.push_back(parent);
    end_.push_back(0);
    first_token_.push_back(static_cast<uint32_t>(tokens_.size()));
    return static_cast<uint32_t>(byte_.size() - 1);
  };
  std::vector<uint32_t> path{add_node(0, 0, 0)};  // nodes from the root to the last token
  std::string_view last;
  const auto close_to = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      end_[path.back()] = static_cast<uint32_t>(byte_.size());
    }
  };
  for (const auto& [bytes, id] : tokens) {
    const auto differs = std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end());
    const auto common = static_cast<size_t>(differs.second - bytes.begin());
    close_to(common);
    for (size_t i = common; i < bytes.size(); ++i) {
      path.push_back(
          add_node(static_cast<uint8_t>(bytes[i]), static_cast<uint32_t>(i + 1), path.back()));
    }
    tokens_.push_back(id);
    longest_ = std::max(longest_, static_cast<uint32_t>(bytes.size()));
    last = bytes;
  }
  close_to(0);
  end_[0] = static_cast<uint32_t>(byte_.size());
  first_token_.push_back(static_cast<uint32_t>(tokens_.size()));

  first_by_byte_.assign(257, 0);
  for (size_t n = 1; n < byte_.size(); ++n) ++first_by_byte_[byte_[n] + 1u];
  for (size_t b = 0; b < 256; ++b) first_by_byte_[b + 1] += first_by_byte_[b];
  by_byte_.resize(byte_.size() - 1);
  std::vector<uint32_t> next(first_by_byte_.begin(), first_by_byte_.end() - 1);
  for (size_t n = 1; n < byte_.size(); ++n) by_byte_[next[byte_[n]]++] = static_cast<uint32_t>(n);
}

bool Vocabulary::ends_generation(TokenId token) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), token);
}

std::string_view Vocabulary::bytes(TokenId token) const {
  if (token < 0 || token >= size_) return {};
  const auto id = static_cast<size_t>(token);
  return {text_.data() + text_offset_[id], text_offset_[id + 1] - text_offset_[id]};
}

}  // namespace strata::grammar
