// Bodies of the OpenAI-style endpoints, checked and turned into the engine's vocabulary. Strict
// about types, lenient about unknown fields; null is the same as absent; absent is never zero.
#pragma once

#include <string_view>

#include "engine/engine.h"
#include "server/request_fields.h"

namespace strata::server {

struct ChatCompletionRequest {
  engine::ChatRequest chat;
  GenerationFields fields;
};

struct CompletionRequest {
  Prompt prompt;
  GenerationFields fields;
  bool echo = false;
};

// POST /v1/chat/completions
Result<ChatCompletionRequest> parse_chat_completion(const Json& body, const ModelFacts& facts);
// POST /v1/completions
Result<CompletionRequest> parse_completion(const Json& body, const ModelFacts& facts);
// The part of a chat body that makes the prompt (POST /apply-template): messages,
// add_generation_prompt and the template variables.
Result<engine::ChatRequest> parse_chat_prompt(const Json& body);

}  // namespace strata::server
