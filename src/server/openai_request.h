// Bodies of the OpenAI-style endpoints, checked and turned into the engine's vocabulary. Strict
// about types, lenient about unknown fields; null is the same as absent; absent is never zero.
#pragma once

#include <string_view>

#include "engine/engine.h"
#include "server/request_fields.h"
#include "server/tool_request.h"

namespace strata::server {

struct ChatCompletionRequest {
  engine::ChatRequest chat;
  GenerationFields fields;
  ToolUse tools;
  std::optional<engine::ConstraintSpec> constraint;  // thinking not yet considered
  std::optional<int> reasoning_budget;               // tokens of thinking
  bool show_reasoning = true;                        // include_reasoning
};

struct CompletionRequest {
  std::vector<Prompt> prompts;  // each with `fields.choices` answers
  GenerationFields fields;
  std::optional<engine::ConstraintSpec> constraint;
  bool echo = false;
};

// POST /v1/chat/completions
Result<ChatCompletionRequest> parse_chat_completion(const Json& body, const ModelFacts& facts);
// POST /v1/completions
Result<CompletionRequest> parse_completion(const Json& body, const ModelFacts& facts);
// The part of a chat body that makes the prompt (POST /apply-template): messages,
// tools, add_generation_prompt and the template variables.
Result<engine::ChatRequest> parse_chat_prompt(const Json& body);

}  // namespace strata::server
