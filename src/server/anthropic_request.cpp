#include "server/anthropic_request.h"

#include <limits>

#include "server/output_format.h"
#include "server/thinking.h"

namespace strata::server {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();

std::string shortened(std::string_view text) { return valid_utf8(text.substr(0, 64)); }

Status refuse_block(const std::string& path, const std::string& type) {
  const char* what = type == "image"      ? "images"
                     : type == "document" ? "documents"
                                          : "blocks of this kind";
  return field_error(path + ".type",
                     fmt::format("{} (\"{}\") are not supported by this version", what,
                                 shortened(type)));
}

// The text of a string or of an array of text blocks.
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
    FieldReader block(content[i], at);
    const std::string type = block.string("type").value_or("");
    if (block.ok() && type != "text") return refuse_block(at, type);
    const auto text = block.string("text");
    if (!text) block.fail("text", "this field is required");
    STRATA_RETURN_IF_ERROR(block.status());
    if (!out.empty() && !text->empty()) out += "\n\n";
    out += *text;
  }
  return out;
}

// The messages of a chat that one message stands for.
class MessageReader {
 public:
  MessageReader(const Json& message, std::string path) : message_(message), path_(std::move(path)) {}

  Status read(Json& out) {
    if (!message_.is_object()) {
      return field_error(path_, fmt::format("expected an object, got {}", json_type_name(message_)));
    }
    FieldReader reader(message_, path_);
    role_ = reader.string("role").value_or("");
    STRATA_RETURN_IF_ERROR(reader.status());
    if (role_ != "user" && role_ != "assistant") {
      return field_error(path_ + ".role", fmt::format("\"{}\" is not a role; use user or assistant",
                                                      shortened(role_)));
    }
    const Json* content = reader.any("content");
    if (content == nullptr) return field_error(path_ + ".content", "this field is required");
    if (content->is_array()) {
      for (size_t i = 0; i < content->size(); ++i) {
        STRATA_RETURN_IF_ERROR(
            block((*content)[i], fmt::format("{}.content[{}]", path_, i), out));
      }
    } else {
      STRATA_ASSIGN_OR_RETURN(text_, text_of(*content, path_ + ".content"));
      any_text_ = true;
    }
    // Results stand before what the user says to them.
    if (role_ == "assistant" || any_text_ || !any_result_) out.push_back(own_message());
    return {};
  }

 private:
  Json own_message() {
    Json out = Json{{"role", role_}};
    out["content"] = std::move(text_);
    if (!thinking_.empty()) out["reasoning_content"] = std::move(thinking_);
    if (!calls_.empty()) out["tool_calls"] = std::move(calls_);
    return out;
  }

  Status block(const Json& given, const std::string& path, Json& out) {
    if (!given.is_object()) {
      return field_error(path, fmt::format("expected an object, got {}", json_type_name(given)));
    }
    FieldReader reader(given, path);
    const std::string type = reader.string("type").value_or("");
    STRATA_RETURN_IF_ERROR(reader.status());
    const bool assistant = role_ == "assistant";
    if (type == "text") {
      const auto text = reader.string("text");
      if (!text) reader.fail("text", "this field is required");
      if (reader.ok()) {
        if (any_text_ && !text_.empty() && !text->empty() && !assistant) text_ += "\n\n";
        text_ += *text;
        any_text_ = true;
      }
    } else if (type == "thinking" && assistant) {
      thinking_ += reader.string("thinking").value_or("");
    } else if (type == "redacted_thinking" && assistant) {
      // Nothing of it can be read here.
    } else if (type == "tool_use" && assistant) {
      const auto name = reader.string("name");
      if (!name) reader.fail("name", "this field is required");
      const std::string id = reader.string("id").value_or("");
      const Json* input = reader.object("input");
      if (reader.ok()) {
        calls_.push_back(Json{
            {"id", id},
            {"type", "function"},
            {"function", {{"name", *name}, {"arguments", input ? *input : Json::object()}}}});
      }
    } else if (type == "tool_result" && !assistant) {
      const auto id = reader.string("tool_use_id");
      if (!id) reader.fail("tool_use_id", "this field is required");
      reader.boolean("is_error");
      STRATA_RETURN_IF_ERROR(reader.status());
      std::string text;
      if (const Json* content = reader.any("content")) {
        STRATA_ASSIGN_OR_RETURN(text, text_of(*content, path + ".content"));
      }
      out.push_back(Json{{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(text)}});
      any_result_ = true;
    } else {
      return refuse_block(path, type);
    }
    return reader.status();
  }

  const Json& message_;
  const std::string path_;
  std::string role_;
  std::string text_;
  std::string thinking_;
  Json calls_ = Json::array();
  bool any_text_ = false;
  bool any_result_ = false;
};

Status read_conversation(FieldReader& reader, Json& out) {
  out = Json::array();
  if (const Json* system = reader.any("system")) {
    STRATA_ASSIGN_OR_RETURN(std::string text, text_of(*system, "system"));
    if (!text.empty()) out.push_back(Json{{"role", "system"}, {"content", std::move(text)}});
  }
  const Json* messages = reader.array("messages");
  if (messages == nullptr) {
    reader.fail("messages", "this field is required: an array of messages");
    return reader.status();
  }
  if (messages->empty()) return field_error("messages", "at least one message is needed");
  for (size_t i = 0; i < messages->size(); ++i) {
    STRATA_RETURN_IF_ERROR(
        MessageReader((*messages)[i], fmt::format("messages[{}]", i)).read(out));
  }
  if (out.back()["role"] == "assistant") {
    return field_error(fmt::format("messages[{}]", messages->size() - 1),
                       "the last message must be the user's; beginning the answer for the model "
                       "is not supported by this version");
  }
  return {};
}

