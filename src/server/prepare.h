// From checked request fields to generations: rendering, limits and constraints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/handlers.h"
#include "server/reply.h"
#include "server/request_fields.h"
#include "server/tool_request.h"

namespace strata::server {

ModelFacts facts_of(const engine::Engine& engine);
AnswerInfo answer_info(const HandlerContext& context, const char* prefix);

// kOutOfRange, naming `field`, when a prompt of so many tokens leaves no room for an answer.
Status check_length(const engine::Engine& engine, size_t tokens, const std::string& field);

Result<std::vector<TokenId>> tokens_of(const engine::Engine& engine, const Prompt& prompt,
                                       bool parse_special);
// With control tokens by their names; fails when there are none at all.
Result<std::vector<TokenId>> prompt_tokens(const engine::Engine& engine, const Prompt& prompt);

// The prompt of a chat. What the template refuses is blamed on the field of `body` without which it
// would render, or on `field`, which names the messages.
Result<engine::RenderedChat> render(const engine::Engine& engine, const engine::ChatRequest& chat,
                                    const Json& body, const char* field = "messages");

// A chat of any API, ready to be rendered.
struct ChatJob {
  engine::ChatRequest chat;
  GenerationFields fields;
  ToolUse tools;
  std::optional<engine::ConstraintSpec> constraint;  // thinking not yet considered
  std::optional<int> reasoning_budget;
};

// The chat's generations, and how their answers are to be read. `field` names the messages.
struct PreparedChat {
  std::vector<engine::GenerateRequest> requests;
  ReplyOptions reply;
  size_t prompt_tokens = 0;
};
Result<PreparedChat> prepare_chat_job(const HandlerContext& context, ChatJob job, const Json& body,
                                      const char* field);

// Refuses more answers than one, where the API's answers have room for one.
void refuse_choices(FieldReader& reader);

// One request per choice. With a seed each choice has its own: seed, seed + 1, ...
std::vector<engine::GenerateRequest> engine_requests(const HandlerContext& context,
                                                     std::vector<TokenId> prompt,
                                                     GenerationFields fields);

}  // namespace strata::server
