// Ends the thinking of an answer after so many tokens, by choosing the tokens that close it.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "engine/engine.h"

namespace strata::engine {

class ThinkingBudget {
 public:
  ThinkingBudget() = default;  // no limit
  explicit ThinkingBudget(std::optional<ReasoningBudget> budget) : budget_(std::move(budget)) {}

  // The token that must come next, if one must. `between_characters`: the text so far ends with a
  // whole character; thinking is not closed inside one.
  std::optional<TokenId> forced(bool between_characters) const {
    if (!budget_ || (closing_ == 0 && (used_ < budget_->tokens || !between_characters))) {
      return std::nullopt;
    }
    return budget_->closing[closing_];
  }

  // Every token of the answer, forced ones included.
  void accept(TokenId token, bool was_forced) {
    if (!budget_) return;
    if (was_forced) {
      if (++closing_ == budget_->closing.size()) budget_.reset();
    } else if (token == budget_->end) {
      budget_.reset();
    } else {
      ++used_;
    }
  }

 private:
  std::optional<ReasoningBudget> budget_;  // absent: no limit, or thinking is over
  int used_ = 0;
  size_t closing_ = 0;  // tokens of `closing` chosen so far
};

}  // namespace strata::engine
