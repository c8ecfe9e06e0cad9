#include "server/tool_request.h"

#include <algorithm>
#include <array>

namespace strata::server {
namespace {

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxName = 256;

std::string shortened(std::string_view text) { return valid_utf8(text.substr(0, 64)); }

Result<Tool> read_tool(const Json& given, const std::string& path) {
  if (!given.is_object()) {
    return field_error(path, fmt::format("expected an object, got {}", json_type_name(given)));
  }
  FieldReader outer(given, path);
  const std::string type = outer.string("type").value_or("function");
  if (outer.ok() && type != "function") {
    outer.fail("type", fmt::format("tools of type \"{}\" are not supported by this version; only "
                                   "\"function\" is",
                                   shortened(type)));
  }
  const Json* function = outer.object("function");
  STRATA_RETURN_IF_ERROR(outer.status());
  const std::string inner_path = function != nullptr ? outer.path_of("function") : path;
  FieldReader inner(function != nullptr ? *function : given, inner_path);
  const auto name = inner.string("name");
  if (!name) inner.fail("name", "this field is required");
  const std::string description = inner.string("description").value_or("");
  const Json* parameters = inner.object("parameters");
  const bool strict = inner.boolean("strict").value_or(false);
  STRATA_RETURN_IF_ERROR(inner.status());
  return make_tool(*name, description, parameters, strict, inner_path);
}

struct Choice {
  ToolUse::Choice choice = ToolUse::Choice::kAuto;
  std::string named;
};

Result<Choice> choice_word(const std::string& word, const std::string& path) {
  if (word == "none") return Choice{ToolUse::Choice::kNone, {}};
  if (word == "auto") return Choice{ToolUse::Choice::kAuto, {}};
  if (word == "required" || word == "any") return Choice{ToolUse::Choice::kRequired, {}};
  return field_error(path, fmt::format("\"{}\" is no choice; use none, auto, required or the name "
                                       "of a function",
                                       shortened(word)));
}

// Keeps the tools that {"type": "allowed_tools", "tools": [...]} lists.
Status keep_allowed(const Json& list, const std::string& path, bool skip_hosted, ToolUse& use) {
  ToolSet kept;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (skip_hosted && is_hosted_tool(list[i])) continue;
    if (!list[i].is_object()) return field_error(at, "expected an object");
    FieldReader outer(list[i], at);
    const Json* function = outer.object("function");
    STRATA_RETURN_IF_ERROR(outer.status());
    FieldReader inner(function != nullptr ? *function : list[i], at);
    const auto name = inner.string("name");
    if (!name) inner.fail("name", "this field is required");
    STRATA_RETURN_IF_ERROR(inner.status());
    const Tool* tool = use.set->find(*name);
    if (tool == nullptr) {
      return field_error(at, fmt::format("there is no tool \"{}\"", shortened(*name)));
    }
    kept.add(*tool);
  }
  if (kept.empty()) return field_error(path, "at least one tool is needed");
  use.set = std::make_shared<const ToolSet>(std::move(kept));
  return {};
}

Result<Choice> read_choice(const Json& given, bool skip_hosted, ToolUse& use) {
  const std::string path = "tool_choice";
  if (given.is_string()) {
    const auto& word = given.get_ref<const std::string&>();
    const bool keyword = word == "none" || word == "auto" || word == "required" || word == "any";
    if (!keyword && use.set != nullptr && use.set->find(word) != nullptr) {
      const Json form{{"type", "function"}, {"function", {{"name", word}}}};
      return field_error(path, fmt::format("a function is chosen by an object; send {}", to_text(form)));
    }
    return choice_word(word, path);
  }
  if (!given.is_object()) {
    return field_error(path, fmt::format("expected a string or an object, got {}",
                                         json_type_name(given)));
  }
  FieldReader outer(given, path);
  const std::string type = outer.string("type").value_or("function");
  STRATA_RETURN_IF_ERROR(outer.status());
  if (type == "allowed_tools") {
    const Json* nested = outer.object("allowed_tools");
    STRATA_RETURN_IF_ERROR(outer.status());
    FieldReader inner(nested != nullptr ? *nested : given, path);
    const std::string mode = inner.string("mode").value_or("auto");
    const Json* list = inner.array("tools");
    if (list == nullptr) inner.fail("tools", "this field is required");
    STRATA_RETURN_IF_ERROR(inner.status());
    if (use.set == nullptr) return field_error(path, "there are no tools to allow");
    STRATA_RETURN_IF_ERROR(keep_allowed(*list, "tool_choice.tools", skip_hosted, use));
    return choice_word(mode, "tool_choice.mode");
  }
  if (type == "none" || type == "auto" || type == "required") return choice_word(type, path);
  if (type != "function") {
    return field_error("tool_choice.type",
                       fmt::format("\"{}\" is not supported by this version", shortened(type)));
  }
  const Json* function = outer.object("function");
  FieldReader inner(function != nullptr ? *function : given,
                    function != nullptr ? "tool_choice.function" : path);
  const auto name = inner.string("name");
  if (!name) inner.fail("name", "this field is required");
  STRATA_RETURN_IF_ERROR(outer.status());
  STRATA_RETURN_IF_ERROR(inner.status());
  return Choice{ToolUse::Choice::kRequired, *name};
}

}  // namespace

