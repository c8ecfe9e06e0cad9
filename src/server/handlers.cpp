#include "server/handlers.h"

#include "server/errors.h"
#include "server/llama_compat.h"
#include "server/openai_request.h"
#include "server/openai_response.h"
#include "server/page.h"

namespace strata::server {
namespace {

constexpr std::string_view kModelsPath = "/v1/models/";
constexpr const char* kContextLength = "context_length_exceeded";

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
  out["meta"] = std::move(meta);
  return out;
}

ModelFacts facts_of(const engine::Engine& engine) { return {engine.info().vocabulary}; }

AnswerInfo answer_info(const HandlerContext& context, const char* prefix) {
  std::string_view unique = context.request_id;
  if (unique.starts_with("req-")) unique.remove_prefix(4);
  return {fmt::format("{}{}", prefix, unique), context.engine.info().id, context.now};
}

Status check_length(const engine::Engine& engine, size_t tokens, const char* field) {
  const int limit = engine.info().context_length;
  if (tokens < static_cast<size_t>(limit)) return {};
  return Status(
      StatusCode::kOutOfRange,
      fmt::format("{}: the prompt has {} tokens, but the context holds {} tokens and needs "
                  "room for the answer; shorten the prompt or start the server with a "
                  "larger context",
                  field, tokens, limit),
      field);
}

engine::GenerateRequest engine_request(const HandlerContext& context, std::vector<TokenId> prompt,
                                       GenerationFields fields) {
  engine::GenerateRequest request;
  request.id = context.request_id;
  request.prompt = std::move(prompt);
  request.sampling = std::move(fields.sampling);
  request.stop = std::move(fields.stop);
  request.max_tokens = fields.max_tokens;
  request.ignore_eos = fields.ignore_eos;
  return request;
}

Result<std::vector<TokenId>> tokens_of(const engine::Engine& engine, const Prompt& prompt) {
  std::vector<TokenId> tokens;
  for (const PromptPart& part : prompt) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) {
      tokens.insert(tokens.end(), ids->begin(), ids->end());
    } else {
      STRATA_ASSIGN_OR_RETURN(const auto more, engine.tokenize(std::get<std::string>(part), true));
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
  }
  if (tokens.empty()) return field_error("prompt", "the prompt has no tokens");
  return tokens;
}

// The request field that a chat template refused: the variable without which the chat renders, else
// the messages. `body` tells whether a variable was a field of its own.
std::string refused_field(const engine::Engine& engine, const engine::ChatRequest& chat,
                          const Json& body) {
  constexpr size_t kMaxTried = 8;
  if (!chat.template_kwargs.is_object() || chat.template_kwargs.size() > kMaxTried) {
    return "messages";
  }
  for (const auto& [name, value] : chat.template_kwargs.items()) {
    engine::ChatRequest without = chat;
    without.template_kwargs.erase(name);
    if (!engine.render_chat(without).ok()) continue;
    return body.contains(name) ? name
                               : fmt::format("chat_template_kwargs.{}",
                                             valid_utf8(std::string_view(name).substr(0, 64)));
  }
  return "messages";
}

Result<engine::RenderedChat> render(const engine::Engine& engine, const engine::ChatRequest& chat,
                                    const Json& body) {
  Result<engine::RenderedChat> rendered = engine.render_chat(chat);
  const Status status = rendered.status();
  if (status.code() != StatusCode::kInvalidArgument || !status.field().empty()) return rendered;
  const std::string field = refused_field(engine, chat, body);
  return field_error(field, status.message());
}

// Id of the token that closes a think block, when the vocabulary has one.
std::optional<TokenId> think_close_token(const engine::Engine& engine) {
  const auto tokens = engine.tokenize("</think>", true);
  if (!tokens.ok() || tokens->size() != 1) return std::nullopt;
  return tokens->front();
}

Result<Generation> prepare_chat(const HandlerContext& context, const Json& body) {
  engine::Engine& engine = context.engine;
  STRATA_ASSIGN_OR_RETURN(ChatCompletionRequest parsed,
                          parse_chat_completion(body, facts_of(engine)));
  STRATA_ASSIGN_OR_RETURN(engine::RenderedChat chat, render(engine, parsed.chat, body));
  STRATA_RETURN_IF_ERROR(check_length(engine, chat.tokens.size(), "messages"));
  ChatAnswerOptions options;
  options.starts_in_reasoning = chat.starts_in_reasoning;
  options.think_close = think_close_token(engine);
  options.logprobs = parsed.fields.sampling.top_logprobs.has_value();
  options.include_usage = parsed.fields.include_usage;
  Generation out;
  out.stream = parsed.fields.stream;
  out.request = engine_request(context, std::move(chat.tokens), std::move(parsed.fields));
  out.answer = make_chat_answer(answer_info(context, "chatcmpl-"), options);
  return out;
}

