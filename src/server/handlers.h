// What each endpoint does, apart from sockets: a request in, an answer or a generation to run out.
#pragma once

#include <string>
#include <variant>

#include "engine/engine.h"
#include "server/answer.h"
#include "server/errors.h"
#include "server/http_message.h"
#include "server/server_state.h"

namespace strata::server {

using Outcome = std::variant<Response, Generation>;

struct HandlerContext {
  engine::Engine& engine;
  ServerState& state;
  std::string request_id;  // "req-0123..."
  int64_t now = 0;         // Unix seconds
  std::string told_id;     // the id in the answer's head: the client's own name for it, or ours
};

// GET /health: 200 {"status": "ok"} when ready; 503 while loading and after a failure. "degraded"
// when the engine does not end what was given up: 503 while it gives no sign of life, else 200. With
// ?verbose also what is served.
Outcome handle_health(const HandlerContext& context, const Request& request);
// GET /v1/status: always 200; "ok", "degraded", "loading" or "failed", with devices, placement of the
// layers, plan, and what requests are doing; no text of theirs.
Outcome handle_status(const HandlerContext& context, const Request& request);
Outcome handle_models(const HandlerContext& context, const Request& request);
Outcome handle_model(const HandlerContext& context, const Request& request);
Outcome handle_chat_completions(const HandlerContext& context, const Request& request);
Outcome handle_completions(const HandlerContext& context, const Request& request);
Outcome handle_messages(const HandlerContext& context, const Request& request);
Outcome handle_count_tokens(const HandlerContext& context, const Request& request);
Outcome handle_responses(const HandlerContext& context, const Request& request);
// GET /v1/responses/ID and /v1/responses/ID/input_items
Outcome handle_stored_response(const HandlerContext& context, const Request& request);
Outcome handle_response_items(const HandlerContext& context, const Request& request);
Outcome handle_response_tokens(const HandlerContext& context, const Request& request);
Outcome handle_cancel_response(const HandlerContext& context, const Request& request);
Outcome handle_delete_response(const HandlerContext& context, const Request& request);
Outcome handle_embeddings(const HandlerContext& context, const Request& request);
Outcome handle_props(const HandlerContext& context, const Request& request);
Outcome handle_slots(const HandlerContext& context, const Request& request);
Outcome handle_metrics(const HandlerContext& context, const Request& request);
Outcome handle_llama_completion(const HandlerContext& context, const Request& request);
Outcome handle_tokenize(const HandlerContext& context, const Request& request);
Outcome handle_detokenize(const HandlerContext& context, const Request& request);
Outcome handle_apply_template(const HandlerContext& context, const Request& request);
Outcome handle_page(const HandlerContext& context, const Request& request);

// The answer for an engine that is not ready, or kOk.
Status check_ready(const engine::Engine& engine);

// The answer that says so.
Response not_ready(const Status& status, const engine::Engine& engine);

// The answer for a request that Engine::submit refused, and for one that was refused before.
Response submit_error(const Status& status);
Response request_error(const Status& status);

// The engine is ready and the body is JSON: what every POST endpoint starts with. `prepare` turns
// the body into a Result<Json> or a Result<Generation>.
template <class Prepare>
Outcome with_body(const HandlerContext& context, const Request& request, Prepare prepare) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  const Result<Json> body = parse_json(request.body);
  if (!body.ok()) return error_response(body.status());
  auto result = prepare(context, *body);
  if (!result.ok()) return request_error(result.status());
  if constexpr (std::is_same_v<decltype(result), Result<Json>>) {
    return json_response(200, *result);
  } else {
    return std::move(result).value();
  }
}

}  // namespace strata::server
