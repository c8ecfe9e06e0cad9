// The chat template of a model file: OpenAI-style messages to the prompt text, with the origin of
// every stretch of it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "text/jinja/template.h"

namespace strata::text {

struct ChatInput {
  // Array of messages as in the OpenAI API: role, content (string, null or parts), tool_calls, ...
  // Fields that the template does not know are passed on unchanged.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  // Array of tool definitions; null or empty: the template sees no tools.
  nlohmann::ordered_json tools;
  // Further variables (enable_thinking, reasoning_effort, ...): an object, or null for none. Names
  // that the template engine or this class set (messages, tools, add_generation_prompt, bos_token,
  // eos_token) cannot be overridden.
  nlohmann::ordered_json kwargs;
  bool add_generation_prompt = true;
  // Local time for templates that print the date. None: they see no clock.
  std::optional<std::chrono::sys_seconds> now;
};

struct RenderedPrompt {
  std::vector<jinja::Piece> pieces;  // their texts joined are `text`
  std::string text;
};

// What the template does with its inputs, found by rendering small conversations.
struct ChatTemplateTraits {
  bool supports_tools = false;            // tool definitions appear in the text
  bool supports_tool_calls = false;       // calls of an assistant message appear in the text
  bool supports_system_role = false;      // a system message appears in the text
  bool supports_enable_thinking = false;  // enable_thinking changes the text
  bool supports_typed_content = false;    // content given as text parts appears in the text
};

// Immutable; every const member may be called from several threads at once.
class ChatTemplate {
 public:
  // `bos_text` and `eos_text` are the spellings of those tokens, for templates that print them.
  // Fails with kFailedPrecondition when `source` is not a template of the language.
  static Result<ChatTemplate> create(std::string source, std::string bos_text,
                                     std::string eos_text);

  // Fails with kInvalidArgument when messages are malformed or refused by the template (then with
  // the template's own message), with kOutOfRange past a limit of the engine. Before rendering:
  //   - role "developer" becomes "system";
  //   - arguments of a tool call given as a string of a JSON object become that object, since
  //     templates iterate over them; a string that is no JSON object is kept;
  //   - content in parts, all of them text, becomes one string where the template takes only
  //   strings.
  Result<RenderedPrompt> render(const ChatInput& input) const;

  const ChatTemplateTraits& traits() const { return traits_; }

 private:
  ChatTemplate(jinja::Template parsed, std::string bos_text, std::string eos_text);
  ChatTemplateTraits probe() const;
  Result<RenderedPrompt> render_with(const ChatInput& input, bool join_text_parts,
                                     const jinja::Limits& limits) const;

  jinja::Template template_;
  std::string bos_text_;
  std::string eos_text_;
  ChatTemplateTraits traits_;
};

// True when a rendered prompt leaves the model inside its reasoning: the template's own text ends
// with <think>, blanks aside. Text of the request may follow (reasoning begun by the caller) unless
// it holds </think>; a <think> that a user wrote does not count.
bool starts_in_reasoning(const RenderedPrompt& prompt);

}  // namespace strata::text
