#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace strata::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  const Level level(*this);
  step();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConstant: return expr.value;
    case ExprKind::kName: return evaluate_name(expr);
    case ExprKind::kList:
    case ExprKind::kTuple: {
      std::vector<Value> items;
      items.reserve(expr.args.size());
      for (const ExprPtr& arg : expr.args) items.push_back(evaluate(*arg));
      return make_list(std::move(items),
                       expr.kind == ExprKind::kList ? ListKind::kList : ListKind::kTuple);
    }
    case ExprKind::kDict: return evaluate_dict(expr);
    case ExprKind::kAttribute: return get_attribute(*this, evaluate(*expr.args[0]), expr.name);
    case ExprKind::kSubscript: {
      const Value object = evaluate(*expr.args[0]);
      return get_item(*this, object, evaluate(*expr.args[1]));
    }
    case ExprKind::kSlice: return evaluate_slice(expr);
    case ExprKind::kCall: return evaluate_call(expr, nullptr);
    case ExprKind::kFilter: return evaluate_filter(expr, nullptr);
    case ExprKind::kTest: {
      const Value input = evaluate(*expr.args[0]);
      return Value::boolean(apply_test(expr.name, input, evaluate_args(expr, 1)) != expr.negated);
    }
    case ExprKind::kUnary: {
      const Value operand = evaluate(*expr.args[0]);
      return expr.op == Op::kNegate ? negate(operand) : unary_plus(operand);
    }
    case ExprKind::kBinary: {
      const Value left = evaluate(*expr.args[0]);
      return arithmetic(*this, expr.op, left, evaluate(*expr.args[1]));
    }
    case ExprKind::kConcat: return evaluate_concat(expr);
    case ExprKind::kCompare: return evaluate_compare(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value value;
      for (const ExprPtr& arg : expr.args) {
        value = evaluate(*arg);
        if (is_true(value) == (expr.kind == ExprKind::kOr)) break;
      }
      return value;
    }
    case ExprKind::kNot: return Value::boolean(!is_true(evaluate(*expr.args[0])));
    case ExprKind::kConditional:
      if (is_true(evaluate(*expr.args[1]))) return evaluate(*expr.args[0]);
      if (expr.args[2] != nullptr) return evaluate(*expr.args[2]);
      return Value::undefined("an 'if' without 'else' in an expression has no value here");
  }
  return Value();
}

Value Interpreter::evaluate_name(const Expr& expr) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto found = scope->names.find(expr.name);
    if (found != scope->names.end()) return found->second;
  }
  const auto known = globals_.find(expr.name);
  if (known != globals_.end()) return known->second;
  const Builtin::Function function = find_global(expr.name);
  if (function == nullptr || (expr.name == "strftime_now" && !now())) {
    return Value::undefined(fmt::format("'{}' is undefined", expr.name));
  }
  const Value value(make_object<Builtin>(std::string_view(expr.name), function));
  globals_.emplace(expr.name, value);
  return value;
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < expr.args.size(); i += 2) {
    Value key = evaluate(*expr.args[i]);
    dict.set(std::move(key), evaluate(*expr.args[i + 1]));
  }
  return make_dict(std::move(dict));
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  Text out;
  for (const ExprPtr& arg : expr.args) append_text(*this, evaluate(*arg), out);
  return make_text(std::move(out));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value object = evaluate(*expr.args[0]);
  Value parts[3];
  const Value* given[3] = {nullptr, nullptr, nullptr};
  for (std::size_t i = 0; i < 3; ++i) {
    if (expr.args[i + 1] == nullptr) continue;
    parts[i] = evaluate(*expr.args[i + 1]);
    given[i] = &parts[i];
  }
  return get_slice(*this, object, given[0], given[1], given[2]);
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.args[0]);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = evaluate(*expr.args[i + 1]);
    bool holds = false;
    switch (expr.ops[i]) {
      case Op::kEqual: holds = equal(*this, left, right); break;
      case Op::kNotEqual: holds = !equal(*this, left, right); break;
      case Op::kIn: holds = contains(*this, right, left); break;
      case Op::kNotIn: holds = !contains(*this, right, left); break;
      case Op::kLess: holds = compare(*this, left, right) < 0; break;
      case Op::kLessEqual: holds = compare(*this, left, right) <= 0; break;
      // 2 stands for NaN, which is neither.
      case Op::kGreater: holds = compare(*this, left, right) == 1; break;
      case Op::kGreaterEqual: {
        const int order = compare(*this, left, right);
        holds = order == 0 || order == 1;
        break;
      }
      default: break;
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Args Interpreter::evaluate_args(const Expr& expr, std::size_t first) {
  Args args;
  args.positional.reserve(expr.args.size() - first);
  for (std::size_t i = first; i < expr.args.size(); ++i) {
    args.positional.push_back(evaluate(*expr.args[i]));
  }
  if (expr.star_args != nullptr) {
    for (Value& value : iterate(*this, evaluate(*expr.star_args))) {
      args.positional.push_back(std::move(value));
    }
  }
  for (const Keyword& keyword : expr.keywords) {
    args.named.emplace_back(keyword.name, evaluate(*keyword.value));
  }
  if (expr.star_keywords != nullptr) {
    const Value more = evaluate(*expr.star_keywords);
    if (!more.is_dict()) fail("the argument after ** must be a dict, not {}", type_name(more));
    const auto given_end = static_cast<std::ptrdiff_t>(args.named.size());
    step(more.dict().size() * (1 + args.named.size()));
    for (const auto& [key, value] : more.dict().entries()) {
      if (!key.is_text()) fail("the names of arguments after ** must be strings");
      const auto same = [&name = key](const auto& other) { return other.first == name.view(); };
      if (std::any_of(args.named.begin(), args.named.begin() + given_end, same)) {
        fail("argument '{}' is given twice", key.view());
      }
      args.named.emplace_back(std::string(key.view()), value);
    }
  }
  return args;
}

Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Value callee = evaluate(*expr.args[0]);
  Args args = evaluate_args(expr, 1);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, args);
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value* input) {
  Value value;
  if (expr.args[0] == nullptr) {
    value = *input;
  } else if (input != nullptr) {
    const Level level(*this);
    value = evaluate_filter(*expr.args[0], input);
  } else {
    value = evaluate(*expr.args[0]);
  }
  const Args args = evaluate_args(expr, 1);
  line_ = expr.line;
  return apply_filter(expr.name, value, args);
}

}  // namespace strata::jinja
