#include "text/grammar/tool_call.h"

#include <algorithm>
#include <set>
#include <utility>

#include "text/grammar/json_schema.h"

namespace strata::grammar {

namespace {

constexpr std::string_view kValueEnd = "\n</parameter>";
constexpr size_t kMaxOrdered = 6;  // parameters whose every subset is a state

bool is_plain(std::string_view name) {
  return !name.empty() && name.find_first_of("<>\n\r") == std::string_view::npos;
}

class Calls {
 public:
  Calls(GrammarBuilder& builder, JsonText& text) : builder_(builder), text_(text) {}

  // From the name of the function to the end of the call.
  Result<ExprId> tail(const ToolSignature& tool) {
    if (!is_plain(tool.name)) {
      return invalid_argument("the function name '{}' is empty or has < > or a line end in it",
                              tool.name);
    }
    auto parameters = this->parameters(tool);
    if (!parameters.ok()) {
      return parameters.status().with_context(fmt::format("function {}", tool.name));
    }
    return builder_.concat({builder_.literal(tool.name + ">\n"), *parameters,
                            builder_.literal("</function>\n</tool_call>")});
  }

 private:
  Result<ExprId> parameters(const ToolSignature& tool) {
    if (tool.parameters.is_null()) return tool.strict ? builder_.empty() : anything();
    auto list = compile_parameters(builder_, text_, tool.parameters, kValueEnd, !tool.strict);
    if (!list.ok()) {
      if (tool.strict) return list.status();
      return anything();
    }
    for (const ParameterValue& p : list->declared) {
      if (!is_plain(p.name)) {
        return invalid_argument("the parameter name '{}' is empty or has < > or a line end in it",
                                p.name);
      }
    }
    STRATA_ASSIGN_OR_RETURN(const ExprId other, other_parameter(*list));
    return tool.strict ? in_order(*list, other) : in_any_order(*list, other);
  }

  ExprId written(ExprId name, ExprId value) {
    return builder_.concat({builder_.literal("<parameter="), name, builder_.literal(">\n"), value,
                            builder_.literal(std::string(kValueEnd) + "\n")});
  }
  ExprId written(const ParameterValue& p) { return written(builder_.literal(p.name), p.value); }

  ExprId name_characters() {
    const CodeRange ranges[] = {{'-', '.'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    return builder_.repeat(builder_.characters(ranges), 1, 64);
  }

  ExprId anything() {
    return builder_.repeat(written(name_characters(), free_value(builder_, kValueEnd)), 0,
                           kUnbounded);
  }

  // A parameter that is not declared; none() when there may be none.
  Result<ExprId> other_parameter(const ParameterList& list) {
    if (!list.other) return builder_.none();
    GrammarBuilder b;
    const CodeRange ranges[] = {{'-', '.'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    STRATA_ASSIGN_OR_RETURN(Automaton names, b.to_automaton(b.repeat(b.characters(ranges), 1, 64)));
    std::vector<ExprId> declared;
    for (const ParameterValue& p : list.declared) declared.push_back(b.literal(p.name));
    STRATA_ASSIGN_OR_RETURN(const Automaton taken, b.to_automaton(b.either(std::move(declared))));
    STRATA_ASSIGN_OR_RETURN(names, difference(names, taken));
    return written(builder_.embed(std::move(names)), *list.other);
  }

  ExprId in_order(const ParameterList& list, ExprId other) {
    std::vector<ExprId> parts;
    for (const ParameterValue& p : list.declared) {
      const ExprId one = written(p);
      parts.push_back(p.required ? one : builder_.optional(one));
    }
    parts.push_back(builder_.repeat(other, 0, kUnbounded));
    return builder_.concat(std::move(parts));
  }

  ExprId in_any_order(const ParameterList& list, ExprId other) {
    const size_t count = list.declared.size();
    std::vector<ExprId> each;
    for (const ParameterValue& p : list.declared) {
      // By reference: every subset uses it.
      const RuleId rule = builder_.declare_rule("the parameter " + p.name);
      builder_.define_rule(rule, written(p));
      each.push_back(builder_.ref(rule));
    }
    if (count > kMaxOrdered) {
      each.push_back(other);
      return builder_.repeat(builder_.either(std::move(each)), 0, kUnbounded);
    }
    uint32_t required = 0;
    for (size_t i = 0; i < count; ++i) {
      if (list.declared[i].required) required |= uint32_t{1} << i;
    }
    const uint32_t end = uint32_t{1} << count;
    std::vector<GrammarBuilder::Arc> arcs;
    for (uint32_t seen = 0; seen < end; ++seen) {
      for (size_t i = 0; i < count; ++i) {
        const uint32_t bit = uint32_t{1} << i;
        if ((seen & bit) == 0) arcs.push_back({seen, each[i], seen | bit});
      }
      arcs.push_back({seen, other, seen});
      if ((seen & required) == required) arcs.push_back({seen, builder_.empty(), end});
    }
    return builder_.graph(end + 1, end, std::move(arcs));
  }

  GrammarBuilder& builder_;
  JsonText& text_;
};

}  // namespace

Result<ExprId> compile_tool_calls(GrammarBuilder& builder, JsonText& text,
                                  std::span<const ToolSignature> tools, bool several, size_t skip) {
  if (tools.empty()) return invalid_argument("there is no tool to call");
  std::set<std::string_view> names;
  std::vector<ExprId> ways;
  for (const ToolSignature& tool : tools) {
    if (!names.insert(tool.name).second) {
      return invalid_argument("the function {} is given twice", tool.name);
    }
    STRATA_ASSIGN_OR_RETURN(const ExprId tail, Calls(builder, text).tail(tool));
    ways.push_back(tail);
  }
  const RuleId call = builder.declare_rule("a tool call");
  builder.define_rule(call, builder.either(std::move(ways)));
  const ExprId tail = builder.ref(call);
  const ExprId first = builder.concat({builder.literal(kToolCallOpening.substr(skip)), tail});
  if (!several) return first;
  const ExprId next =
      builder.concat({builder.literal("\n"), builder.literal(kToolCallOpening), tail});
  STRATA_RETURN_IF_ERROR(builder.status());
  return builder.concat({first, builder.repeat(next, 0, kUnbounded)});
}

}  // namespace strata::grammar
