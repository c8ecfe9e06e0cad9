// The Responses API.
#include <algorithm>
#include <charconv>

#include "server/chat_messages.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/responses_request.h"
#include "server/responses_response.h"

namespace strata::server {
namespace {

constexpr std::string_view kPath = "/v1/responses/";
constexpr std::string_view kItems = "/input_items";
constexpr std::string_view kCancel = "/cancel";
constexpr const char* kInput = "input";
constexpr size_t kDefaultPage = 20;
constexpr size_t kMaxPage = 100;

bool fits(const Result<engine::RenderedChat>& chat, const engine::Engine& engine) {
  return !chat.ok() || check_length(engine, chat->tokens.size(), kInput).ok();
}

// Leaves out as few of the first turns as the context asks for. What does not fit without them is
// for prepare_chat_job() to refuse, and so is what cannot be rendered.
void truncate(const engine::Engine& engine, ResponsesRequest& request) {
  engine::ChatRequest chat = request.job.chat;
  if (fits(engine.render_chat(chat), engine)) return;
  size_t low = 0;  // so many are too few
  size_t high = droppable_turns(request.conversation);
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    chat.messages = messages_for_template(without_turns(request.conversation, middle));
    (fits(engine.render_chat(chat), engine) ? high : low) = middle;
  }
  request.job.chat.messages = messages_for_template(without_turns(request.conversation, high));
}

Result<ResponsesRequest> parse(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(
      ResponsesRequest parsed,
      parse_responses(body, facts_of(context.engine), context.state.responses));
  if (parsed.truncate) truncate(context.engine, parsed);
  return parsed;
}

Result<Json> count_tokens(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(const ResponsesRequest parsed, parse(context, body));
  STRATA_ASSIGN_OR_RETURN(const engine::RenderedChat chat,
                          render(context.engine, parsed.job.chat, body, kInput));
  return Json{{"object", "response.input_tokens"}, {"input_tokens", chat.tokens.size()}};
}

Result<Generation> prepare_responses(const HandlerContext& context, const Json& body) {
  STRATA_ASSIGN_OR_RETURN(ResponsesRequest parsed, parse(context, body));
  ResponsesAnswerOptions options;
  options.stream = parsed.stream;
  options.logprobs = parsed.job.fields.sampling.top_logprobs.has_value();
  options.echo = std::move(parsed.echo);
  STRATA_ASSIGN_OR_RETURN(PreparedChat chat,
                          prepare_chat_job(context, std::move(parsed.job), body, kInput));
  options.reply = std::move(chat.reply);
  const AnswerInfo info = answer_info(context, "resp_");
  if (parsed.store) {
    options.keep = [&store = context.state.responses, id = info.id,
                    items = std::move(parsed.input_items),
                    history = std::move(parsed.history)](const Json& response, Json message) {
      Json messages = history;
      messages.push_back(std::move(message));
      store.put(id, {response, items, std::move(messages)});
    };
  }
  Generation out;
  out.stream = parsed.stream;
  out.requests = std::move(chat.requests);
  out.answer = make_responses_answer(info, std::move(options));
  return out;
}

Response unknown(std::string_view id) {
  return error_response(Status(StatusCode::kNotFound,
                               fmt::format("There is no stored answer \"{}\".",
                                           valid_utf8(id.substr(0, 128))),
                               "response_id"));
}

// Which part of a list a request wants.
struct Page {
  size_t limit = kDefaultPage;
  bool newest_first = true;
  std::string after;  // id of the item before it; empty: from the beginning
};

Result<Page> page_of(const Request& request) {
  Page page;
  if (const auto limit = request.parameter("limit")) {
    const char* end = limit->data() + limit->size();
    const auto read = std::from_chars(limit->data(), end, page.limit);
    if (read.ec != std::errc() || read.ptr != end || page.limit < 1 || page.limit > kMaxPage) {
      return field_error("limit", fmt::format("expected a whole number from 1 to {}", kMaxPage));
    }
  }
  if (const auto order = request.parameter("order")) {
    if (*order != "asc" && *order != "desc") return field_error("order", "use asc or desc");
    page.newest_first = *order == "desc";
  }
  page.after = request.parameter("after").value_or("");
  return page;
}

// Items that came without an id get one by their place.
Result<Json> item_list(Json items, const Page& page) {
  for (size_t i = 0; i < items.size(); ++i) {
    const auto id = items[i].find("id");
    if (id == items[i].end() || !id->is_string()) items[i]["id"] = fmt::format("item_{}", i);
  }
  if (page.newest_first) std::reverse(items.begin(), items.end());
  auto first = items.begin();
  if (!page.after.empty()) {
    first = std::find_if(items.begin(), items.end(),
                         [&](const Json& item) { return item["id"] == page.after; });
    if (first == items.end()) {
      return field_error("after", fmt::format("there is no item \"{}\" in this list",
                                              valid_utf8(page.after.substr(0, 128))));
    }
    ++first;
  }
  const auto left = static_cast<size_t>(items.end() - first);
  const auto count = static_cast<std::ptrdiff_t>(std::min(left, page.limit));
  Json data = Json::array();
  for (auto item = first; item != first + count; ++item) data.push_back(std::move(*item));
  Json body = Json::object();
  body["object"] = "list";
  body["first_id"] = data.empty() ? Json(nullptr) : data.front()["id"];
  body["last_id"] = data.empty() ? Json(nullptr) : data.back()["id"];
  body["has_more"] = left > page.limit;
  body["data"] = std::move(data);
  return body;
}

std::string_view id_in(const Request& request, std::string_view end = {}) {
  std::string_view id = std::string_view(request.path).substr(kPath.size());
  id.remove_suffix(end.size());
  return id;
}

// As this API says that there is no such answer before: 400 and a code of its own.
Outcome with_code(Outcome outcome) {
  const auto* response = std::get_if<Response>(&outcome);
  if (response == nullptr || !response->error || response->status != 404 ||
      response->error->param != "previous_response_id") {
    return outcome;
  }
  const ErrorDetail& error = *response->error;
  return error_response(Status(StatusCode::kInvalidArgument, error.message, error.param),
                        "previous_response_not_found");
}

}  // namespace

