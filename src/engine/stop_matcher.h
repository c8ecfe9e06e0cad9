// Finds stop strings in text that arrives in pieces, and lets through only what can no longer be
// part of one.
//
// The result is the same for every cut of the text, and equal to this on the whole text: take the
// first position at which any stop string ends; of those that end there, take the one that starts
// earliest (the longest). The text before that start is released, nothing after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace strata::engine {

// A value: a copy continues from the same state on its own and shares the stop strings. Not
// thread-safe. Memory: proportional to the stop strings, plus at most the longest of them in held
// text.
//
// Works on bytes. When the stop strings and the pieces are whole UTF-8 characters, so are the
// released texts.
class StopMatcher {
 public:
  // Without stop strings: everything is released at once.
  StopMatcher() = default;
  // kInvalidArgument (field "stop") when a stop string is empty.
  static Result<StopMatcher> create(std::span<const std::string> stop_strings);

  // Stop strings count only behind the first `marker` (not empty) of the text and the line ends that
  // follow it; what stands before is released at once. Call before the first push().
  void start_after(std::string marker) { marker_ = std::move(marker); }

  // Adds the next piece of text and returns the text that became certain, maybe none. `tokens` is
  // how many tokens end with this piece: 1 for one token's text, more when a piece completes a
  // character that several tokens share. A piece may be empty. After a match pieces are ignored.
  std::string push(std::string_view text, int64_t tokens = 1);

  // The end of the text: returns the text held back and releases its tokens; empty after a match.
  std::string flush();

  // Index of the stop string that matched, the first of equal ones.
  std::optional<size_t> matched() const { return matched_; }

  // How many of the tokens pushed so far are released: all text up to their end was returned. A
  // token with text inside a stop string that matched is never released, even when the front part
  // of its text was returned.
  int64_t released_tokens() const { return released_tokens_; }
  // How many tokens were pushed until the match, the one that completed it included.
  int64_t pushed_tokens() const { return pushed_tokens_; }

  // Text held back: the longest suffix of the text that is a proper prefix of a stop string.
  std::string_view held() const { return held_; }

 private:
  class Automaton;
  struct Piece {
    uint64_t end = 0;  // bytes of text up to the end of the piece
    int64_t tokens = 0;
  };

  void release(size_t bytes);
  // Bytes at the front of `text` in which stop strings do not count.
  size_t skip(std::string_view text);

  std::shared_ptr<const Automaton> automaton_;  // null without stop strings
  int32_t node_ = 0;
  std::string held_;
  std::string marker_;  // still awaited; empty: found, or none
  std::string tail_;    // the last bytes before the marker was found
  bool after_marker_ = false;  // only line ends have come since the marker
  std::optional<size_t> matched_;
  std::deque<Piece> waiting_;
  uint64_t pushed_bytes_ = 0;
  uint64_t released_bytes_ = 0;
  int64_t pushed_tokens_ = 0;
  int64_t released_tokens_ = 0;
};

}  // namespace strata::engine
