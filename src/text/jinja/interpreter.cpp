#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace strata::jinja {

class Interpreter::Enter {
 public:
  Enter(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter),
        previous_(interpreter.scope_),
        owned_(std::make_unique<Scope>(parent)) {
    interpreter_.scope_ = owned_.get();
  }
  ~Enter() {
    interpreter_.scope_ = previous_;
    // A macro that outlives the block still reads its names.
    if (owned_->captured) interpreter_.adopt(std::move(owned_));
  }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;
  Scope& scope() { return *owned_; }

 private:
  Interpreter& interpreter_;
  Scope* previous_;
  std::unique_ptr<Scope> owned_;
};

Interpreter::Interpreter(const Limits& limits, const std::optional<std::chrono::sys_seconds>& now)
    : Runtime(limits) {
  now_ = now;
  root_ = make_object<Scope>(nullptr);
  scope_ = root_;
}

Text Interpreter::run(const Body& body) {
  Output page;
  output_ = &page;
  run_body(body);
  output_ = nullptr;
  return std::move(page.text);
}

void Interpreter::print(const Text& text) {
  step_bytes(text.size());
  if (text.size() > limits().output_bytes - std::min(output_->text.size(), limits().output_bytes)) {
    fail_limit("the rendered text is longer than {} bytes", limits().output_bytes);
  }
  grow(output_->charge, text.size());
  output_->text.append(text);
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = run_statement(*stmt);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_statement(const Stmt& stmt) {
  const Level level(*this);
  step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kData: print(stmt.data.text()); break;
    case StmtKind::kPrint: {
      const Value value = evaluate(*stmt.expr);
      if (value.is_text())
        print(value.text());
      else
        print(to_text(*this, value));
      break;
    }
    case StmtKind::kIf: return run_if(stmt);
    case StmtKind::kFor: return run_for(stmt);
    case StmtKind::kSet: assign(stmt.target, evaluate(*stmt.expr)); break;
    case StmtKind::kSetBlock: run_set_block(stmt); break;
    case StmtKind::kMacro: scope_->names[stmt.macro->name] = make_macro(*stmt.macro); break;
    case StmtKind::kCallBlock: run_call_block(stmt); break;
    case StmtKind::kFilterBlock: run_filter_block(stmt); break;
    case StmtKind::kWith: return run_with(stmt);
    case StmtKind::kScope: {
      const Enter inner(*this, scope_);
      return run_body(stmt.body);
    }
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (is_true(evaluate(*branch.condition))) return run_body(branch.body);
  }
  return run_body(stmt.else_body);
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt) {
  const Value source = evaluate(*stmt.expr);
  std::vector<Value> items = iterate(*this, source);
  const Charge scratch = charge(items.size() * sizeof(Value));
  if (stmt.filter != nullptr) {
    Enter inner(*this, scope_);
    std::vector<Value> kept;
    for (Value& item : items) {
      inner.scope().names.clear();
      assign(stmt.target, item);
      if (is_true(evaluate(*stmt.filter))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    const Enter inner(*this, scope_);
    return run_body(stmt.else_body);
  }
  Enter inner(*this, scope_);
  auto* loop = make_object<Loop>();
  loop->items = std::move(items);
  for (loop->index = 0; loop->index < loop->items.size(); ++loop->index) {
    step();
    inner.scope().names.clear();
    inner.scope().names["loop"] = Value(loop);
    assign(stmt.target, loop->items[loop->index]);
    if (run_body(stmt.body) == Flow::kBreak) break;
  }
  // The items of a finished loop are of no use, and there may be many such loops.
  loop->index = 0;
  loop->items.clear();
  loop->items.shrink_to_fit();
  return Flow::kNext;
}

Value Interpreter::capture(const Body& body) {
  Output collected;
  Output* outer = std::exchange(output_, &collected);
  {
    const Enter inner(*this, scope_);
    run_body(body);
  }
  output_ = outer;
  return make_text(std::move(collected.text));
}

void Interpreter::run_set_block(const Stmt& stmt) {
  Value value = capture(stmt.body);
  if (stmt.expr != nullptr) value = evaluate_filter(*stmt.expr, &value);
  assign(stmt.target, value);
}

void Interpreter::run_filter_block(const Stmt& stmt) {
  const Value input = capture(stmt.body);
  print(to_text(*this, evaluate_filter(*stmt.expr, &input)));
}

void Interpreter::run_call_block(const Stmt& stmt) {
  const Value caller = make_macro(*stmt.macro);
  print(to_text(*this, evaluate_call(*stmt.expr, &caller)));
}

Interpreter::Flow Interpreter::run_with(const Stmt& stmt) {
  // All values are evaluated outside before the first name is bound.
  std::vector<Value> values;
  for (const auto& assignment : stmt.assignments) values.push_back(evaluate(*assignment.second));
  const Enter inner(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(stmt.assignments[i].first, values[i]);
  return run_body(stmt.body);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    if (value.is_undefined()) fail_undefined(value);
    const std::vector<Value> items = iterate(*this, value);
    if (items.size() != target.elements.size()) {
      fail("{} values cannot be unpacked into {} names", items.size(), target.elements.size());
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.elements[i], items[i]);
    return;
  }
  if (target.attribute.empty()) {
    scope_->names[target.name] = value;
    return;
  }
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto found = scope->names.find(target.name);
    if (found == scope->names.end()) continue;
    if (!found->second.is_object(ObjectKind::kNamespace)) break;
    auto& attributes = static_cast<Namespace*>(found->second.object())->attributes;
    const auto [place, fresh] = attributes.insert_or_assign(target.attribute, value);
    if (fresh) charge_objects(sizeof(Value) + place->first.size());
    return;
  }
  fail("cannot assign attribute '{}': '{}' is not a namespace", target.attribute, target.name);
}

Value Interpreter::make_macro(const MacroDefinition& definition) {
  auto* macro = make_object<Macro>();
  macro->definition = &definition;
  macro->scope = scope_;
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) {
    scope->captured = true;
  }
  return Value(macro);
}

