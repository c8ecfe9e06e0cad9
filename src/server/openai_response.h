// Answers in the shape of OpenAI's chat completions and completions. The choices of a completion come
// prompt by prompt.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/reply.h"

namespace strata::server {

struct OpenAiAnswerOptions {
  bool stream = false;
  int choices = 1;  // of a prompt
  bool logprobs = false;
  bool include_usage = false;  // streaming: send a usage event
};

struct ChatAnswerOptions : OpenAiAnswerOptions {
  ReplyOptions reply;
  bool show_reasoning = true;  // otherwise thinking is counted but not told
};

std::unique_ptr<Answer> make_chat_answer(AnswerInfo info, const ChatAnswerOptions& options);

struct CompletionAnswerOptions : OpenAiAnswerOptions {
  std::vector<std::string> echo{""};  // one per prompt, put in front of its texts
};

std::unique_ptr<Answer> make_completion_answer(AnswerInfo info, CompletionAnswerOptions options);

// "usage" and "timings" objects. `reasoning_tokens` is left out when absent.
Json usage_object(const engine::Usage& usage, std::optional<int> reasoning_tokens);
Json timings_object(const engine::Usage& usage);

// The usage of all choices of a request: a prompt counts once, with `first` of its choices.
void add_usage(engine::Usage& sum, const engine::Usage& choice, bool first);

// Id of a tool call, unique within the process: "call_" and a part of the answer's own id.
std::string call_id(const std::string& answer_id, int choice, int call);

// The bytes of a string as an array of numbers.
Json byte_array(const std::string& bytes);

// {"total", "cache", "processed", "time_ms"}, as llama-server tells progress.
Json progress_object(const engine::PromptProgress& progress,
                     std::chrono::steady_clock::time_point start);

}  // namespace strata::server
