// Moves sets of configurations of a Grammar: calls and returns in full, then byte by byte.
#pragma once

#include <cstdint>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/stack_pool.h"

namespace strata::grammar {

// Configurations that a state may hold at once; more means a grammar so ambiguous that following
// all its readings would cost too much.
inline constexpr size_t kMaxConfigurations = 4096;

class Stepper {
 public:
  // Counters of loops entered from now on are taken as endless beyond `count_cap`: for looking no
  // further ahead than so many bytes.
  explicit Stepper(const Grammar& grammar, uint32_t count_cap = kUnbounded - 1)
      : grammar_(&grammar), cap_(count_cap) {}

  // What a rule is entered with on top of `below`.
  Frame entry(const Grammar::Rule& rule, FrameId below) const {
    if (!rule.loop) return {rule.start, 0, 0, below};
    return {rule.start, capped(rule.min), capped(rule.max), below};
  }
  uint32_t capped(uint32_t count) const { return count > cap_ ? kUnbounded : count; }

  // Follows calls and returns from `seeds`. `readers`: the frames that can read a byte, ascending;
  // the result tells whether the base was reached.
  bool close(StackPool& pool, const std::vector<FrameId>& seeds, std::vector<FrameId>& readers);
  // The last close() went to its end; otherwise there were too many configurations.
  bool within_limits() const { return within_limits_; }

  // The frames after `byte`, from closed `readers`; not closed, ascending.
  void read(StackPool& pool, const std::vector<FrameId>& readers, uint8_t byte,
            std::vector<FrameId>& out) const;

 private:
  void visit(FrameId frame);

  const Grammar* grammar_;
  uint32_t cap_;
  bool within_limits_ = true;
  bool reached_base_ = false;
  std::vector<FrameId> work_;
  std::vector<uint32_t> seen_;  // by frame: the closing that visited it last
  uint32_t epoch_ = 0;
};

}  // namespace strata::grammar