bool is_hosted_tool(const Json& tool) {
  constexpr std::array<std::string_view, 4> kHosted{"web_search", "file_search", "code_interpreter",
                                                    "image_generation"};
  if (!tool.is_object()) return false;
  const auto type = tool.find("type");
  if (type == tool.end() || !type->is_string()) return false;
  const std::string_view name = type->get_ref<const std::string&>();
  return std::any_of(kHosted.begin(), kHosted.end(), [&](std::string_view hosted) {
    return name.starts_with(hosted) && (name.size() == hosted.size() || name[hosted.size()] == '_');
  });
}

Result<Tool> make_tool(std::string_view name, std::string_view description, const Json* parameters,
                       bool strict, const std::string& path) {
  const std::string at = path + ".name";
  if (name.empty() || name.size() > kMaxName) {
    return field_error(at, fmt::format("a name has 1 to {} bytes", kMaxName));
  }
  const auto odd = [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == '<' || c == '>' || c == '"' || c == '\'';
  };
  if (std::any_of(name.begin(), name.end(), odd)) {
    return field_error(at, "a name may not hold blanks, quotes or angle brackets");
  }
  Tool tool;
  tool.name = name;
  tool.description = description;
  if (parameters != nullptr) tool.parameters = *parameters;
  tool.strict = strict;
  return tool;
}

Status add_tool(Tool tool, ToolSet& set, Json& shown, const std::string& path) {
  if (set.tools().size() >= kMaxTools) {
    return field_error(path, fmt::format("at most {} tools are allowed", kMaxTools));
  }
  if (set.find(tool.name) != nullptr) {
    return field_error(path, fmt::format("there are two tools \"{}\"", shortened(tool.name)));
  }
  Json function = Json::object();
  function["name"] = tool.name;
  if (!tool.description.empty()) function["description"] = tool.description;
  if (!tool.parameters.empty()) function["parameters"] = tool.parameters;
  if (shown.is_null()) shown = Json::array();
  shown.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  set.add(std::move(tool));
  return {};
}

Status apply_choice(ToolUse& use, ToolUse::Choice choice, std::string named,
                    const std::string& path) {
  const bool any = use.set != nullptr && !use.set->empty();
  if (choice == ToolUse::Choice::kRequired && !any) {
    return field_error(path, "a call cannot be required without tools");
  }
  if (!named.empty() && use.set->find(named) == nullptr) {
    return field_error(path, fmt::format("there is no tool \"{}\"", shortened(named)));
  }
  use.choice = choice;
  use.named = std::move(named);
  if (choice == ToolUse::Choice::kNone) {
    use.set.reset();
    use.shown = nullptr;
  }
  return {};
}

ToolUse read_tools(FieldReader& reader, bool skip_hosted) {
  ToolUse use;
  if (const Json* given = reader.array("tools"); given != nullptr && !given->empty()) {
    ToolSet set;
    for (size_t i = 0; i < given->size() && reader.ok(); ++i) {
      if (skip_hosted && is_hosted_tool((*given)[i])) continue;
      const std::string path = fmt::format("tools[{}]", i);
      Result<Tool> tool = read_tool((*given)[i], path);
      reader.set_status(tool.ok() ? add_tool(*std::move(tool), set, use.shown, path)
                                  : tool.status());
    }
    use.set = std::make_shared<const ToolSet>(std::move(set));
  }
  use.parallel = reader.boolean("parallel_tool_calls").value_or(true);
  if (const Json* given = reader.any("tool_choice"); given != nullptr && reader.ok()) {
    const Result<Choice> choice = read_choice(*given, skip_hosted, use);
    reader.set_status(choice.ok() ? apply_choice(use, choice->choice, choice->named, "tool_choice")
                                  : choice.status());
  }
  return use;
}

}  // namespace strata::server
