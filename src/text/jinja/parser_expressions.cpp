#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/parser.h"

namespace strata::jinja {
namespace {

Value literal_text(std::string bytes) {
  return Value(std::make_shared<const TextNode>(TextNode{Text(std::move(bytes), true), {}}));
}

}  // namespace

bool Parser::reserved(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kWords = {"true", "false", "none",
                                                             "True", "False", "None"};
  return std::find(kWords.begin(), kWords.end(), name) != kWords.end();
}

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

// Computes the depth of a node whose children are complete. Chains such as a + b + c are built by
// loops, so the recursion limit of the parser alone does not bound them.
ExprPtr Parser::finish(ExprPtr expr) const {
  int deepest = 0;
  for (const ExprPtr& arg : expr->args) {
    if (arg != nullptr) deepest = std::max(deepest, arg->depth);
  }
  for (const Keyword& keyword : expr->keywords) deepest = std::max(deepest, keyword.value->depth);
  if (expr->star_args != nullptr) deepest = std::max(deepest, expr->star_args->depth);
  if (expr->star_keywords != nullptr) deepest = std::max(deepest, expr->star_keywords->depth);
  expr->depth = deepest + 1;
  if (expr->depth > kMaxSyntaxDepth) {
    fail_at(expr->line, "an expression is nested deeper than {} levels", kMaxSyntaxDepth);
  }
  return expr;
}

ExprPtr Parser::parse_expression() {
  const Level level(*this);
  ExprPtr value = parse_or();
  while (is_name("if")) {
    ExprPtr conditional = make(ExprKind::kConditional, next().line);
    conditional->args.push_back(std::move(value));
    conditional->args.push_back(parse_or());
    conditional->args.push_back(skip_name("else") ? parse_expression() : nullptr);
    value = finish(std::move(conditional));
  }
  return value;
}

bool Parser::at_tuple_end() const {
  return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
         current().kind == TokenKind::kEnd || is_op(")");
}

// One expression, or several separated by commas as a tuple.
ExprPtr Parser::parse_tuple(bool conditional) {
  const int line = current().line;
  if (at_tuple_end()) unexpected("an expression");
  ExprPtr first = conditional ? parse_expression() : parse_or();
  if (!is_op(",")) return first;
  ExprPtr tuple = make(ExprKind::kTuple, line);
  tuple->args.push_back(std::move(first));
  while (skip_op(",")) {
    if (at_tuple_end()) break;
    tuple->args.push_back(conditional ? parse_expression() : parse_or());
  }
  return finish(std::move(tuple));
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  if (!is_name("or")) return left;
  ExprPtr node = make(ExprKind::kOr, current().line);
  node->args.push_back(std::move(left));
  while (skip_name("or")) node->args.push_back(parse_and());
  return finish(std::move(node));
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  if (!is_name("and")) return left;
  ExprPtr node = make(ExprKind::kAnd, current().line);
  node->args.push_back(std::move(left));
  while (skip_name("and")) node->args.push_back(parse_not());
  return finish(std::move(node));
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Level level(*this);
  ExprPtr node = make(ExprKind::kNot, next().line);
  node->args.push_back(parse_not());
  return finish(std::move(node));
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr node;
  while (true) {
    Op op = Op::kEqual;
    const int line = current().line;
    if (skip_op("=="))
      op = Op::kEqual;
    else if (skip_op("!="))
      op = Op::kNotEqual;
    else if (skip_op("<="))
      op = Op::kLessEqual;
    else if (skip_op(">="))
      op = Op::kGreaterEqual;
    else if (skip_op("<"))
      op = Op::kLess;
    else if (skip_op(">"))
      op = Op::kGreater;
    else if (skip_name("in"))
      op = Op::kIn;
    else if (is_name("not") && tokens_[pos_ + 1].kind == TokenKind::kName &&
             tokens_[pos_ + 1].text == "in") {
      next();
      next();
      op = Op::kNotIn;
    } else {
      break;
    }
    if (node == nullptr) {
      node = make(ExprKind::kCompare, line);
      node->args.push_back(std::move(first));
    }
    node->ops.push_back(op);
    node->args.push_back(parse_sum());
  }
  return node == nullptr ? std::move(first) : finish(std::move(node));
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    ExprPtr node = make(ExprKind::kBinary, current().line);
    node->op = next().text == "+" ? Op::kAdd : Op::kSubtract;
    node->args.push_back(std::move(left));
    node->args.push_back(parse_concat());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr left = parse_product();
  if (!is_op("~")) return left;
  ExprPtr node = make(ExprKind::kConcat, current().line);
  node->args.push_back(std::move(left));
  while (skip_op("~")) node->args.push_back(parse_product());
  return finish(std::move(node));
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    ExprPtr node = make(ExprKind::kBinary, current().line);
    const std::string& op = next().text;
    node->op = op == "*"    ? Op::kMultiply
               : op == "/"  ? Op::kDivide
               : op == "//" ? Op::kFloorDivide
                            : Op::kModulo;
    node->args.push_back(std::move(left));
    node->args.push_back(parse_power());
    left = finish(std::move(node));
  }
  return left;
}

