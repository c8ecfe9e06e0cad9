#include "server/responses_request.h"

#include <algorithm>
#include <array>
#include <limits>

#include "server/chat_messages.h"
#include "server/output_format.h"
#include "server/thinking.h"

namespace strata::server {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int kMaxTopLogprobs = 20;

std::string shortened(std::string_view text) { return valid_utf8(text.substr(0, 64)); }

// The text of a string or of an array of parts that are text.
Result<std::string> text_of(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    return field_error(path, fmt::format("expected a string or an array, got {}",
                                         json_type_name(content)));
  }
  std::string out;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!content[i].is_object()) return field_error(at, "expected an object");
    FieldReader part(content[i], at);
    const std::string type = part.string("type").value_or("");
    STRATA_RETURN_IF_ERROR(part.status());
    if (type == "refusal") {
      out += part.string("refusal").value_or("");
    } else if (type == "input_text" || type == "output_text" || type == "text" ||
               type == "summary_text" || type == "reasoning_text") {
      const auto text = part.string("text");
      if (!text) part.fail("text", "this field is required");
      out += text.value_or("");
    } else {
      const char* what = type == "input_image" || type == "image_url" ? "images"
                         : type == "input_file"                       ? "files"
                         : type == "input_audio"                      ? "sound"
                                                                      : "parts of this kind";
      part.fail("type", fmt::format("{} (\"{}\") are not supported by this version", what,
                                    shortened(type)));
    }
    STRATA_RETURN_IF_ERROR(part.status());
  }
  return out;
}

// Puts items together to messages: thinking, text and calls between two turns of somebody else are
// one message of the assistant.
class ItemReader {
 public:
  explicit ItemReader(Json& messages) : messages_(messages) {}

  Status read(const Json& item, const std::string& path) {
    if (!item.is_object()) {
      return field_error(path, fmt::format("expected an object, got {}", json_type_name(item)));
    }
    FieldReader reader(item, path);
    const std::string type = reader.string("type").value_or("message");
    STRATA_RETURN_IF_ERROR(reader.status());
    if (type == "message") return message(reader);
    if (type == "reasoning") return reasoning(reader);
    if (type == "function_call") return call(reader);
    if (type == "function_call_output") return call_output(reader);
    return field_error(path + ".type", fmt::format("items of type \"{}\" are not supported by this "
                                                   "version",
                                                   shortened(type)));
  }

  void finish() {
    if (!open_) return;
    Json turn = Json{{"role", "assistant"}, {"content", std::exchange(text_, {})}};
    if (!thinking_.empty()) turn["reasoning_content"] = std::exchange(thinking_, {});
    if (!calls_.empty()) turn["tool_calls"] = std::exchange(calls_, Json::array());
    messages_.push_back(std::move(turn));
    open_ = false;
  }

 private:
  Status message(FieldReader& reader) {
    const std::string role = reader.string("role").value_or("");
    const Json* content = reader.any("content");
    STRATA_RETURN_IF_ERROR(reader.status());
    if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
      reader.fail("role", fmt::format("\"{}\" is not a role; use user, assistant, system or "
                                      "developer",
                                      shortened(role)));
      return reader.status();
    }
    if (content == nullptr) {
      reader.fail("content", "this field is required");
      return reader.status();
    }
    STRATA_ASSIGN_OR_RETURN(std::string text, text_of(*content, reader.path_of("content")));
    if (role == "assistant") {
      if (!calls_.empty()) finish();
      open_ = true;
      text_ += text;
      return {};
    }
    finish();
    messages_.push_back(Json{{"role", role}, {"content", std::move(text)}});
    return {};
  }

  Status reasoning(FieldReader& reader) {
    if (!text_.empty() || !calls_.empty()) finish();
    for (const char* name : {"content", "summary"}) {
      const Json* parts = reader.array(name);
      STRATA_RETURN_IF_ERROR(reader.status());
      if (parts == nullptr || parts->empty()) continue;
      STRATA_ASSIGN_OR_RETURN(const std::string text, text_of(*parts, reader.path_of(name)));
      thinking_ += text;
      break;  // the summary only where the thinking itself is not there
    }
    open_ = true;
    return {};
  }

  Status call(FieldReader& reader) {
    const auto name = reader.string("name");
    const auto id = reader.string("call_id");
    const std::string arguments = reader.string("arguments").value_or("{}");
    if (!name) reader.fail("name", "this field is required");
    if (!id) reader.fail("call_id", "this field is required");
    STRATA_RETURN_IF_ERROR(reader.status());
    open_ = true;
    calls_.push_back(Json{{"id", *id},
                          {"type", "function"},
                          {"function", {{"name", *name}, {"arguments", arguments}}}});
    return {};
  }

  Status call_output(FieldReader& reader) {
    finish();
    const auto id = reader.string("call_id");
    const Json* output = reader.any("output");
    if (!id) reader.fail("call_id", "this field is required");
    if (output == nullptr) reader.fail("output", "this field is required");
    STRATA_RETURN_IF_ERROR(reader.status());
    STRATA_ASSIGN_OR_RETURN(std::string text, text_of(*output, reader.path_of("output")));
    messages_.push_back(
        Json{{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(text)}});
    return {};
  }

  Json& messages_;
  bool open_ = false;
  std::string text_;
  std::string thinking_;
  Json calls_ = Json::array();
};