Result<Generation> prepare_completion(const HandlerContext& context, const Json& body) {
  engine::Engine& engine = context.engine;
  STRATA_ASSIGN_OR_RETURN(CompletionRequest parsed, parse_completion(body, facts_of(engine)));
  STRATA_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, tokens_of(engine, parsed.prompt));
  STRATA_RETURN_IF_ERROR(check_length(engine, tokens.size(), "prompt"));
  CompletionAnswerOptions options;
  options.logprobs = parsed.fields.sampling.top_logprobs.has_value();
  options.include_usage = parsed.fields.include_usage;
  if (parsed.echo) {
    if (const auto* text = std::get_if<std::string>(&parsed.prompt.front())) {
      options.echo = *text;
    } else {
      STRATA_ASSIGN_OR_RETURN(const std::string bytes, engine.detokenize(tokens, true));
      options.echo = valid_utf8(bytes);
    }
  }
  Generation out;
  out.stream = parsed.fields.stream;
  out.request = engine_request(context, std::move(tokens), std::move(parsed.fields));
  out.answer = make_completion_answer(answer_info(context, "cmpl-"), std::move(options));
  return out;
}

Result<Generation> prepare_llama(const HandlerContext& context, const Json& body) {
  engine::Engine& engine = context.engine;
  STRATA_ASSIGN_OR_RETURN(LlamaCompletionRequest parsed,
                          parse_llama_completion(body, facts_of(engine)));
  STRATA_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, tokens_of(engine, parsed.prompt));
  STRATA_RETURN_IF_ERROR(check_length(engine, tokens.size(), "prompt"));
  LlamaAnswerOptions options;
  options.return_tokens = parsed.return_tokens;
  options.logprobs = parsed.fields.sampling.top_logprobs.has_value();
  Generation out;
  out.stream = parsed.fields.stream;
  out.request = engine_request(context, std::move(tokens), std::move(parsed.fields));
  out.request.emit_special = parsed.emit_special;
  out.answer = make_llama_answer(answer_info(context, "cmpl-"), options);
  return out;
}

Result<Json> tokenize(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(const TokenizeRequest parsed, parse_tokenize(body));
  STRATA_ASSIGN_OR_RETURN(const auto tokens,
                          context.engine.tokenize(parsed.content, parsed.parse_special));
  std::vector<std::string> pieces;
  if (parsed.with_pieces) {
    pieces.reserve(tokens.size());
    for (const TokenId token : tokens) {
      STRATA_ASSIGN_OR_RETURN(std::string piece, context.engine.detokenize({&token, 1}, true));
      pieces.push_back(std::move(piece));
    }
  }
  return tokenize_answer(tokens, pieces);
}

Result<Json> detokenize(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(const auto tokens, parse_detokenize(body, facts_of(context.engine)));
  STRATA_ASSIGN_OR_RETURN(const std::string bytes, context.engine.detokenize(tokens, true));
  return Json{{"content", valid_utf8(bytes)}};
}

Result<Json> apply_template(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(const auto chat, parse_chat_prompt(body));
  STRATA_ASSIGN_OR_RETURN(const auto rendered, render(context.engine, chat, body));
  return Json{{"prompt", valid_utf8(rendered.text)}};
}

// `unnamed_is_length`: a limit without a field is the context's, too.
Response refusal(const Status& status, bool unnamed_is_length) {
  const std::string& field = status.field();
  const bool about_length =
      status.code() == StatusCode::kOutOfRange &&
      (field == "prompt" || field == "messages" || (field.empty() && unnamed_is_length));
  return error_response(status, about_length ? kContextLength : nullptr);
}

Response not_ready(const Status& status, const engine::Engine& engine) {
  Response response = error_response(status);
  if (engine.state().stage == engine::EngineStage::kLoading) response.set("Retry-After", "5");
  return response;
}

// The engine is ready and the body is JSON: what every POST endpoint starts with.
template <class Prepare>
Outcome with_body(const HandlerContext& context, const Request& request, Prepare prepare) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  const Result<Json> body = parse_json(request.body);
  if (!body.ok()) return error_response(body.status());
  auto result = prepare(context, *body);
  if (!result.ok()) return refusal(result.status(), false);
  if constexpr (std::is_same_v<decltype(result), Result<Json>>) {
    return json_response(200, *result);
  } else {
    return std::move(result).value();
  }
}

}  // namespace

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

Response submit_error(const Status& status) { return refusal(status, true); }

Outcome handle_health(const HandlerContext& context, const Request&) {
  const engine::EngineState state = context.engine.state();
  Json body = Json::object();
  switch (state.stage) {
    case engine::EngineStage::kReady: {
      const engine::QueueInfo queue = context.engine.queue();
      body["status"] = "ok";
      body["running"] = queue.running;
      body["waiting"] = queue.waiting;
      return json_response(200, body);
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

Outcome handle_models(const HandlerContext& context, const Request&) {
  if (const Status ready = check_ready(context.engine); !ready.ok()) {
    return not_ready(ready, context.engine);
  }
  Json body = Json::object();
  body["object"] = "list";
  body["data"] = Json::array({model_object(context)});
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

Outcome handle_chat_completions(const HandlerContext& context, const Request& request) {
  return with_body(context, request, prepare_chat);
}

Outcome handle_completions(const HandlerContext& context, const Request& request) {
  return with_body(context, request, prepare_completion);
}

Outcome handle_llama_completion(const HandlerContext& context, const Request& request) {
  return with_body(context, request, prepare_llama);
}

Outcome handle_tokenize(const HandlerContext& context, const Request& request) {
  return with_body(context, request, tokenize);
}

Outcome handle_detokenize(const HandlerContext& context, const Request& request) {
  return with_body(context, request, detokenize);
}

Outcome handle_apply_template(const HandlerContext& context, const Request& request) {
  return with_body(context, request, apply_template);
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
               "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  return response;
}

}  // namespace strata::server
