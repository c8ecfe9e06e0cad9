// Separates the thinking of an answer from its content while the text streams in.
#pragma once

#include <string>
#include <string_view>

namespace strata::server {

// Text up to "</think>" is reasoning, the rest content; the tags themselves and the newlines right
// after a tag belong to neither. An answer that does not start inside a think block may open one
// itself: "<think>" counts when only white space stands before it. Later tags are plain content.
//
// The concatenated pieces do not depend on how the text is cut: what may be the beginning of a tag
// is held back until it is decided.
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

 private:
  enum class State { kStart, kAfterOpen, kReasoning, kAfterClose, kContent };

  bool step(Piece& out);  // false when more text is needed

  State state_;
  std::string pending_;
};

}  // namespace strata::server