// A checked item in the long form that lists of items have: messages may come without a type and
// with a string as content.
Json listed(const Json& given) {
  const auto type = given.find("type");
  const bool typed = type != given.end() && type->is_string();
  if (typed && *type != "message") return given;
  Json out = Json{{"type", "message"}};
  out.update(given);
  out["type"] = "message";
  Json& content = out["content"];
  if (content.is_string()) {
    const bool own = out["role"] == "assistant";
    Json part = Json{{"type", own ? "output_text" : "input_text"}, {"text", content}};
    if (own) part["annotations"] = Json::array();
    content = Json::array({std::move(part)});
  }
  if (!out.contains("status")) out["status"] = "completed";
  return out;
}

Status read_input(FieldReader& reader, ResponsesRequest& out) {
  const Json* input = reader.any("input");
  out.input_items = Json::array();
  if (input == nullptr) return field_error("input", "this field is required: text or items");
  if (input->is_string()) {
    out.history.push_back(Json{{"role", "user"}, {"content", *input}});
    out.input_items.push_back(listed(Json{{"role", "user"}, {"content", *input}}));
    return {};
  }
  if (!input->is_array() || input->empty()) {
    return field_error("input", "expected text or an array of at least one item");
  }
  ItemReader items(out.history);
  for (size_t i = 0; i < input->size(); ++i) {
    STRATA_RETURN_IF_ERROR(items.read((*input)[i], fmt::format("input[{}]", i)));
  }
  items.finish();
  for (const Json& item : *input) out.input_items.push_back(listed(item));
  return {};
}

// Fields that ask for what happens nowhere here.
void refuse_services(FieldReader& reader) {
  if (reader.boolean("background").value_or(false)) {
    reader.fail("background", "answers in the background are not supported; leave the field out");
  }
  for (const char* name : {"conversation", "prompt"}) {
    if (reader.any(name) != nullptr) {
      reader.fail(name, "nothing of this kind is stored here; send the messages as input");
    }
  }
}

// The tools without those that a provider would run itself: nobody runs them here, and a model that
// is not told of them does not call them.
Json own_tools(const Json& tools) {
  Json out = Json::array();
  for (const Json& tool : tools) {
    if (!is_hosted_tool(tool)) out.push_back(tool);
  }
  return out;
}

// What else the answer shall hold. Most words are about what never comes up here, so that there is
// nothing to leave out; clients send them always.
bool wants_logprobs(FieldReader& reader) {
  constexpr std::string_view kLogprobs = "message.output_text.logprobs";
  constexpr std::array<std::string_view, 7> kNeverNeeded{
      "reasoning.encrypted_content",
      "file_search_call.results",
      "web_search_call.results",
      "web_search_call.action.sources",
      "message.input_image.image_url",
      "computer_call_output.output.image_url",
      "code_interpreter_call.outputs"};
  bool wanted = reader.boolean("logprobs").value_or(false);
  const Json* list = reader.array("include");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const Json& word = (*list)[i];
    const std::string text = word.is_string() ? word.get<std::string>() : to_text(word);
    if (text == kLogprobs) {
      wanted = true;
    } else if (std::find(kNeverNeeded.begin(), kNeverNeeded.end(), text) == kNeverNeeded.end()) {
      reader.fail(fmt::format("include[{}]", i),
                  fmt::format("\"{}\" is not known; what can be asked for is {}", shortened(text),
                              kLogprobs));
    }
  }
  return wanted;
}

bool wants_truncation(FieldReader& reader) {
  const std::string word = reader.string("truncation").value_or("disabled");
  if (word != "auto" && word != "disabled") {
    reader.fail("truncation",
                fmt::format("\"{}\" is not known; use auto or disabled", shortened(word)));
  }
  return word == "auto";
}

bool is_system(const Json& message) {
  return message["role"] == "system" || message["role"] == "developer";
}

