// Answers in the shape of OpenAI's chat completions and completions.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/answer.h"

namespace strata::server {

struct ChatAnswerOptions {
  bool starts_in_reasoning = false;
  std::optional<TokenId> think_close;  // id of "</think>", for counting reasoning tokens
  bool logprobs = false;
  bool include_usage = false;  // streaming: send a usage event
};

// Reasoning tokens are those sampled up to and including the one that closes the think block.
std::unique_ptr<Answer> make_chat_answer(AnswerInfo info, const ChatAnswerOptions& options);

struct CompletionAnswerOptions {
  std::string echo;  // put in front of the text
  bool logprobs = false;
  bool include_usage = false;
};

std::unique_ptr<Answer> make_completion_answer(AnswerInfo info, CompletionAnswerOptions options);

// "usage" and "timings" objects. `reasoning_tokens` is left out when absent.
Json usage_object(const engine::Usage& usage, std::optional<int> reasoning_tokens);
Json timings_object(const engine::Usage& usage);

// The bytes of a string as an array of numbers.
Json byte_array(const std::string& bytes);

}  // namespace strata::server
