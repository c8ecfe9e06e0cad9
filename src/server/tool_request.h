// Which tools a request offers, and whether the model must, may or may not call them.
#pragma once

#include <memory>
#include <string>

#include "server/json_input.h"
#include "server/tool_schema.h"

namespace strata::server {

struct ToolUse {
  enum class Choice { kNone, kAuto, kRequired };

  std::shared_ptr<const ToolSet> set;  // what may be called; null when nothing may
  Json shown;                          // the tools as the template sees them; null for none
  Choice choice = Choice::kAuto;
  std::string named;     // with kRequired: the one function to call
  bool parallel = true;  // more than one call in an answer
};

// A function's name, its schema and the rest, checked. `path` names the field.
Result<Tool> make_tool(std::string_view name, std::string_view description, const Json* parameters,
                       bool strict, const std::string& path);

// Adds a tool to `set` and, in the form {"type": "function", "function": {...}}, to `shown`. Fails
// on a name that is taken.
Status add_tool(Tool tool, ToolSet& set, Json& shown, const std::string& path);

// Whether a provider would run the tool itself: web_search, file_search, code_interpreter,
// image_generation, and their versions such as web_search_2025_08_26.
bool is_hosted_tool(const Json& tool);

// Reads tools, tool_choice and parallel_tool_calls as the OpenAI APIs write them, functions nested
// under "function" or flat. tool_choice "none" takes the tools away: a model that does not see them
// does not call them. With `skip_hosted`, so are tools that a provider would run itself.
ToolUse read_tools(FieldReader& reader, bool skip_hosted = false);

// The choice applied to a set of tools; `named` must be in it. `path` is the field of the choice.
Status apply_choice(ToolUse& use, ToolUse::Choice choice, std::string named,
                    const std::string& path);

}  // namespace strata::server
