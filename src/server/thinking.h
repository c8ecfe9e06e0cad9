// How much a request wants the model to think, in the words of every API spoken here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/json_input.h"

namespace strata::server {

// Sets the template variables for an effort: "none", "off", "disabled" switch thinking off;
// "minimal" and "low" are low, "medium" is medium, "high", "xhigh" and "max" are xhigh. Other words
// are passed on for the template to judge.
void set_effort(std::string_view effort, Json& kwargs);
// The template variable of the effort, and the words for it, for people to read.
inline constexpr const char* kEffortVariable = "reasoning_effort";
std::string effort_words();
void set_thinking(bool enabled, Json& kwargs);

// chat_template_kwargs of a body: variables for the template; null when there are none. Those that
// the server sets itself are refused.
Json read_template_variables(FieldReader& reader);

// Reads reasoning_effort, enable_thinking, preserve_thinking, reasoning {effort, max_tokens,
// enabled}, thinking {type, budget_tokens} and the budget fields (reasoning_budget_tokens,
// thinking_budget_tokens, thinking_budget, reasoning_budget: tokens, 0 is off, -1 no limit) of a
// chat body into the template variables `kwargs` (null or an object). Returns the budget.
std::optional<int> read_thinking(FieldReader& reader, Json& kwargs);

}  // namespace strata::server