// Unlike Python's, the power operator of the language groups to the left and binds weaker than a
// sign: -2 ** 2 is 4.
ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (is_op("**")) {
    ExprPtr node = make(ExprKind::kBinary, next().line);
    node->op = Op::kPower;
    node->args.push_back(std::move(left));
    node->args.push_back(parse_unary(true));
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filters) {
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Level level(*this);
    node = make(ExprKind::kUnary, current().line);
    node->op = next().text == "-" ? Op::kNegate : Op::kPlus;
    node->args.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_primary() {
  const Token& token = current();
  ExprPtr node = make(ExprKind::kConstant, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      if (token.text == "true" || token.text == "True") {
        node->value = Value::boolean(true);
      } else if (token.text == "false" || token.text == "False") {
        node->value = Value::boolean(false);
      } else if (token.text == "none" || token.text == "None") {
        node->value = Value(None{});
      } else {
        node->kind = ExprKind::kName;
        node->name = token.text;
        for (MacroDefinition* macro : macros_) {
          macro->uses_caller |= token.text == "caller";
          macro->uses_varargs |= token.text == "varargs";
          macro->uses_kwargs |= token.text == "kwargs";
        }
      }
      next();
      return node;
    case TokenKind::kString: {
      std::string text = next().text;
      while (current().kind == TokenKind::kString) text += next().text;
      node->value = literal_text(std::move(text));
      return node;
    }
    case TokenKind::kInteger: node->value = Value::integer(next().integer); return node;
    case TokenKind::kFloat: node->value = Value::real(next().real); return node;
    default: break;
  }
  if (is_op("(")) return parse_parenthesised();
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  unexpected("an expression");
}

ExprPtr Parser::parse_parenthesised() {
  const int line = next().line;
  ExprPtr node;
  if (is_op(")")) {
    node = finish(make(ExprKind::kTuple, line));
  } else {
    node = parse_tuple(true);
  }
  expect_op(")");
  return node;
}

ExprPtr Parser::parse_list() {
  ExprPtr node = make(ExprKind::kList, next().line);
  while (!is_op("]")) {
    if (!node->args.empty()) {
      expect_op(",");
      if (is_op("]")) break;
    }
    node->args.push_back(parse_expression());
  }
  expect_op("]");
  return finish(std::move(node));
}

ExprPtr Parser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict, next().line);
  while (!is_op("}")) {
    if (!node->args.empty()) {
      expect_op(",");
      if (is_op("}")) break;
    }
    node->args.push_back(parse_expression());
    expect_op(":");
    node->args.push_back(parse_expression());
  }
  expect_op("}");
  return finish(std::move(node));
}

