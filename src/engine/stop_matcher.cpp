#include "engine/stop_matcher.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace strata::engine {

// A. Aho, M. Corasick, "Efficient string matching: an aid to bibliographic search", CACM 18(6),
// 1975: a trie of the stop strings; each node stands for the longest suffix of the text that is a
// prefix of a stop string, so its depth is the length of the text to hold back.
class StopMatcher::Automaton {
 public:
  explicit Automaton(std::span<const std::string> strings) : nodes_(1) {
    for (size_t i = 0; i < strings.size(); ++i) insert(strings[i], static_cast<int32_t>(i));
    link();
  }

  int32_t step(int32_t node, unsigned char byte) const {
    for (;;) {
      if (const int32_t next = child(node, byte); next != kNone) return next;
      if (node == kRoot) return kRoot;
      node = nodes_[static_cast<size_t>(node)].fallback;
    }
  }

  size_t depth(int32_t node) const { return nodes_[static_cast<size_t>(node)].depth; }

  // The longest stop string that ends at this node, with its length.
  std::optional<std::pair<size_t, size_t>> match(int32_t node) const {
    const int32_t ending = nodes_[static_cast<size_t>(node)].ending;
    if (ending == kNone) return std::nullopt;
    const Node& end = nodes_[static_cast<size_t>(ending)];
    return std::pair{static_cast<size_t>(end.string), end.depth};
  }

 private:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  struct Node {
    size_t depth = 0;
    int32_t fallback = kRoot;  // node of the longest proper suffix that is in the trie
    int32_t string = kNone;    // the stop string that is exactly this node
    int32_t ending = kNone;    // this node or the nearest on the fallback chain with a string
  };

  static uint64_t edge(int32_t node, unsigned char byte) {
    return (static_cast<uint64_t>(node) << 8) | byte;
  }

  int32_t child(int32_t node, unsigned char byte) const {
    const auto found = edges_.find(edge(node, byte));
    return found == edges_.end() ? kNone : found->second;
  }

  void insert(std::string_view string, int32_t index) {
    int32_t node = kRoot;
    for (const char c : string) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t next = child(node, byte);
      if (next == kNone) {
        next = static_cast<int32_t>(nodes_.size());
        nodes_.push_back({nodes_[static_cast<size_t>(node)].depth + 1, kRoot, kNone, kNone});
        edges_.emplace(edge(node, byte), next);
        by_parent_.push_back({node, byte});
      }
      node = next;
    }
    Node& end = nodes_[static_cast<size_t>(node)];
    if (end.string == kNone) end.string = index;
  }

  // Fallbacks point to shallower nodes, so nodes are visited by growing depth.
  void link() {
    std::vector<std::vector<int32_t>> levels;
    for (size_t i = 1; i < nodes_.size(); ++i) {
      if (levels.size() < nodes_[i].depth) levels.resize(nodes_[i].depth);
      levels[nodes_[i].depth - 1].push_back(static_cast<int32_t>(i));
    }
    for (const auto& level : levels) {
      for (const int32_t id : level) {
        Node& node = nodes_[static_cast<size_t>(id)];
        const auto [parent, byte] = by_parent_[static_cast<size_t>(id) - 1];
        node.fallback =
            parent == kRoot ? kRoot : step(nodes_[static_cast<size_t>(parent)].fallback, byte);
        node.ending = node.string != kNone ? id : nodes_[static_cast<size_t>(node.fallback)].ending;
      }
    }
    by_parent_ = {};
  }

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> edges_;
  std::vector<std::pair<int32_t, unsigned char>> by_parent_;  // of node i + 1; only while building
};

Result<StopMatcher> StopMatcher::create(std::span<const std::string> stop_strings) {
  for (size_t i = 0; i < stop_strings.size(); ++i) {
    if (stop_strings[i].empty()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("stop string {} is empty; leave it out or give it one character or "
                                "more.",
                                i),
                    "stop");
    }
  }
  StopMatcher matcher;
  if (!stop_strings.empty()) matcher.automaton_ = std::make_shared<const Automaton>(stop_strings);
  return matcher;
}

void StopMatcher::release(size_t bytes) {
  released_bytes_ += bytes;
  while (!waiting_.empty() && waiting_.front().end <= released_bytes_) {
    released_tokens_ += waiting_.front().tokens;
    waiting_.pop_front();
  }
}

size_t StopMatcher::skip(std::string_view text) {
  size_t skipped = 0;
  if (!marker_.empty()) {
    const size_t before = tail_.size();
    tail_ += text;
    const size_t found = tail_.find(marker_);
    if (found == std::string::npos) {
      if (tail_.size() >= marker_.size()) tail_.erase(0, tail_.size() - marker_.size() + 1);
      return text.size();
    }
    skipped = found + marker_.size() - before;
    marker_.clear();
    tail_.clear();
    after_marker_ = true;
  }
  while (after_marker_ && skipped < text.size()) {
    if (text[skipped] == '\n') {
      ++skipped;
    } else {
      after_marker_ = false;
    }
  }
  return skipped;
}

std::string StopMatcher::push(std::string_view text, int64_t tokens) {
  if (matched_) return {};
  pushed_tokens_ += tokens;
  pushed_bytes_ += text.size();
  waiting_.push_back({pushed_bytes_, tokens});
  size_t keep = 0;  // bytes at the end of held_ + text that stay
  size_t read = 0;  // bytes of text
  if (automaton_) {
    read = skip(text);
    while (read < text.size() && !matched_) {
      node_ = automaton_->step(node_, static_cast<unsigned char>(text[read++]));
      keep = automaton_->depth(node_);
      if (const auto match = automaton_->match(node_)) {
        matched_ = match->first;
        keep = match->second;
      }
    }
    if (text.empty()) keep = held_.size();
  } else {
    read = text.size();
  }
  held_.append(text.substr(0, read));
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, matched_ ? held_.size() : out.size());
  release(out.size());
  return out;
}

std::string StopMatcher::flush() {
  std::string out = std::exchange(held_, {});
  node_ = 0;
  release(out.size());
  return out;
}

}  // namespace strata::engine
