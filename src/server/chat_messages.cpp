#include "server/chat_messages.h"

#include <algorithm>
#include <array>

namespace strata::server {
namespace {

constexpr std::array<std::string_view, 6> kRoles{"system",    "developer", "user",
                                                 "assistant", "tool",      "function"};

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
  if (*type == "refusal") {
    const auto text = reader.string("refusal");
    if (!text) reader.fail("refusal", "this field is required");
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

// The function of a call: {"name", "arguments"}.
Status check_function(const Json& function, const std::string& path) {
  FieldReader reader(function, path);
  if (!reader.string("name")) reader.fail("name", "this field is required");
  const Json* arguments = reader.any("arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    reader.fail("arguments", fmt::format("expected a string or an object, got {}",
                                         json_type_name(*arguments)));
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
    STRATA_RETURN_IF_ERROR(check_function(*function, call.path_of("function")));
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
    if (*role != "assistant" && *role != "tool" && *role != "function") reader.fail("content", "expected a string or an array, got nothing");
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
  reader.string("reasoning");
  if (const Json* call = reader.object("function_call")) {
    reader.set_status(check_function(*call, reader.path_of("function_call")));
  }
  reader.string("name");
  reader.string("tool_call_id");
  if (const Json* calls = reader.array("tool_calls")) {
    reader.set_status(check_tool_calls(*calls, reader.path_of("tool_calls")));
  }
  return reader.status();
}

bool is_system(const Json& message) {
  return message["role"] == "system" || message["role"] == "developer";
}

// The text of a message whose content is text or text parts.
std::string text_of(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string out;
  if (content->is_array()) {
    for (const Json& part : *content) out += part.value("text", "");
  }
  return out;
}

// Arguments that are no JSON object, as a call that was cut short may leave them in a history, become
// one that holds their text: templates go through the members.
void make_arguments_an_object(Json& call) {
  Json& function = call["function"];
  const auto arguments = function.find("arguments");
  if (arguments == function.end() || !arguments->is_string()) return;
  const auto& text = arguments->get_ref<const std::string&>();
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
  if (blank || json_in(text).is_object()) return;
  *arguments = Json{{"arguments", text}};
}

// Other spellings of what a message holds, in the form that templates know.
void make_usual(Json& message) {
  if (message["role"] == "function") message["role"] = "tool";
  if (const auto content = message.find("content");
      content != message.end() && content->is_array()) {
    for (Json& part : *content) {
      if (part["type"] == "refusal") part = Json{{"type", "text"}, {"text", part["refusal"]}};
    }
  }
  const auto present = [&](const char* name) {
    const auto value = message.find(name);
    return value != message.end() && !value->is_null();
  };
  if (present("reasoning") && !present("reasoning_content")) {
    message["reasoning_content"] = message["reasoning"];
  }
  if (present("function_call") && !present("tool_calls")) {
    message["tool_calls"] =
        Json::array({Json{{"type", "function"}, {"function", message["function_call"]}}});
  }
}

}  // namespace

Status check_messages(const Json& messages, const std::string& path) {
  if (messages.empty()) return field_error(path, "at least one message is needed");
  for (size_t i = 0; i < messages.size(); ++i) {
    STRATA_RETURN_IF_ERROR(check_message(messages[i], fmt::format("{}[{}]", path, i)));
  }
  return {};
}

Json messages_for_template(const Json& messages) {
  size_t leading = 0;
  while (leading < messages.size() && is_system(messages[leading])) ++leading;
  Json out = Json::array();
  if (leading == 1) out.push_back(messages[0]);
  const bool nothing_else = leading == messages.size();
  if (leading > 1) {
    std::string joined;
    for (size_t i = 0; i < leading; ++i) {
      const std::string text = text_of(messages[i]);
      if (!joined.empty() && !text.empty()) joined += "\n\n";
      joined += text;
    }
    out.push_back(Json{{"role", "system"}, {"content", std::move(joined)}});
  }
  // Templates want a question.
  if (nothing_else && leading > 0) out.back()["role"] = "user";
  for (size_t i = leading; i < messages.size(); ++i) {
    if (is_system(messages[i])) {
      out.push_back(Json{{"role", "user"},
                         {"content", "<system>\n" + text_of(messages[i]) + "\n</system>"}});
      continue;
    }
    out.push_back(messages[i]);
    make_usual(out.back());
    if (const auto calls = out.back().find("tool_calls");
        calls != out.back().end() && calls->is_array()) {
      for (Json& call : *calls) make_arguments_an_object(call);
    }
  }
  // A history that was cut may have lost the question, which templates want to see.
  const auto is_user = [](const Json& message) { return message["role"] == "user"; };
  if (std::none_of(out.begin(), out.end(), is_user)) {
    out.insert(out.begin() + (leading > 0 ? 1 : 0),
               Json{{"role", "user"}, {"content", "(The beginning of this chat was left out.)"}});
  }
  return out;
}

}  // namespace strata::server
