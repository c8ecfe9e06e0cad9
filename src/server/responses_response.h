// Answers in the shape of the Responses API.
#pragma once

#include <functional>
#include <memory>

#include "server/answer.h"
#include "server/reply.h"
#include "server/response_store.h"

namespace strata::server {

struct ResponsesAnswerOptions {
  bool stream = false;
  bool logprobs = false;
  ReplyOptions reply;
  Json echo;  // settings that the response object repeats
  // Called with the finished response and the assistant's message, when it is to be kept.
  std::function<void(const Json& response, Json message)> keep;
};

std::unique_ptr<Answer> make_responses_answer(AnswerInfo info, ResponsesAnswerOptions options);

}  // namespace strata::server
