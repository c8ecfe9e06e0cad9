#include "server/openai_request.h"

#include <algorithm>
#include <array>

namespace strata::server {
namespace {

constexpr int kMaxTopLogprobs = 20;
constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant",
                                                 "tool"};

Status check_part(const Json& part, const std::string& path) {
  if (!part.is_object()) {
    return field_error(path, fmt::format("expected an object, got {}", json_type_name(part)));
  }
  FieldReader reader(part, path);
  const auto type = reader.string("type");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (!type) {
    reader.fail("type", "this field is required");
    return reader.status();
  }
  if (*type == "text") {
    const auto text = reader.string("text");
    if (!text) reader.fail("text", "this field is required");
    return reader.status();
  }
  const std::string name = valid_utf8(type->substr(0, 64));
  if (*type == "image_url" || *type == "image" || *type == "input_image") {
    reader.fail("type", fmt::format("images (\"{}\") are not supported by this version", name));
  } else if (*type == "input_audio" || *type == "audio" || *type == "audio_url") {
    reader.fail("type", fmt::format("audio (\"{}\") is not supported by this version", name));
  } else if (*type == "video" || *type == "video_url" || *type == "input_video") {
    reader.fail("type", fmt::format("video (\"{}\") is not supported by this version", name));
  } else {
    reader.fail("type", fmt::format("\"{}\" is not a known kind of content; use \"text\"", name));
  }
  return reader.status();
}

Status check_tool_calls(const Json& calls, const std::string& path) {
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!calls[i].is_object()) {
      return field_error(at, fmt::format("expected an object, got {}", json_type_name(calls[i])));
    }
    FieldReader call(calls[i], at);
    const Json* function = call.object("function");
    if (function == nullptr) call.fail("function", "this field is required");
    STRATA_RETURN_IF_ERROR(call.status());
    FieldReader reader(*function, call.path_of("function"));
    if (!reader.string("name")) reader.fail("name", "this field is required");
    const Json* arguments = reader.any("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      reader.fail("arguments", fmt::format("expected a string or an object, got {}",
                                           json_type_name(*arguments)));
    }
    STRATA_RETURN_IF_ERROR(reader.status());
  }
  return {};
}

Status check_message(const Json& message, const std::string& path) {
  if (!message.is_object()) {
    return field_error(path, fmt::format("expected an object, got {}", json_type_name(message)));
  }
  FieldReader reader(message, path);
  const auto role = reader.string("role");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (!role) {
    reader.fail("role", "this field is required");
    return reader.status();
  }
  if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    reader.fail("role",
                fmt::format("\"{}\" is not a role; use system, developer, user, assistant or "
                            "tool",
                            valid_utf8(role->substr(0, 64))));
    return reader.status();
  }
  const Json* content = reader.any("content");
  if (content == nullptr) {
    if (*role != "assistant") reader.fail("content", "expected a string or an array, got nothing");
  } else if (content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) {
      reader.set_status(
          check_part((*content)[i], fmt::format("{}[{}]", reader.path_of("content"), i)));
    }
  } else if (!content->is_string()) {
    reader.fail("content",
                fmt::format("expected a string or an array, got {}", json_type_name(*content)));
  }
  reader.string("reasoning_content");
  reader.string("name");
  reader.string("tool_call_id");
  if (const Json* calls = reader.array("tool_calls")) {
    reader.set_status(check_tool_calls(*calls, reader.path_of("tool_calls")));
  }
  return reader.status();
}

// The template variables of the request: chat_template_kwargs, then the top-level fields of the
// same names, which win.
Json read_template_kwargs(FieldReader& reader) {
  Json kwargs = nullptr;
  if (const Json* given = reader.object("chat_template_kwargs")) {
    for (const char* reserved : {"messages", "tools", "add_generation_prompt"}) {
      if (given->contains(reserved)) {
        reader.fail(fmt::format("chat_template_kwargs.{}", reserved),
                    "this variable is set by the server; use the request field instead");
      }
    }
    kwargs = *given;
  }
  const auto set = [&](const char* name, Json value) {
    if (kwargs.is_null()) kwargs = Json::object();
    kwargs[name] = std::move(value);
  };
  for (const char* name : {"enable_thinking", "preserve_thinking"}) {
    if (const auto flag = reader.boolean(name)) set(name, *flag);
  }
  if (const auto effort = reader.string("reasoning_effort")) {
    // "none" is how OpenAI-style clients switch thinking off; templates have a flag for that.
    if (*effort == "none") {
      set("enable_thinking", false);
    } else {
      set("reasoning_effort", *effort);
    }
  }
  return kwargs;
}

void read_chat(FieldReader& reader, engine::ChatRequest& out) {
  const Json* messages = reader.array("messages");
  if (messages == nullptr) {
    reader.fail("messages", "this field is required: an array of messages");
    return;
  }
  if (messages->empty()) {
    reader.fail("messages", "at least one message is needed");
    return;
  }
  for (size_t i = 0; i < messages->size() && reader.ok(); ++i) {
    reader.set_status(check_message((*messages)[i], fmt::format("messages[{}]", i)));
  }
  if (!reader.ok()) return;
  out.messages = *messages;
  out.tools = nullptr;
  out.add_generation_prompt = reader.boolean("add_generation_prompt").value_or(true);
  out.template_kwargs = read_template_kwargs(reader);
}

void read_common(FieldReader& reader, const ModelFacts& facts, GenerationFields& fields) {
  reader.string("model");
  refuse_unsupported(reader);
  read_generation_fields(reader, facts, fields);
  fields.max_tokens =
      read_token_limit(reader, {"max_completion_tokens", "max_tokens", "n_predict"});
}

}  // namespace

Result<ChatCompletionRequest> parse_chat_completion(const Json& body, const ModelFacts& facts) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  ChatCompletionRequest out;
  FieldReader reader(body);
  read_chat(reader, out.chat);
  read_common(reader, facts, out.fields);
  const bool logprobs = reader.boolean("logprobs").value_or(false);
  const auto top = reader.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (logprobs) {
    out.fields.sampling.top_logprobs = static_cast<int>(top.value_or(0));
  } else if (top && *top > 0) {
    reader.fail("top_logprobs", "needs \"logprobs\": true");
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

Result<CompletionRequest> parse_completion(const Json& body, const ModelFacts& facts) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  CompletionRequest out;
  FieldReader reader(body);
  out.prompt = read_prompt(reader, "prompt", facts, false);
  read_common(reader, facts, out.fields);
  if (const auto top = reader.integer("logprobs", 0, kMaxTopLogprobs)) {
    out.fields.sampling.top_logprobs = static_cast<int>(*top);
  }
  out.echo = reader.boolean("echo").value_or(false);
  if (out.echo && out.fields.sampling.top_logprobs) {
    reader.fail("echo",
                "log-probabilities of the prompt are not supported; leave out one of echo "
                "and logprobs");
  }
  if (const auto suffix = reader.string("suffix"); suffix && !suffix->empty()) {
    reader.fail("suffix", "filling in the middle is not supported by this version");
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

Result<engine::ChatRequest> parse_chat_prompt(const Json& body) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  engine::ChatRequest out;
  FieldReader reader(body);
  refuse_unsupported(reader);
  read_chat(reader, out);
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

}  // namespace strata::server
