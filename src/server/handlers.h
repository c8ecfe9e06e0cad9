// What each endpoint does, apart from sockets: a request in, an answer or a generation to run out.
#pragma once

#include <string>
#include <variant>

#include "engine/engine.h"
#include "server/answer.h"
#include "server/http_message.h"

namespace strata::server {

using Outcome = std::variant<Response, Generation>;

struct HandlerContext {
  engine::Engine& engine;
  std::string request_id;  // "req-0123..."
  int64_t now = 0;         // Unix seconds
};

// GET /health: 200 {"status": "ok"} when ready; 503 while loading and after a failure.
Outcome handle_health(const HandlerContext& context, const Request& request);
Outcome handle_models(const HandlerContext& context, const Request& request);
Outcome handle_model(const HandlerContext& context, const Request& request);
Outcome handle_chat_completions(const HandlerContext& context, const Request& request);
Outcome handle_completions(const HandlerContext& context, const Request& request);
Outcome handle_llama_completion(const HandlerContext& context, const Request& request);
Outcome handle_tokenize(const HandlerContext& context, const Request& request);
Outcome handle_detokenize(const HandlerContext& context, const Request& request);
Outcome handle_apply_template(const HandlerContext& context, const Request& request);
Outcome handle_page(const HandlerContext& context, const Request& request);

// The answer for an engine that is not ready, or kOk.
Status check_ready(const engine::Engine& engine);

// The answer for a request that Engine::submit refused.
Response submit_error(const Status& status);

}  // namespace strata::server
