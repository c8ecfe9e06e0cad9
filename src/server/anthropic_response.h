// Answers and errors in the shape of the Messages API.
#pragma once

#include <memory>

#include "server/answer.h"
#include "server/reply.h"

namespace strata::server {

struct MessagesAnswerOptions {
  bool stream = false;
  int prompt_tokens = 0;
  std::string request_id;  // as errors inside a stream tell it
  ReplyOptions reply;
};

std::unique_ptr<Answer> make_messages_answer(AnswerInfo info, const MessagesAnswerOptions& options);

// The status by which this API says what the others say with `http_status` and `code`.
int messages_status(int http_status, std::string_view code);
// {"type": "error", "error": {"type", "message"}, "request_id"}
Json messages_error(int http_status, const std::string& message, const std::string& request_id);

}  // namespace strata::server