Json echo_of(const Json& body, const ResponsesRequest& request) {
  const auto given = [&](const char* name, Json otherwise) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? std::move(otherwise) : *found;
  };
  Json out = Json::object();
  out["instructions"] = given("instructions", nullptr);
  out["max_output_tokens"] = given("max_output_tokens", nullptr);
  out["max_tool_calls"] = given("max_tool_calls", nullptr);
  out["metadata"] = given("metadata", Json::object());
  out["parallel_tool_calls"] = request.job.tools.parallel;
  out["previous_response_id"] = request.previous.empty() ? Json(nullptr) : Json(request.previous);
  out["reasoning"] = given("reasoning", Json{{"effort", nullptr}, {"summary", nullptr}});
  out["store"] = request.store;
  out["temperature"] = given("temperature", nullptr);
  out["text"] = given("text", Json{{"format", {{"type", "text"}}}});
  out["tool_choice"] = given("tool_choice", "auto");
  out["tools"] = own_tools(given("tools", Json::array()));
  out["top_logprobs"] = given("top_logprobs", 0);
  out["top_p"] = given("top_p", nullptr);
  out["truncation"] = given("truncation", "disabled");
  out["user"] = given("user", nullptr);
  return out;
}

}  // namespace

size_t droppable_turns(const Json& conversation) {
  const auto is_user = [](const Json& message) { return message["role"] == "user"; };
  const auto users = std::count_if(conversation.begin(), conversation.end(), is_user);
  return users > 1 ? static_cast<size_t>(users) - 1 : 0;
}

Json without_turns(const Json& conversation, size_t turns) {
  Json out = Json::array();
  size_t begun = 0;
  for (const Json& message : conversation) {
    if (message["role"] == "user") ++begun;
    if (begun > turns || turns == 0 || is_system(message)) out.push_back(message);
  }
  return out;
}

Result<ResponsesRequest> parse_responses(const Json& body, const ModelFacts& facts,
                                         ResponseStore& store) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  ResponsesRequest out;
  ChatJob& job = out.job;
  FieldReader reader(body);
  reader.string("model");
  refuse_services(reader);
  out.history = Json::array();
  out.previous = reader.string("previous_response_id").value_or("");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (!out.previous.empty()) {
    const auto before = store.find(out.previous);
    if (before == nullptr) {
      return Status(StatusCode::kNotFound,
                    fmt::format("previous_response_id: there is no stored answer \"{}\"; send the "
                                "whole conversation as input",
                                shortened(out.previous)),
                    "previous_response_id");
    }
    out.history = before->messages;
  }
  STRATA_RETURN_IF_ERROR(read_input(reader, out));
  out.conversation = out.history;
  if (const auto instructions = reader.string("instructions");
      instructions && !instructions->empty()) {
    out.conversation.insert(out.conversation.begin(),
                            Json{{"role", "system"}, {"content", *instructions}});
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  job.chat.messages = messages_for_template(out.conversation);

  job.tools = read_tools(reader, true);
  STRATA_RETURN_IF_ERROR(reader.status());
  job.chat.tools = job.tools.shown;
  job.chat.template_kwargs = read_template_variables(reader);
  job.reasoning_budget = read_thinking(reader, job.chat.template_kwargs);
  refuse_unsupported(reader);
  refuse_choices(reader);
  read_generation_fields(reader, facts, job.fields);
  job.fields.max_tokens =
      read_token_limit(reader, {"max_completion_tokens", "max_tokens", "n_predict"});
  if (const auto limit = reader.integer("max_output_tokens", 1, kMaxInt)) {
    job.fields.max_tokens = static_cast<int>(*limit);
  }
  // Counts calls of tools that the provider runs, and there are none.
  reader.integer("max_tool_calls", 0, kMaxInt);
  out.truncate = wants_truncation(reader);
  const bool logprobs = wants_logprobs(reader);
  const auto top = reader.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (logprobs || top.value_or(0) > 0) {
    job.fields.sampling.top_logprobs = static_cast<int>(top.value_or(0));
  }
  std::optional<engine::ConstraintSpec> format;
  if (const Json* text = reader.object("text")) {
    FieldReader inner(*text, "text");
    if (const Json* given = inner.object("format")) {
      STRATA_ASSIGN_OR_RETURN(format, format_of(*given, "text.format"));
    }
    reader.set_status(inner.status());
  }
  format = read_output_format(reader, "text.format", std::move(format));
  STRATA_RETURN_IF_ERROR(reader.status());
  job.constraint = constraint_of(job.tools, std::move(format));
  out.stream = job.fields.stream;
  out.store = reader.boolean("store").value_or(true);
  STRATA_RETURN_IF_ERROR(reader.status());
  out.echo = echo_of(body, out);
  return out;
}

}  // namespace strata::server
