// Separates the thinking of an answer from its content while the text streams in.
#pragma once

#include <string>
#include <string_view>

namespace strata::server {

// Text up to "</think>" is reasoning, the rest content; the tags themselves, the newlines right
// after a tag and the white space at the end of the reasoning belong to neither. An answer that does
// not start inside a think block may open one itself: "<think>" counts when only white space stands
// before it. Later tags are plain content.
//
// The concatenated pieces do not depend on how the text is cut: what may be the beginning of a tag
// is held back until it is decided, and white space of the reasoning until something follows it.
class ReasoningSplitter {
 public:
  struct Piece {
    std::string reasoning;
    std::string content;
    bool empty() const { return reasoning.empty() && content.empty(); }
  };

  explicit ReasoningSplitter(bool starts_in_reasoning);

  Piece push(std::string_view text);
  Piece finish();  // what was held back; call once, at the end

  // True while text belongs to the think block.
  bool in_reasoning() const { return state_ == State::kReasoning || state_ == State::kAfterOpen; }

  // Where the content begins, in bytes of the whole text; known once there is content.
  size_t content_begin() const { return content_begin_; }

 private:
  enum class State { kStart, kAfterOpen, kReasoning, kAfterClose, kContent };

  bool step(Piece& out);  // false when more text is needed

  void reason(std::string_view text, Piece& out);
  void begin_content();

  State state_;
  std::string pending_;
  std::string space_;  // at the end of the reasoning so far
  size_t pushed_ = 0;  // bytes
  size_t content_begin_ = 0;
};

}  // namespace strata::server
