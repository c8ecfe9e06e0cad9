#include "server/prepare.h"

#include <array>

#include "server/thinking.h"

namespace strata::server {
namespace {

// Other names under which the APIs send a variable of the template.
struct Alias {
  const char* variable;
  const char* block;
  const char* field;
};
constexpr std::array<Alias, 5> kAliases{{{kEffortVariable, "reasoning", "effort"},
                                         {kEffortVariable, "output_config", "effort"},
                                         {"enable_thinking", "reasoning", "effort"},
                                         {"enable_thinking", "reasoning", "enabled"},
                                         {"enable_thinking", "thinking", "type"}}};

// The field of `body` that set a variable of the template; nothing when none did.
std::optional<std::string> field_of(const std::string& variable, const Json& body) {
  const auto given = [](const Json& object, const std::string& name) {
    const auto found = object.find(name);
    return found != object.end() && !found->is_null() ? &*found : nullptr;
  };
  if (given(body, variable) != nullptr) return variable;
  for (const Alias& alias : kAliases) {
    if (variable != alias.variable) continue;
    const Json* block = given(body, alias.block);
    if (block != nullptr && block->is_object() && given(*block, alias.field) != nullptr) {
      return fmt::format("{}.{}", alias.block, alias.field);
    }
  }
  const Json* variables = given(body, "chat_template_kwargs");
  if (variables != nullptr && variables->is_object() && variables->contains(variable)) {
    return fmt::format("chat_template_kwargs.{}",
                       valid_utf8(std::string_view(variable).substr(0, 64)));
  }
  return std::nullopt;
}

// What a chat template refused: the variable without which the chat renders, else empty, which
// stands for the messages.
std::string refused_variable(const engine::Engine& engine, const engine::ChatRequest& chat) {
  constexpr size_t kMaxTried = 8;
  if (!chat.template_kwargs.is_object() || chat.template_kwargs.size() > kMaxTried) return {};
  for (const auto& [name, value] : chat.template_kwargs.items()) {
    engine::ChatRequest without = chat;
    without.template_kwargs.erase(name);
    if (engine.render_chat(without).ok()) return name;
  }
  return {};
}

// Id of the token that closes a think block, when the vocabulary has one.
std::optional<TokenId> think_close_token(const engine::Engine& engine) {
  const auto tokens = engine.tokenize("</think>", true);
  if (!tokens.ok() || tokens->size() != 1) return std::nullopt;
  return tokens->front();
}

}  // namespace

void refuse_choices(FieldReader& reader) {
  for (const char* name : {"n", "best_of"}) {
    if (const auto count = reader.integer(name, 1, kMaxChoices); count && *count > 1) {
      reader.fail(name, "an answer of this API is one answer; send the request several times or "
                        "use /v1/chat/completions");
    }
  }
}

ModelFacts facts_of(const engine::Engine& engine) { return {engine.info().vocabulary}; }

AnswerInfo answer_info(const HandlerContext& context, const char* prefix) {
  std::string_view unique = context.request_id;
  if (unique.starts_with("req-")) unique.remove_prefix(4);
  return {fmt::format("{}{}", prefix, unique), context.engine.info().id, context.now};
}

Status check_length(const engine::Engine& engine, size_t tokens, const std::string& field) {
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

std::vector<engine::GenerateRequest> engine_requests(const HandlerContext& context,
                                                     std::vector<TokenId> prompt,
                                                     GenerationFields fields) {
  engine::GenerateRequest request;
  request.id = context.request_id;
  request.prompt = std::move(prompt);
  request.sampling = std::move(fields.sampling);
  request.stop = std::move(fields.stop);
  request.max_tokens = fields.max_tokens;
  request.ignore_eos = fields.ignore_eos;
  request.want_progress = fields.include_progress;
  std::vector<engine::GenerateRequest> out;
  for (int i = 1; i < fields.choices; ++i) {
    engine::GenerateRequest other = request;
    other.id = fmt::format("{}-{}", context.request_id, i);
    if (other.sampling.seed) *other.sampling.seed += static_cast<uint64_t>(i);
    out.push_back(std::move(other));
  }
  out.insert(out.begin(), std::move(request));
  return out;
}

Result<std::vector<TokenId>> tokens_of(const engine::Engine& engine, const Prompt& prompt,
                                       bool parse_special) {
  std::vector<TokenId> tokens;
  for (const PromptPart& part : prompt) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) {
      tokens.insert(tokens.end(), ids->begin(), ids->end());
    } else {
      STRATA_ASSIGN_OR_RETURN(const auto more, engine.tokenize(std::get<std::string>(part), parse_special));
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
  }
  return tokens;
}

Result<std::vector<TokenId>> prompt_tokens(const engine::Engine& engine, const Prompt& prompt) {
  STRATA_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, tokens_of(engine, prompt, true));
  if (tokens.empty()) return field_error("prompt", "the prompt has no tokens");
  return tokens;
}

Result<engine::RenderedChat> render(const engine::Engine& engine, const engine::ChatRequest& chat,
                                    const Json& body, const char* field) {
  Result<engine::RenderedChat> rendered = engine.render_chat(chat);
  const Status status = rendered.status();
  if (status.code() != StatusCode::kInvalidArgument || !status.field().empty()) return rendered;
  const std::string variable = refused_variable(engine, chat);
  const std::string blamed =
      variable.empty() ? field : field_of(variable, body).value_or(field);
  if (variable == kEffortVariable) {
    return field_error(blamed, fmt::format("{} Known efforts are {}.", status.message(),
                                           effort_words()));
  }
  return field_error(blamed, status.message());
}

Result<PreparedChat> prepare_chat_job(const HandlerContext& context, ChatJob job, const Json& body,
                                      const char* field) {
  engine::Engine& engine = context.engine;
  STRATA_ASSIGN_OR_RETURN(engine::RenderedChat chat, render(engine, job.chat, body, field));
  STRATA_RETURN_IF_ERROR(check_length(engine, chat.tokens.size(), field));
  PreparedChat out;
  out.prompt_tokens = chat.tokens.size();
  out.reply.starts_in_reasoning = chat.starts_in_reasoning;
  out.reply.think_close = think_close_token(engine);
  out.reply.tools = job.tools.set;
  if (!job.tools.parallel) out.reply.max_calls = 1;
  out.requests = engine_requests(context, std::move(chat.tokens), std::move(job.fields));
  if (job.constraint) job.constraint->after_thinking = chat.starts_in_reasoning;
  std::optional<engine::ReasoningBudget> budget;
  if (job.reasoning_budget && chat.starts_in_reasoning && out.reply.think_close) {
    // The block is closed the way templates write it.
    STRATA_ASSIGN_OR_RETURN(std::vector<TokenId> closing,
                            engine.tokenize("\n</think>\n\n", true));
    budget = {*job.reasoning_budget, *out.reply.think_close, std::move(closing)};
  }
  for (engine::GenerateRequest& request : out.requests) {
    request.constraint = job.constraint;
    request.stop_after_thinking = chat.starts_in_reasoning;
    request.reasoning_budget = budget;
  }
  return out;
}

}  // namespace strata::server
