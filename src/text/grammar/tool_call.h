// The tool calls of the model family:
//
//   <tool_call>
//   <function=NAME>
//   <parameter=KEY>
//   VALUE
//   </parameter>
//   </function>
//   </tool_call>
//
// Texts stand as they are up to "\n</parameter>", other values as JSON. Calls follow each other
// with one line end between.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/grammar/builder.h"
#include "text/grammar/json_text.h"

namespace strata::grammar {

inline constexpr std::string_view kToolCallOpening = "<tool_call>\n<function=";

struct ToolSignature {
  std::string name;
  Json parameters;  // schema of an object, or null
  // Parameters in declared order, required ones always, each as its schema says. Otherwise in any
  // order, and what its schema says only as far as it is supported; with up to 6 parameters each at
  // most once and the required ones always.
  bool strict = false;
};

// One call, or with `several` one or more. `skip`: bytes of the first opening that stand already.
// Errors: kInvalidArgument, naming the tool.
Result<ExprId> compile_tool_calls(GrammarBuilder& builder, JsonText& text,
                                  std::span<const ToolSignature> tools, bool several, size_t skip);

}  // namespace strata::grammar