Status read_tool_list(FieldReader& reader, ToolUse& use) {
  const Json* list = reader.array("tools");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (list == nullptr || list->empty()) return {};
  ToolSet set;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const Json& given = (*list)[i];
    if (!given.is_object()) return field_error(path, "expected an object");
    FieldReader tool(given, path);
    const std::string type = tool.string("type").value_or("custom");
    if (tool.ok() && type != "custom") {
      tool.fail("type", fmt::format("tools of type \"{}\" run elsewhere and are not supported here",
                                    shortened(type)));
    }
    const auto name = tool.string("name");
    if (!name) tool.fail("name", "this field is required");
    const std::string description = tool.string("description").value_or("");
    const Json* schema = tool.object("input_schema");
    const bool strict = tool.boolean("strict").value_or(false);
    STRATA_RETURN_IF_ERROR(tool.status());
    STRATA_ASSIGN_OR_RETURN(Tool made, make_tool(*name, description, schema, strict, path));
    STRATA_RETURN_IF_ERROR(add_tool(std::move(made), set, use.shown, path));
  }
  use.set = std::make_shared<const ToolSet>(std::move(set));
  return {};
}

Status read_tool_choice(FieldReader& reader, ToolUse& use) {
  const Json* given = reader.object("tool_choice");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (given == nullptr) return {};
  FieldReader choice(*given, "tool_choice");
  const std::string type = choice.string("type").value_or("");
  const std::string name = choice.string("name").value_or("");
  use.parallel = !choice.boolean("disable_parallel_tool_use").value_or(false);
  STRATA_RETURN_IF_ERROR(choice.status());
  if (type == "auto") return {};
  if (type == "none") return apply_choice(use, ToolUse::Choice::kNone, {}, "tool_choice");
  if (type == "any") return apply_choice(use, ToolUse::Choice::kRequired, {}, "tool_choice");
  if (type == "tool" && !name.empty()) {
    return apply_choice(use, ToolUse::Choice::kRequired, name, "tool_choice");
  }
  return field_error("tool_choice.type", "use auto, any, tool with a name, or none");
}

void read_effort(FieldReader& reader, ChatJob& job) {
  Json& kwargs = job.chat.template_kwargs;
  kwargs = read_template_variables(reader);
  const bool said = kwargs.is_object() &&
                    (kwargs.contains("enable_thinking") || kwargs.contains(kEffortVariable));
  if (!said) set_thinking(false, kwargs);
  if (const Json* config = reader.object("output_config")) {
    FieldReader inner(*config, "output_config");
    if (const auto effort = inner.string("effort")) {
      set_thinking(true, kwargs);
      set_effort(*effort, kwargs);
    }
    reader.set_status(inner.status());
  }
  if (reader.string("reasoning_effort") || reader.object("reasoning") != nullptr) {
    set_thinking(true, kwargs);
  }
  if (const auto budget = read_thinking(reader, kwargs)) job.reasoning_budget = budget;
}

Result<std::optional<engine::ConstraintSpec>> read_format(FieldReader& reader) {
  const Json* config = reader.object("output_config");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (config != nullptr) {
    FieldReader inner(*config, "output_config");
    const Json* format = inner.object("format");
    STRATA_RETURN_IF_ERROR(inner.status());
    if (format != nullptr) return format_of(*format, "output_config.format");
  }
  const Json* format = reader.object("output_format");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (format != nullptr) return format_of(*format, "output_format");
  return std::optional<engine::ConstraintSpec>();
}

}  // namespace

Result<MessagesRequest> parse_messages(const Json& body, const ModelFacts& facts,
                                       bool needs_limit) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  MessagesRequest out;
  ChatJob& job = out.job;
  FieldReader reader(body);
  reader.string("model");
  STRATA_RETURN_IF_ERROR(read_conversation(reader, job.chat.messages));
  STRATA_RETURN_IF_ERROR(read_tool_list(reader, job.tools));
  STRATA_RETURN_IF_ERROR(read_tool_choice(reader, job.tools));
  job.chat.tools = job.tools.shown;
  read_effort(reader, job);
  refuse_unsupported(reader);
  refuse_choices(reader);
  if (reader.boolean("logprobs").value_or(false) ||
      reader.integer("top_logprobs", 0, kMaxInt).value_or(0) > 0) {
    reader.fail("logprobs", "answers of this API have no place for log-probabilities; use "
                            "/v1/chat/completions or /v1/responses");
  }
  read_generation_fields(reader, facts, job.fields);
  read_stop(reader, "stop_sequences", job.fields.stop);
  job.fields.include_progress = false;
  const auto limit = reader.integer("max_tokens", 1, kMaxInt);
  if (limit) {
    job.fields.max_tokens = static_cast<int>(*limit);
  } else if (needs_limit) {
    reader.fail("max_tokens", "this field is required");
  }
  for (const char* name : {"mcp_servers", "container"}) {
    const Json* value = reader.any(name);
    if (value != nullptr && !value->empty()) {
      reader.fail(name, "this is not supported by this version; leave the field out");
    }
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  STRATA_ASSIGN_OR_RETURN(auto format, read_format(reader));
  format = read_output_format(reader, "output_config.format", std::move(format));
  STRATA_RETURN_IF_ERROR(reader.status());
  job.constraint = constraint_of(job.tools, std::move(format));
  out.stream = job.fields.stream;
  return out;
}

}  // namespace strata::server
