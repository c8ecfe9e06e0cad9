// The endpoints that generate or tokenize, except those of files of their own.
#include "server/handlers.h"
#include "server/llama_compat.h"
#include "server/openai_request.h"
#include "server/openai_response.h"
#include "server/prepare.h"

namespace strata::server {
namespace {

Result<Generation> prepare_chat(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(ChatCompletionRequest parsed,
                          parse_chat_completion(body, facts_of(context.engine)));
  ChatAnswerOptions options;
  options.stream = parsed.fields.stream;
  options.choices = parsed.fields.choices;
  options.logprobs = parsed.fields.sampling.top_logprobs.has_value();
  options.include_usage = parsed.fields.include_usage;
  options.show_reasoning = parsed.show_reasoning;
  STRATA_ASSIGN_OR_RETURN(
      PreparedChat chat,
      prepare_chat_job(context,
                       {std::move(parsed.chat), std::move(parsed.fields), std::move(parsed.tools),
                        std::move(parsed.constraint), parsed.reasoning_budget},
                       body, "messages"));
  options.reply = std::move(chat.reply);
  Generation out;
  out.stream = options.stream;
  out.choices_per_prompt = options.choices;
  out.requests = std::move(chat.requests);
  out.answer = make_chat_answer(answer_info(context, "chatcmpl-"), options);
  return out;
}

// A prompt for people to read.
Result<std::string> text_of(const engine::Engine& engine, const Prompt& prompt,
                            const std::vector<TokenId>& tokens) {
  const auto* text = std::get_if<std::string>(&prompt.front());
  if (text != nullptr && prompt.size() == 1) return *text;
  STRATA_ASSIGN_OR_RETURN(const std::string bytes, engine.detokenize(tokens, true));
  return valid_utf8(bytes);
}

Result<Generation> prepare_completion(const HandlerContext& context, const Json& body) {
  engine::Engine& engine = context.engine;
  STRATA_ASSIGN_OR_RETURN(CompletionRequest parsed, parse_completion(body, facts_of(engine)));
  CompletionAnswerOptions options;
  options.stream = parsed.fields.stream;
  options.choices = parsed.fields.choices;
  options.logprobs = parsed.fields.sampling.top_logprobs.has_value();
  options.include_usage = parsed.fields.include_usage;
  options.echo.resize(parsed.prompts.size());
  Generation out;
  out.stream = options.stream;
  out.choices_per_prompt = options.choices;
  for (size_t i = 0; i < parsed.prompts.size(); ++i) {
    const std::string field = parsed.prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    STRATA_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, prompt_tokens(engine, parsed.prompts[i]));
    STRATA_RETURN_IF_ERROR(check_length(engine, tokens.size(), field));
    if (parsed.echo) {
      STRATA_ASSIGN_OR_RETURN(options.echo[i], text_of(engine, parsed.prompts[i], tokens));
    }
    for (engine::GenerateRequest& request :
         engine_requests(context, std::move(tokens), parsed.fields)) {
      if (!out.requests.empty()) {
        request.id = fmt::format("{}-{}", context.request_id, out.requests.size());
      }
      request.constraint = parsed.constraint;
      out.requests.push_back(std::move(request));
    }
  }
  out.answer = make_completion_answer(answer_info(context, "cmpl-"), std::move(options));
  return out;
}

Result<Generation> prepare_llama(const HandlerContext& context, const Json& body) {
  engine::Engine& engine = context.engine;
  STRATA_ASSIGN_OR_RETURN(LlamaCompletionRequest parsed,
                          parse_llama_completion(body, facts_of(engine)));
  STRATA_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, prompt_tokens(engine, parsed.prompt));
  STRATA_RETURN_IF_ERROR(check_length(engine, tokens.size(), "prompt"));
  LlamaAnswerOptions options;
  options.stream = parsed.fields.stream;
  options.return_tokens = parsed.return_tokens;
  options.logprobs = parsed.fields.sampling.top_logprobs.has_value();
  STRATA_ASSIGN_OR_RETURN(options.prompt, text_of(engine, parsed.prompt, tokens));
  options.settings = generation_settings(parsed.fields, engine.info());
  options.response_fields = std::move(parsed.response_fields);
  Generation out;
  out.stream = options.stream;
  out.requests = engine_requests(context, std::move(tokens), std::move(parsed.fields));
  out.requests[0].emit_special = parsed.emit_special;
  out.requests[0].constraint = std::move(parsed.constraint);
  out.answer = make_llama_answer(answer_info(context, "cmpl-"), options);
  return out;
}

Result<Json> tokenize(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(const TokenizeRequest parsed,
                          parse_tokenize(body, facts_of(context.engine)));
  STRATA_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                          tokens_of(context.engine, parsed.content, parsed.parse_special));
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

}  // namespace

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

}  // namespace strata::server
