// Finite automata over bytes and rule calls: what a rule of a grammar is compiled to, and, without
// calls, a regular language that can be intersected and subtracted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/grammar/byte_set.h"

namespace strata::grammar {

using RuleId = uint32_t;

// State 0 is the start. Deterministic unless said otherwise: a byte leads to at most one state.
struct Automaton {
  struct Edge {
    uint8_t low = 0;
    uint8_t high = 0;
    uint32_t to = 0;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  struct Call {
    RuleId rule = 0;
    uint32_t to = 0;
    friend bool operator==(const Call&, const Call&) = default;
  };
  struct State {
    std::vector<Edge> edges;  // by growing low; disjoint when deterministic
    std::vector<Call> calls;
    bool final = false;
  };
  std::vector<State> states;

  // For a deterministic automaton without calls.
  bool accepts(std::string_view text) const;
};

// The most states that a product or a subset construction may have; beyond it the operation fails.
inline constexpr size_t kMaxAutomatonStates = 40000;

// For deterministic automata without calls. kOutOfRange when the result would be too large.
Result<Automaton> intersection(const Automaton& a, const Automaton& b);
Result<Automaton> difference(const Automaton& a, const Automaton& b);  // in a, not in b
// The texts of a that are a sequence of min to max texts of `unit`, none of whose texts begins
// another; max may be UINT32_MAX, for no limit.
Result<Automaton> counted(const Automaton& a, const Automaton& unit, uint32_t min, uint32_t max);
// True when no text is accepted; calls count as possible.
bool accepts_nothing(const Automaton& automaton);

// The same language with equivalent states merged: all of them, or all but those on cycles where
// that would take too long.
Automaton minimized(Automaton automaton);

// A nondeterministic automaton under construction: Thompson's form.
class Nfa {
 public:
  uint32_t add_node() {
    nodes_.emplace_back();
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  void add_epsilon(uint32_t from, uint32_t to) { nodes_[from].epsilon.push_back(to); }
  void add_bytes(uint32_t from, const ByteSet& bytes, uint32_t to);
  void add_call(uint32_t from, RuleId rule, uint32_t to) {
    nodes_[from].calls.push_back({rule, to});
  }
  size_t size() const { return nodes_.size(); }

  // The subset construction, calls taken as letters. Nothing when it needs more than `max_states`.
  std::optional<Automaton> determinize(uint32_t start, uint32_t final, size_t max_states) const;
  // The same language without empty moves, not deterministic. Nothing when it has too many edges.
  std::optional<Automaton> without_epsilon(uint32_t start, uint32_t final, size_t max_edges) const;

 private:
  struct Node {
    std::vector<uint32_t> epsilon;
    std::vector<Automaton::Edge> edges;
    std::vector<Automaton::Call> calls;
  };
  using Subset = std::vector<uint32_t>;
  class Closer;

  std::vector<Node> nodes_;
};

}  // namespace strata::grammar