ExprPtr Parser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (is_op(".")) {
      const int line = next().line;
      const bool by_index = current().kind == TokenKind::kInteger;
      ExprPtr node = make(by_index ? ExprKind::kSubscript : ExprKind::kAttribute, line);
      node->args.push_back(std::move(expr));
      if (by_index) {
        node->args.push_back(parse_primary());
      } else {
        node->name = expect_identifier("the name of an attribute");
      }
      expr = finish(std::move(node));
    } else if (is_op("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  const int line = next().line;
  ExprPtr parts[3];
  bool slice = false;
  std::size_t part = 0;
  while (!is_op("]")) {
    if (skip_op(":")) {
      slice = true;
      if (++part > 2) fail_at(line, "a slice has at most three parts");
      continue;
    }
    if (parts[part] != nullptr) unexpected("']'");
    parts[part] = parse_expression();
  }
  expect_op("]");
  if (!slice && parts[0] == nullptr) fail_at(line, "a subscript is empty");
  ExprPtr node = make(slice ? ExprKind::kSlice : ExprKind::kSubscript, line);
  node->args.push_back(std::move(object));
  node->args.push_back(std::move(parts[0]));
  if (slice) {
    node->args.push_back(std::move(parts[1]));
    node->args.push_back(std::move(parts[2]));
  }
  return finish(std::move(node));
}

void Parser::parse_arguments(Expr& call) {
  expect_op("(");
  bool first = true;
  while (!is_op(")")) {
    if (!first) {
      expect_op(",");
      if (is_op(")")) break;
    }
    first = false;
    const int line = current().line;
    if (skip_op("*")) {
      if (call.star_args != nullptr || call.star_keywords != nullptr) {
        fail_at(line, "unexpected '*' in the arguments of a call");
      }
      call.star_args = parse_expression();
    } else if (skip_op("**")) {
      if (call.star_keywords != nullptr) fail_at(line, "a call has two '**' arguments");
      call.star_keywords = parse_expression();
    } else if (current().kind == TokenKind::kName &&
               tokens_[pos_ + 1].kind == TokenKind::kOperator && tokens_[pos_ + 1].text == "=") {
      if (call.star_keywords != nullptr) fail_at(line, "an argument follows '**'");
      Keyword keyword;
      keyword.name = next().text;
      next();
      keyword.value = parse_expression();
      for (const Keyword& other : call.keywords) {
        if (other.name == keyword.name) fail_at(line, "argument '{}' is given twice", keyword.name);
      }
      call.keywords.push_back(std::move(keyword));
    } else {
      if (!call.keywords.empty() || call.star_args != nullptr || call.star_keywords != nullptr) {
        fail_at(line, "a positional argument follows a keyword argument");
      }
      call.args.push_back(parse_expression());
    }
  }
  expect_op(")");
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  ExprPtr node = make(ExprKind::kCall, current().line);
  node->args.push_back(std::move(callee));
  parse_arguments(*node);
  return finish(std::move(node));
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr expr) {
  while (true) {
    if (is_op("|")) {
      expr = parse_filter_chain(std::move(expr), false);
    } else if (is_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

// `start_inline`: the first filter comes without its bar, as in {% filter upper %}.
ExprPtr Parser::parse_filter_chain(ExprPtr expr, bool start_inline) {
  while (start_inline || is_op("|")) {
    if (!start_inline) next();
    start_inline = false;
    ExprPtr node = make(ExprKind::kFilter, current().line);
    node->name = expect_identifier("the name of a filter");
    while (skip_op(".")) (node->name += ".") += expect_identifier("the name of a filter");
    node->args.push_back(std::move(expr));
    if (is_op("(")) parse_arguments(*node);
    expr = finish(std::move(node));
  }
  return expr;
}

ExprPtr Parser::parse_test(ExprPtr expr) {
  ExprPtr node = make(ExprKind::kTest, next().line);
  node->negated = skip_name("not");
  node->name = expect_identifier("the name of a test");
  while (skip_op(".")) (node->name += ".") += expect_identifier("the name of a test");
  node->args.push_back(std::move(expr));
  const TokenKind kind = current().kind;
  if (is_op("(")) {
    parse_arguments(*node);
  } else if (kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || is_op("[") || is_op("{") ||
             (kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and"))) {
    if (is_name("is")) fail_at(node->line, "two tests with 'is' cannot be chained");
    node->args.push_back(parse_postfix(parse_primary()));
  }
  return finish(std::move(node));
}

}  // namespace strata::jinja
