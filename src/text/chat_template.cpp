#include "text/chat_template.h"

#include <new>
#include <utility>

namespace strata::text {
namespace {

using Json = nlohmann::ordered_json;

// A marker that no template prints of its own accord.
constexpr std::string_view kMarker = "zqStrataProbe";
// Probing renders a handful of one-line conversations; a template that needs more is hostile.
constexpr jinja::Limits kProbeLimits = {.steps = 500'000, .memory_bytes = std::size_t{32} << 20};
constexpr std::size_t kMaxJsonDepth = 100;

// The JSON library copies recursively, so depth is checked before anything is copied.
bool is_shallow(const Json& json, std::size_t levels) {
  if (!json.is_structured()) return true;
  if (levels == 0) return false;
  for (const Json& item : json) {
    if (!is_shallow(item, levels - 1)) return false;
  }
  return true;
}

Status check_shape(const ChatInput& input) {
  if (!input.messages.is_array()) return invalid_argument("messages must be an array");
  if (!input.tools.is_null() && !input.tools.is_array()) {
    return invalid_argument("tools must be an array");
  }
  if (!input.kwargs.is_null() && !input.kwargs.is_object()) {
    return invalid_argument("the template variables must be an object");
  }
  for (const Json* json : {&input.messages, &input.tools, &input.kwargs}) {
    if (!is_shallow(*json, kMaxJsonDepth)) {
      return invalid_argument("the request is nested deeper than {} levels", kMaxJsonDepth);
    }
  }
  for (std::size_t i = 0; i < input.messages.size(); ++i) {
    const Json& message = input.messages[i];
    if (!message.is_object()) return invalid_argument("messages[{}] must be an object", i);
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string()) {
      return invalid_argument("messages[{}].role must be a string", i);
    }
  }
  return {};
}

// An object in the string, else nothing.
std::optional<Json> parse_object(const std::string& text) {
  // The parser itself is iterative; a depth limit keeps later copies shallow.
  bool too_deep = false;
  if (text.find('\0') != std::string::npos) return std::nullopt;  // its end, for the library
  const Json::parser_callback_t watch = [&](int level, Json::parse_event_t, Json&) {
    too_deep = too_deep || static_cast<std::size_t>(level) > kMaxJsonDepth;
    return !too_deep;
  };
  Json parsed = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || !parsed.is_object()) return std::nullopt;
  return parsed;
}

void normalise_arguments(Json& call) {
  if (!call.is_object()) return;
  const auto function = call.find("function");
  Json& holder = function != call.end() && function->is_object() ? *function : call;
  const auto arguments = holder.find("arguments");
  if (arguments == holder.end() || !arguments->is_string()) return;
  const auto& text = arguments->get_ref<const std::string&>();
  // Clients send "" for a call without arguments.
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    *arguments = Json::object();
  } else if (auto object = parse_object(text)) {
    *arguments = std::move(*object);
  }
}

void join_parts(Json& content) {
  std::string joined;
  for (const Json& part : content) {
    if (part.is_string()) {
      joined += part.get_ref<const std::string&>();
      continue;
    }
    const auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || text == part.end() || !text->is_string()) return;
    joined += text->get_ref<const std::string&>();
  }
  content = std::move(joined);
}

Json normalise_messages(const Json& messages, bool join_text_parts) {
  Json out = messages;
  for (Json& message : out) {
    if (message["role"] == "developer") message["role"] = "system";
    if (const auto calls = message.find("tool_calls");
        calls != message.end() && calls->is_array()) {
      for (Json& call : *calls) normalise_arguments(call);
    }
    if (!join_text_parts) continue;
    if (const auto content = message.find("content");
        content != message.end() && content->is_array()) {
      join_parts(*content);
    }
  }
  return out;
}

Json message(std::string_view role, Json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

Json probe_tool() {
  return {{"type", "function"},
          {"function",
           {{"name", kMarker},
            {"description", "d"},
            {"parameters",
             {{"type", "object"},
              {"properties", {{"a", {{"type", "string"}, {"description", "d"}}}}},
              {"required", {"a"}}}}}}};
}

Json probe_call() {
  return {{"role", "assistant"},
          {"content", ""},
          {"tool_calls",
           {{{"id", "call00001"},
             {"type", "function"},
             {"function", {{"name", kMarker}, {"arguments", {{"a", "b"}}}}}}}}};
}

Json probe_answer() {
  return {{"role", "tool"}, {"content", "x"}, {"name", kMarker}, {"tool_call_id", "call00001"}};
}

}  // namespace

