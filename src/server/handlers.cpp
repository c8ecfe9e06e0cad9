#include "server/handlers.h"

#include <chrono>

#include "server/errors.h"
#include "server/llama_compat.h"
#include "server/page.h"

namespace strata::server {
namespace {

constexpr std::string_view kModelsPath = "/v1/models/";
constexpr const char* kContextLength = "context_length_exceeded";

std::string rfc3339(int64_t unix_seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

Json model_object(const HandlerContext& context) {
  const engine::ModelInfo& info = context.engine.info();
  Json meta = Json::object();
  meta["architecture"] = info.architecture;
  meta["n_ctx"] = info.context_length;
  meta["n_ctx_train"] = info.trained_context;
  meta["n_vocab"] = info.vocabulary;
  meta["n_params"] = info.parameters;
  meta["size"] = info.file_bytes;
  Json out = Json::object();
  out["id"] = info.id;
  out["object"] = "model";
  out["created"] = context.now;
  out["owned_by"] = "strata";
  // The same in the words of the Messages API.
  out["type"] = "model";
  out["created_at"] = rfc3339(context.now);
  out["display_name"] = info.id;
  out["meta"] = std::move(meta);
  return out;
}

// `unnamed_is_length`: a limit without a field is the context's, too.
Response length_aware(const Status& status, bool unnamed_is_length) {
  const std::string& field = status.field();
  const bool about_length =
      status.code() == StatusCode::kOutOfRange &&
      (field == "prompt" || field.starts_with("prompt[") || field == "messages" || field == "input" || (field.empty() && unnamed_is_length));
  return error_response(status, about_length ? kContextLength : nullptr);
}

}  // namespace

Response not_ready(const Status& status, const engine::Engine& engine) {
  Response response = error_response(status);
  if (engine.state().stage == engine::EngineStage::kLoading) response.set("Retry-After", "5");
  return response;
}

Status check_ready(const engine::Engine& engine) {
  const engine::EngineState state = engine.state();
  switch (state.stage) {
    case engine::EngineStage::kReady: return {};
    case engine::EngineStage::kLoading:
      return unavailable("The model is still loading ({:.0f} %{}{}); try again in a moment.",
                         state.load_progress * 100.0, state.message.empty() ? "" : ": ",
                         state.message);
    case engine::EngineStage::kFailed:
      return unavailable("The engine has failed: {}", state.message);
  }
  return internal_error("The engine is in an unknown state.");
}

Response submit_error(const Status& status) { return length_aware(status, true); }
Response request_error(const Status& status) { return length_aware(status, false); }

Outcome handle_health(const HandlerContext& context, const Request& request) {
  const engine::EngineState state = context.engine.state();
  Json body = Json::object();
  switch (state.stage) {
    case engine::EngineStage::kReady: {
      const engine::QueueInfo queue = context.engine.queue();
      const EngineWatch::Trouble trouble = context.state.watch.trouble();
      const std::string why = trouble.text.empty() ? state.degraded : trouble.text;
      body["status"] = trouble.text.empty() ? "ok" : "degraded";
      body["running"] = queue.running;
      body["waiting"] = queue.waiting;
      if (!why.empty()) body["degraded"] = why;
      if (request.parameter("verbose")) {
        body["model"] = model_object(context);
        body["engine"] = context.engine.describe();
        body["kernels"] = context.engine.describe_kernels();
      }
      return json_response(trouble.stuck ? 503 : 200, body);
    }
    case engine::EngineStage::kLoading:
      body["status"] = "loading";
      body["progress"] = state.load_progress;
      break;
    case engine::EngineStage::kFailed: body["status"] = "failed"; break;
  }
  body["message"] = state.message;
  return json_response(503, body);
}

Outcome handle_status(const HandlerContext& context, const Request&) {
  const engine::EngineState state = context.engine.state();
  const engine::QueueInfo queue = context.engine.queue();
  Json body = Json::object();
  const std::string trouble = context.state.watch.trouble().text;
  const std::string& why = trouble.empty() ? state.degraded : trouble;
  body["status"] = state.stage == engine::EngineStage::kLoading ? "loading"
                   : state.stage == engine::EngineStage::kFailed ? "failed"
                   : why.empty()                                 ? "ok"
                                                                 : "degraded";
  body["message"] = why.empty() ? state.message : why;
  body["progress"] = state.load_progress;
  body["running"] = queue.running;
  body["waiting"] = queue.waiting;
  if (state.stage == engine::EngineStage::kReady) body["model"] = model_object(context);
  body["activity"] = context.state.activity.describe(queue.running);
  body["engine"] = context.engine.describe();
  return json_response(200, body);
}

Outcome handle_models(const HandlerContext& context, const Request&) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  Json body = Json::object();
  body["object"] = "list";
  body["data"] = Json::array({model_object(context)});
  body["has_more"] = false;
  body["first_id"] = body["last_id"] = context.engine.info().id;
  return json_response(200, body);
}

Outcome handle_model(const HandlerContext& context, const Request& request) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  const std::string_view id = std::string_view(request.path).substr(kModelsPath.size());
  const std::string& served = context.engine.info().id;
  if (id == served) return json_response(200, model_object(context));
  return error_response(Status(StatusCode::kNotFound,
                               fmt::format("There is no model \"{}\" here; this server has \"{}\".",
                                           valid_utf8(id.substr(0, 128)), served),
                               "model"),
                        "model_not_found");
}

Outcome handle_embeddings(const HandlerContext& context, const Request&) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  return http_error(400,
                    fmt::format("{} generates text and makes no embeddings; ask a server that runs "
                                "an embedding model.",
                                context.engine.info().id),
                    "unsupported_endpoint");
}

Outcome handle_props(const HandlerContext& context, const Request&) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  const engine::ModelInfo& info = context.engine.info();
  Json body = Json::object();
  body["default_generation_settings"] =
      Json{{"id", 0}, {"n_ctx", info.context_length}, {"params", generation_settings({}, info)}};
  body["total_slots"] = 1;
  body["model_alias"] = info.id;
  body["model_path"] = info.path;
  body["modalities"] = Json{{"vision", false}, {"audio", false}};
  body["has_chat_template"] = info.has_chat_template;
  body["chat_template"] = valid_utf8(info.chat_template);
  body["bos_token"] = valid_utf8(info.bos_token);
  body["eos_token"] = valid_utf8(info.eos_token);
  body["build_info"] = "strata " STRATA_VERSION;
  return json_response(200, body);
}

Outcome handle_slots(const HandlerContext& context, const Request&) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  Json slot = Json::object();
  slot["id"] = 0;
  slot["n_ctx"] = context.engine.info().context_length;
  slot["is_processing"] = context.engine.queue().running > 0;
  slot["speculative"] = false;
  slot["params"] = generation_settings({}, context.engine.info());
  return json_response(200, Json::array({std::move(slot)}));
}

Outcome handle_metrics(const HandlerContext& context, const Request&) {
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.state.metrics.text();
  return response;
}

Outcome handle_page(const HandlerContext&, const Request& request) {
  const PageFile* file = find_page_file(request.path);
  if (file == nullptr) return http_error(404, "There is no such page.", "not_found");
  Response response;
  response.content_type = file->content_type;
  response.body.assign(file->bytes);
  response.set("Cache-Control", "no-cache");
  response.set("Referrer-Policy", "no-referrer");
  response.set("Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
               "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
               "require-trusted-types-for 'script'; trusted-types dompurify");
  return response;
}

}  // namespace strata::server
