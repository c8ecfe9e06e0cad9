// Bodies of POST /v1/messages and /v1/messages/count_tokens, checked and turned into a chat.
#pragma once

#include "server/prepare.h"

namespace strata::server {

struct MessagesRequest {
  ChatJob job;
  bool stream = false;
};

// `needs_limit`: max_tokens is required, as it is for an answer but not for counting. As in that
// API there is no thinking unless `thinking` or output_config.effort asks for it.
Result<MessagesRequest> parse_messages(const Json& body, const ModelFacts& facts, bool needs_limit);

}  // namespace strata::server