Value Interpreter::call_macro(const Macro& macro, const Args& args) {
  const Level level(*this);
  const MacroDefinition& definition = *macro.definition;
  const std::size_t count = definition.parameters.size();
  const int called_from = line_;
  Enter inner(*this, macro.scope);
  auto& names = inner.scope().names;

  std::vector<const Value*> given(count, nullptr);
  for (std::size_t i = 0; i < std::min(count, args.positional.size()); ++i) {
    given[i] = &args.positional[i];
  }
  if (definition.uses_varargs) {
    std::vector<Value> rest;
    for (std::size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    names["varargs"] = make_list(std::move(rest), ListKind::kTuple);
  } else if (args.positional.size() > count) {
    fail("macro '{}' takes at most {} arguments, {} were given", definition.name, count,
         args.positional.size());
  }
  Dict extra;
  const Value* caller = nullptr;
  for (const auto& [name, value] : args.named) {
    const auto parameter =
        std::find_if(definition.parameters.begin(), definition.parameters.end(),
                     [&key = name](const auto& candidate) { return candidate.name == key; });
    if (parameter != definition.parameters.end()) {
      const auto index = static_cast<std::size_t>(parameter - definition.parameters.begin());
      if (given[index] != nullptr) fail("macro '{}' got '{}' twice", definition.name, name);
      given[index] = &value;
    } else if (name == "caller" && definition.uses_caller) {
      caller = &value;
    } else if (definition.uses_kwargs) {
      extra.set(make_text(name, true), value);
    } else {
      fail("macro '{}' has no parameter '{}'", definition.name, name);
    }
  }
  if (definition.uses_kwargs) names["kwargs"] = make_dict(std::move(extra));
  if (definition.uses_caller) {
    names["caller"] = caller != nullptr ? *caller : Value::undefined("no caller is defined");
  }
  // Defaults are evaluated in order, so that one may refer to the parameters before it.
  for (std::size_t i = 0; i < count; ++i) {
    const auto& parameter = definition.parameters[i];
    if (given[i] != nullptr) {
      names[parameter.name] = *given[i];
    } else if (parameter.fallback != nullptr) {
      names[parameter.name] = evaluate(*parameter.fallback);
    } else {
      names[parameter.name] =
          Value::undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    }
  }
  Output collected;
  Output* outer = std::exchange(output_, &collected);
  run_body(definition.body);
  output_ = outer;
  line_ = called_from;
  return make_text(std::move(collected.text));
}

Value Interpreter::call(const Value& callee, const Args& args) {
  step();
  if (callee.is_undefined()) fail_undefined(callee);
  if (callee.is_bound()) {
    const Bound& bound = callee.bound();
    return bound.method->function(*this, bound.self, args);
  }
  if (callee.is_object()) {
    switch (callee.object()->kind()) {
      case ObjectKind::kMacro: return call_macro(*static_cast<const Macro*>(callee.object()), args);
      case ObjectKind::kBuiltin:
        return static_cast<const Builtin*>(callee.object())->function(*this, args);
      case ObjectKind::kJoiner: {
        const Bindings given("a joiner", args, {});
        auto& joiner = *static_cast<Joiner*>(callee.object());
        return std::exchange(joiner.used, true) ? joiner.separator : make_text(Text());
      }
      default: break;
    }
  }
  fail("a {} cannot be called", type_name(callee));
}

}  // namespace strata::jinja