ChatTemplate::ChatTemplate(jinja::Template parsed, std::string bos_text, std::string eos_text)
    : template_(std::move(parsed)),
      bos_text_(std::move(bos_text)),
      eos_text_(std::move(eos_text)) {}

Result<ChatTemplate> ChatTemplate::create(std::string source, std::string bos_text,
                                          std::string eos_text) {
  STRATA_ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::parse(std::move(source)));
  ChatTemplate made(std::move(parsed), std::move(bos_text), std::move(eos_text));
  made.traits_ = made.probe();
  return made;
}

ChatTemplateTraits ChatTemplate::probe() const {
  const auto text_of = [&](const ChatInput& input) {
    auto prompt = render_with(input, /*join_text_parts=*/false, kProbeLimits);
    return prompt.ok() ? std::move(prompt->text) : std::string();
  };
  const auto shows_marker = [&](const ChatInput& input) {
    return text_of(input).find(kMarker) != std::string::npos;
  };
  const auto chat = [](Json messages) {
    ChatInput input;
    input.messages = std::move(messages);
    input.now = std::chrono::sys_seconds{};
    return input;
  };
  const Json user = message("user", "x");
  ChatTemplateTraits traits;

  Json parts = Json::array();
  parts.push_back({{"type", "text"}, {"text", kMarker}});
  const std::string typed = text_of(chat({message("user", parts)}));
  // A template that prints the list itself shows the marker too, but inside Python's notation.
  traits.supports_typed_content = typed.find(kMarker) != std::string::npos &&
                                  typed.find("'text'") == std::string::npos &&
                                  typed.find("\"text\"") == std::string::npos;

  traits.supports_system_role = shows_marker(chat({message("system", kMarker), user}));

  ChatInput with_tools = chat({user});
  with_tools.tools = Json::array({probe_tool()});
  traits.supports_tools = shows_marker(with_tools);

  // The call must show by itself, so that the tools are not given here. The answer follows since
  // some templates insist on it, and is tried without for those that refuse its role.
  Json with_answer = {user, probe_call(), probe_answer()};
  with_answer[2]["name"] = "x";
  traits.supports_tool_calls =
      shows_marker(chat(with_answer)) || shows_marker(chat({user, probe_call()}));

  ChatInput thinking = chat({user});
  thinking.kwargs = {{"enable_thinking", true}};
  const std::string on = text_of(thinking);
  thinking.kwargs = {{"enable_thinking", false}};
  traits.supports_enable_thinking = on != text_of(thinking);
  return traits;
}

Result<RenderedPrompt> ChatTemplate::render(const ChatInput& input) const {
  return render_with(input, !traits_.supports_typed_content, jinja::Limits());
}

Result<RenderedPrompt> ChatTemplate::render_with(const ChatInput& input, bool join_text_parts,
                                                 const jinja::Limits& limits) const {
  STRATA_RETURN_IF_ERROR(check_shape(input));
  try {
    Json context = input.kwargs.is_object() ? input.kwargs : Json::object();
    context["messages"] = normalise_messages(input.messages, join_text_parts);
    context["add_generation_prompt"] = input.add_generation_prompt;
    // None rather than undefined: templates test tools with "is none" as well as for truth.
    context["tools"] = input.tools.is_array() && !input.tools.empty() ? input.tools : Json(nullptr);
    // Defined as none in the original, which some templates rely on.
    if (!context.contains("documents")) context["documents"] = nullptr;
    jinja::RenderOptions options;
    options.now = input.now;
    options.trusted = {{"bos_token", bos_text_}, {"eos_token", eos_text_}};
    options.limits = limits;
    RenderedPrompt prompt;
    STRATA_ASSIGN_OR_RETURN(prompt.pieces, template_.render(context, options));
    for (const jinja::Piece& piece : prompt.pieces) prompt.text += piece.text;
    return prompt;
  } catch (const std::bad_alloc&) {
    return resource_exhausted("not enough memory to render the chat template");
  }
}

bool starts_in_reasoning(const RenderedPrompt& prompt) {
  for (auto piece = prompt.pieces.rbegin(); piece != prompt.pieces.rend(); ++piece) {
    const std::string_view text = piece->text;
    if (!piece->from_template) {
      if (text.find("</think>") != std::string_view::npos) return false;
      continue;
    }
    const std::size_t last = text.find_last_not_of(" \t\r\n");
    if (last != std::string_view::npos) return text.substr(0, last + 1).ends_with("<think>");
  }
  return false;
}

}  // namespace strata::text