Outcome handle_responses(const HandlerContext& context, const Request& request) {
  return with_code(with_body(context, request, prepare_responses));
}

Outcome handle_response_tokens(const HandlerContext& context, const Request& request) {
  return with_code(with_body(context, request, count_tokens));
}

Outcome handle_stored_response(const HandlerContext& context, const Request& request) {
  const std::string_view id = id_in(request);
  const auto stored = context.state.responses.find(std::string(id));
  if (stored == nullptr) return unknown(id);
  if (request.parameter("stream") == "true") {
    return error_response(field_error("stream", "a stored answer is not streamed again"));
  }
  return json_response(200, stored->response);
}

Outcome handle_response_items(const HandlerContext& context, const Request& request) {
  const std::string_view id = id_in(request, kItems);
  const auto stored = context.state.responses.find(std::string(id));
  if (stored == nullptr) return unknown(id);
  const Result<Page> page = page_of(request);
  if (!page.ok()) return error_response(page.status());
  const Result<Json> list = item_list(stored->input_items, *page);
  return list.ok() ? json_response(200, *list) : error_response(list.status());
}

Outcome handle_cancel_response(const HandlerContext& context, const Request& request) {
  const std::string_view id = id_in(request, kCancel);
  if (context.state.responses.find(std::string(id)) == nullptr) return unknown(id);
  return error_response(Status(StatusCode::kInvalidArgument,
                               "Only answers in the background can be cancelled, and this is none; "
                               "to end an answer that is being made, close its connection.",
                               "response_id"));
}

Outcome handle_delete_response(const HandlerContext& context, const Request& request) {
  const std::string_view id = id_in(request);
  if (!context.state.responses.erase(std::string(id))) return unknown(id);
  return json_response(200, Json{{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace strata::server
