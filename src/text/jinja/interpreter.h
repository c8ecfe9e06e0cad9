// Walks the syntax tree of one rendering: interpreter.cpp runs statements and macros,
// evaluate.cpp evaluates expressions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {

// The names that one block assigned; lookups go on to the parent. `captured` is set when a macro
// was defined inside: the scope must then outlive its block.
struct Scope : Object {
  explicit Scope(Scope* parent_scope) : Object(ObjectKind::kNamespace), parent(parent_scope) {}
  Scope* parent;
  bool captured = false;
  std::unordered_map<std::string, Value> names;
};

struct Macro : Object {
  Macro() : Object(ObjectKind::kMacro) {}
  const MacroDefinition* definition = nullptr;
  Scope* scope = nullptr;  // where it was defined
};

class Interpreter : public Runtime {
 public:
  Interpreter(const Limits& limits, const std::optional<std::chrono::sys_seconds>& now);

  // A variable of the request or model. To be called before run().
  void define(const std::string& name, Value value) { root_->names[name] = std::move(value); }
  // The rendered text.
  Text run(const Body& body);
  // Line of the node evaluated last, for messages.
  int line() const { return line_; }

  Value call(const Value& callee, const Args& args) override;

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Text under construction: the page, or what a macro or block set collects.
  struct Output {
    Text text;
    Charge charge;
  };

  // Makes a scope current for its lifetime.
  class Enter;

  Flow run_body(const Body& body);
  Flow run_statement(const Stmt& stmt);
  Flow run_if(const Stmt& stmt);
  Flow run_for(const Stmt& stmt);
  void run_set_block(const Stmt& stmt);
  void run_call_block(const Stmt& stmt);
  void run_filter_block(const Stmt& stmt);
  Flow run_with(const Stmt& stmt);
  Value make_macro(const MacroDefinition& definition);
  Value call_macro(const Macro& macro, const Args& args);
  // The text that `body` prints, run in a scope of its own.
  Value capture(const Body& body);
  void print(const Text& text);
  void assign(const Target& target, const Value& value);

  Value evaluate(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_call(const Expr& expr, const Value* caller);
  // A filter node, or a chain of them whose innermost input is `input`.
  Value evaluate_filter(const Expr& expr, const Value* input);
  Args evaluate_args(const Expr& expr, std::size_t first);

  Scope* root_ = nullptr;
  Scope* scope_ = nullptr;
  Output* output_ = nullptr;
  int line_ = 0;
  std::unordered_map<std::string, Value> globals_;  // builtins already looked up
};

}  // namespace strata::jinja
