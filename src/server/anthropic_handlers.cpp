// The Messages API.
#include "server/anthropic_request.h"
#include "server/anthropic_response.h"
#include "server/handlers.h"

namespace strata::server {
namespace {

Result<Generation> prepare_messages(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(MessagesRequest parsed,
                          parse_messages(body, facts_of(context.engine), true));
  STRATA_ASSIGN_OR_RETURN(PreparedChat chat,
                          prepare_chat_job(context, std::move(parsed.job), body, "messages"));
  MessagesAnswerOptions options;
  options.stream = parsed.stream;
  options.prompt_tokens = static_cast<int>(chat.prompt_tokens);
  options.request_id = context.told_id;
  options.reply = std::move(chat.reply);
  Generation out;
  out.stream = parsed.stream;
  out.requests = std::move(chat.requests);
  out.answer = make_messages_answer(answer_info(context, "msg_"), options);
  return out;
}

Result<Json> count_tokens(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(const MessagesRequest parsed,
                          parse_messages(body, facts_of(context.engine), false));
  STRATA_ASSIGN_OR_RETURN(const engine::RenderedChat chat,
                          render(context.engine, parsed.job.chat, body));
  return Json{{"input_tokens", chat.tokens.size()}};
}

}  // namespace

Outcome handle_messages(const HandlerContext& context, const Request& request) {
  return with_body(context, request, prepare_messages);
}

Outcome handle_count_tokens(const HandlerContext& context, const Request& request) {
  return with_body(context, request, count_tokens);
}

}  // namespace strata::server
