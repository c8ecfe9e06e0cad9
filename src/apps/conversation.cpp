#include "apps/conversation.h"

namespace strata::apps {

using Json = nlohmann::ordered_json;

void Conversation::ask(std::string text) { turns_.push_back({std::move(text), std::nullopt}); }

void Conversation::answer(Reply reply) { turns_.back().reply = std::move(reply); }

bool Conversation::undo() {
  if (turns_.empty()) return false;
  turns_.pop_back();
  return true;
}

bool Conversation::reopen() {
  if (turns_.empty()) return false;
  turns_.back().reply.reset();
  return true;
}

Json Conversation::messages() const {
  Json out = Json::array();
  if (system_) out.push_back({{"role", "system"}, {"content", *system_}});
  for (const Turn& turn : turns_) {
    out.push_back({{"role", "user"}, {"content", turn.question}});
    if (!turn.reply) continue;
    Json reply = {{"role", "assistant"}, {"content", turn.reply->content}};
    if (!turn.reply->thinking.empty()) reply["reasoning_content"] = turn.reply->thinking;
    out.push_back(std::move(reply));
  }
  return out;
}

std::string Conversation::to_json() const {
  return Json{{"messages", messages()}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Conversation> Conversation::from_json(std::string_view text) {
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("messages") || !root["messages"].is_array()) {
    return invalid_argument("this is not a saved chat: expected JSON with an array \"messages\"");
  }
  Conversation out;
  size_t index = 0;
  for (const Json& message : root["messages"]) {
    const auto text_of = [&](const char* key) -> std::optional<std::string> {
      if (!message.is_object() || !message.contains(key) || !message[key].is_string()) return {};
      return message[key].get<std::string>();
    };
    const auto role = text_of("role");
    const auto content = text_of("content");
    if (!role || !content) {
      return invalid_argument("message {} has no role or no content that is a text", index);
    }
    const bool open = !out.turns_.empty() && !out.turns_.back().reply;
    if (*role == "system" && index == 0) {
      out.system_ = *content;
    } else if (*role == "user" && !open) {
      out.ask(*content);
    } else if (*role == "assistant" && open) {
      out.answer({text_of("reasoning_content").value_or(""), *content});
    } else {
      return invalid_argument(
          "message {} has a role that cannot stand there; a chat is an optional system message, "
          "then user and assistant in turn",
          index);
    }
    ++index;
  }
  return out;
}

}  // namespace strata::apps
