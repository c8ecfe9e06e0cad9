#include "server/thinking.h"

#include <array>
#include <limits>

namespace strata::server {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();

void set(Json& kwargs, const char* name, Json value) {
  if (kwargs.is_null()) kwargs = Json::object();
  kwargs[name] = std::move(value);
}

struct EffortWord {
  std::string_view given;
  std::string_view meant;  // empty: no thinking
};
constexpr std::array<EffortWord, 9> kEfforts{{{"none", ""},
                                              {"off", ""},
                                              {"disabled", ""},
                                              {"minimal", "low"},
                                              {"low", "low"},
                                              {"medium", "medium"},
                                              {"high", "xhigh"},
                                              {"xhigh", "xhigh"},
                                              {"max", "xhigh"}}};

// {"type": "enabled" | "disabled" | "adaptive" | "auto", "budget_tokens": n}
void read_block(FieldReader& reader, Json& kwargs, std::optional<int>& budget) {
  const Json* block = reader.object("thinking");
  if (block == nullptr) return;
  FieldReader inner(*block, reader.path_of("thinking"));
  if (const auto type = inner.string("type")) {
    if (*type != "enabled" && *type != "disabled" && *type != "adaptive" && *type != "auto") {
      inner.fail("type", fmt::format("\"{}\" is not known; use enabled, disabled or adaptive",
                                     valid_utf8(std::string_view(*type).substr(0, 64))));
    }
    set_thinking(*type != "disabled", kwargs);
  }
  if (const auto tokens = inner.integer("budget_tokens", 1, kMaxInt)) {
    budget = static_cast<int>(*tokens);
  }
  reader.set_status(inner.status());
}

// {"effort": word, "max_tokens": n, "enabled": flag}
void read_reasoning(FieldReader& reader, Json& kwargs, std::optional<int>& budget) {
  const Json* block = reader.object("reasoning");
  if (block == nullptr) return;
  FieldReader inner(*block, reader.path_of("reasoning"));
  if (const auto effort = inner.string("effort")) set_effort(*effort, kwargs);
  if (const auto enabled = inner.boolean("enabled")) set_thinking(*enabled, kwargs);
  if (const auto tokens = inner.integer("max_tokens", 0, kMaxInt)) {
    budget = static_cast<int>(*tokens);
  }
  reader.set_status(inner.status());
}

}  // namespace

void set_thinking(bool enabled, Json& kwargs) { set(kwargs, "enable_thinking", enabled); }

void set_effort(std::string_view effort, Json& kwargs) {
  for (const EffortWord& word : kEfforts) {
    if (word.given != effort) continue;
    if (word.meant.empty()) return set_thinking(false, kwargs);
    return set(kwargs, kEffortVariable, std::string(word.meant));
  }
  set(kwargs, kEffortVariable, std::string(effort));
}

std::string effort_words() {
  std::string out;
  for (const EffortWord& word : kEfforts) {
    out += out.empty() ? "" : ", ";
    out += word.given;
  }
  return out;
}

Json read_template_variables(FieldReader& reader) {
  const Json* given = reader.object("chat_template_kwargs");
  if (given == nullptr) return nullptr;
  for (const char* reserved : {"messages", "tools", "add_generation_prompt"}) {
    if (given->contains(reserved)) {
      reader.fail(fmt::format("chat_template_kwargs.{}", reserved),
                  "this variable is set by the server; use the request field instead");
    }
  }
  return *given;
}

std::optional<int> read_thinking(FieldReader& reader, Json& kwargs) {
  std::optional<int> budget;
  for (const char* name : {"enable_thinking", "preserve_thinking"}) {
    if (const auto flag = reader.boolean(name)) set(kwargs, name, *flag);
  }
  read_block(reader, kwargs, budget);
  read_reasoning(reader, kwargs, budget);
  if (const auto effort = reader.string("reasoning_effort")) set_effort(*effort, kwargs);
  for (const char* name : {"reasoning_budget", "thinking_budget", "thinking_budget_tokens",
                           "reasoning_budget_tokens"}) {
    const auto tokens = reader.integer(name, -1, kMaxInt);
    if (!tokens) continue;
    budget.reset();
    if (*tokens >= 0) budget = static_cast<int>(*tokens);
  }
  if (budget && *budget == 0) set_thinking(false, kwargs);
  return budget;
}

}  // namespace strata::server
