// A compiled grammar: a pushdown automaton over bytes. Every rule is an automaton whose moves are
// byte ranges and calls of rules; a configuration is a state and the states to return to.
//
// Holds for every Grammar: each state can still be finished by some text (so a prefix that is
// accepted never is a dead end), no rule calls itself without reading a byte first, and a state
// that does nothing but return is marked, so that calls in last place need no stack.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/grammar/automaton.h"

namespace strata::grammar {

// Counts at or above it have no end.
inline constexpr uint32_t kUnbounded = UINT32_MAX;

class Grammar {
 public:
  using Range = Automaton::Edge;
  using Call = Automaton::Call;

  // A loop is a rule of one state: body{min,max}, body not empty.
  struct Rule {
    uint32_t start = 0;  // state
    uint32_t min = 0, max = 0;
    bool loop = false;
  };

  // Makes the grammar of `automata` (one per rule; a loop's is one state that calls its body).
  // Drops what cannot finish. Errors: kInvalidArgument when nothing the root accepts is finite, or
  // when a rule calls itself before it reads; `names` tells what to call a rule.
  struct Source {
    std::vector<Automaton> automata;
    std::vector<Rule> rules;  // loop, min, max; start is filled in
    std::vector<std::string> names;
    RuleId root = 0;
  };
  static Result<Grammar> create(Source source);

  const Rule& root() const { return rules_[root_]; }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  std::span<const Range> ranges(uint32_t state) const {
    return {ranges_.data() + first_range_[state], ranges_.data() + first_range_[state + 1]};
  }
  std::span<const Call> calls(uint32_t state) const {
    return {calls_.data() + first_call_[state], calls_.data() + first_call_[state + 1]};
  }
  bool is_final(uint32_t state) const { return flags_[state] & kFinal; }
  bool is_loop(uint32_t state) const { return flags_[state] & kLoop; }
  bool only_returns(uint32_t state) const { return flags_[state] & kOnlyReturns; }

  size_t state_count() const { return flags_.size(); }
  // Bytes that no range tells apart are one class.
  uint8_t byte_class(uint8_t byte) const { return byte_class_[byte]; }
  int class_count() const { return static_cast<int>(class_byte_.size()); }
  uint8_t class_byte(int byte_class) const { return class_byte_[static_cast<size_t>(byte_class)]; }

 private:
  enum Flag : uint8_t { kFinal = 1, kLoop = 2, kOnlyReturns = 4 };

  void make_classes();

  std::vector<Rule> rules_;
  RuleId root_ = 0;
  std::vector<uint8_t> flags_;
  std::vector<uint32_t> first_range_, first_call_;
  std::vector<Range> ranges_;
  std::vector<Call> calls_;
  std::array<uint8_t, 256> byte_class_{};
  std::vector<uint8_t> class_byte_;
};

}  // namespace strata::grammar
