#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/failure.h"

namespace strata::jinja {

void Parser::enter() {
  if (++depth_ > kMaxSyntaxDepth) {
    --depth_;
    fail_at(current().line, "nesting is deeper than {} levels", kMaxSyntaxDepth);
  }
}

const Token& Parser::next() {
  const Token& token = tokens_[pos_];
  if (token.kind != TokenKind::kEnd) ++pos_;
  return token;
}

bool Parser::is_op(std::string_view op) const {
  return current().kind == TokenKind::kOperator && current().text == op;
}

bool Parser::is_name(std::string_view name) const {
  return current().kind == TokenKind::kName && current().text == name;
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) unexpected(fmt::format("'{}'", op));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) unexpected(fmt::format("'{}'", name));
}

std::string Parser::expect_identifier(std::string_view what) {
  if (current().kind != TokenKind::kName) unexpected(what);
  return next().text;
}

void Parser::expect_block_end() {
  if (current().kind != TokenKind::kBlockEnd) unexpected("the end of the block tag");
  next();
}

void Parser::unexpected(std::string_view wanted) const {
  const Token& token = current();
  std::string found;
  switch (token.kind) {
    case TokenKind::kEnd: found = "the end of the template"; break;
    case TokenKind::kData: found = "text"; break;
    case TokenKind::kVariableBegin: found = "'{{'"; break;
    case TokenKind::kVariableEnd: found = "'}}'"; break;
    case TokenKind::kBlockBegin: found = "'{%'"; break;
    case TokenKind::kBlockEnd: found = "'%}'"; break;
    case TokenKind::kString: found = "a string"; break;
    case TokenKind::kInteger:
    case TokenKind::kFloat: found = "a number"; break;
    case TokenKind::kName:
    case TokenKind::kOperator: found = fmt::format("'{}'", token.text); break;
  }
  fail_at(token.line, "expected {}, found {}", wanted, found);
}

Body Parser::parse() { return parse_body({}, 1, ""); }

// Statements up to a block tag named in `ends`; that tag's name is the current token afterwards.
Body Parser::parse_body(const std::vector<std::string_view>& ends, int opened_line,
                        std::string_view opened_by) {
  const Level level(*this);
  Body body;
  while (true) {
    const Token& token = current();
    switch (token.kind) {
      case TokenKind::kEnd:
        if (ends.empty()) return body;
        fail_at(opened_line, "this {} block is never closed: {} is missing", opened_by,
                ends.back());
      case TokenKind::kData: {
        auto stmt = std::make_unique<Stmt>();
        stmt->kind = StmtKind::kData;
        stmt->line = token.line;
        stmt->data = Value(std::make_shared<const TextNode>(TextNode{Text(token.text, true), {}}));
        next();
        body.push_back(std::move(stmt));
        break;
      }
      case TokenKind::kVariableBegin: {
        auto stmt = std::make_unique<Stmt>();
        stmt->kind = StmtKind::kPrint;
        stmt->line = token.line;
        next();
        stmt->expr = parse_tuple(true);
        if (current().kind != TokenKind::kVariableEnd) unexpected("the end of the expression");
        next();
        body.push_back(std::move(stmt));
        break;
      }
      case TokenKind::kBlockBegin: {
        next();
        if (current().kind == TokenKind::kName &&
            std::find(ends.begin(), ends.end(), current().text) != ends.end()) {
          return body;
        }
        body.push_back(parse_statement(ends));
        break;
      }
      default: unexpected("a statement");
    }
  }
}

StmtPtr Parser::parse_statement(const std::vector<std::string_view>& ends) {
  const int line = current().line;
  const std::string name = expect_identifier("the name of a statement");
  if (name == "if") return parse_if(line);
  if (name == "for") return parse_for(line);
  if (name == "set") return parse_set(line);
  if (name == "macro") return parse_macro(line);
  if (name == "call") return parse_call_block(line);
  if (name == "filter") return parse_filter_block(line);
  if (name == "with") return parse_with(line);
  if (name == "generation") return parse_generation(line);
  if (name == "break") return parse_loop_control(StmtKind::kBreak, line);
  if (name == "continue") return parse_loop_control(StmtKind::kContinue, line);
  if (ends.empty() || !(name.starts_with("end") || name == "else" || name == "elif")) {
    fail_at(line, "'{}' is not a statement that a chat template can use here", name);
  }
  fail_at(line, "'{}' does not close the open block; '{}' is missing", name, ends.back());
}

void Parser::end_block(std::string_view end) {
  expect_name(end);
  expect_block_end();
}

namespace {

StmtPtr make_statement(StmtKind kind, int line) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = line;
  return stmt;
}

}  // namespace

StmtPtr Parser::parse_if(int line) {
  auto stmt = make_statement(StmtKind::kIf, line);
  while (true) {
    Branch branch;
    branch.condition = parse_tuple(false);
    expect_block_end();
    branch.body = parse_body({"elif", "else", "endif"}, line, "if");
    stmt->branches.push_back(std::move(branch));
    if (!skip_name("elif")) break;
  }
  if (skip_name("else")) {
    expect_block_end();
    stmt->else_body = parse_body({"endif"}, line, "if");
  }
  end_block("endif");
  return stmt;
}

StmtPtr Parser::parse_for(int line) {
  auto stmt = make_statement(StmtKind::kFor, line);
  stmt->target = parse_target(false);
  expect_name("in");
  stmt->expr = parse_tuple(false);
  if (skip_name("if")) stmt->filter = parse_expression();
  if (is_name("recursive")) fail_at(line, "recursive loops are not supported; use a macro");
  expect_block_end();
  ++loops_;
  stmt->body = parse_body({"else", "endfor"}, line, "for");
  --loops_;
  if (skip_name("else")) {
    expect_block_end();
    stmt->else_body = parse_body({"endfor"}, line, "for");
  }
  end_block("endfor");
  return stmt;
}

StmtPtr Parser::parse_set(int line) {
  auto stmt = make_statement(StmtKind::kSet, line);
  stmt->target = parse_target(true);
  if (skip_op("=")) {
    stmt->expr = parse_tuple(true);
    expect_block_end();
    return stmt;
  }
  stmt->kind = StmtKind::kSetBlock;
  if (is_op("|")) stmt->expr = parse_filter_chain(nullptr, false);
  expect_block_end();
  stmt->body = parse_body({"endset"}, line, "set");
  end_block("endset");
  return stmt;
}

// The body of a macro or call block: its own loops, its own use of caller and varargs.
void Parser::parse_macro_body(MacroDefinition& macro, int line, std::string_view end,
                              std::string_view opened_by) {
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  macro.body = parse_body({end}, line, opened_by);
  macros_.pop_back();
  loops_ = loops;
  end_block(end);
}

void Parser::parse_signature(MacroDefinition& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.parameters.empty()) {
      expect_op(",");
      if (is_op(")")) break;
    }
    const int line = current().line;
    MacroDefinition::Parameter parameter;
    parameter.name = expect_identifier("the name of a parameter");
    for (const auto& other : macro.parameters) {
      if (other.name == parameter.name) fail_at(line, "two parameters are called '{}'", other.name);
    }
    if (skip_op("=")) {
      parameter.fallback = parse_expression();
    } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
      fail_at(line, "parameter '{}' without a default follows one that has a default",
              parameter.name);
    }
    macro.parameters.push_back(std::move(parameter));
  }
  expect_op(")");
}

StmtPtr Parser::parse_macro(int line) {
  auto stmt = make_statement(StmtKind::kMacro, line);
  stmt->macro = std::make_unique<MacroDefinition>();
  stmt->macro->name = expect_identifier("the name of the macro");
  if (reserved(stmt->macro->name))
    fail_at(line, "a macro cannot be called '{}'", stmt->macro->name);
  parse_signature(*stmt->macro);
  expect_block_end();
  parse_macro_body(*stmt->macro, line, "endmacro", "macro");
  return stmt;
}

StmtPtr Parser::parse_call_block(int line) {
  auto stmt = make_statement(StmtKind::kCallBlock, line);
  stmt->macro = std::make_unique<MacroDefinition>();
  stmt->macro->name = "caller";
  if (is_op("(")) parse_signature(*stmt->macro);
  stmt->expr = parse_expression();
  if (stmt->expr->kind != ExprKind::kCall) fail_at(line, "a call block needs a call of a macro");
  expect_block_end();
  parse_macro_body(*stmt->macro, line, "endcall", "call");
  return stmt;
}

StmtPtr Parser::parse_filter_block(int line) {
  auto stmt = make_statement(StmtKind::kFilterBlock, line);
  stmt->expr = parse_filter_chain(nullptr, true);
  expect_block_end();
  stmt->body = parse_body({"endfilter"}, line, "filter");
  end_block("endfilter");
  return stmt;
}

StmtPtr Parser::parse_with(int line) {
  auto stmt = make_statement(StmtKind::kWith, line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt->assignments.empty()) expect_op(",");
    Target target = parse_single_target(false);
    expect_op("=");
    stmt->assignments.emplace_back(std::move(target), parse_expression());
  }
  expect_block_end();
  stmt->body = parse_body({"endwith"}, line, "with");
  end_block("endwith");
  return stmt;
}

// Marks what the assistant said, for training; rendering passes its body through.
StmtPtr Parser::parse_generation(int line) {
  auto stmt = make_statement(StmtKind::kScope, line);
  expect_block_end();
  const int loops = std::exchange(loops_, 0);
  stmt->body = parse_body({"endgeneration"}, line, "generation");
  loops_ = loops;
  end_block("endgeneration");
  return stmt;
}

StmtPtr Parser::parse_loop_control(StmtKind kind, int line) {
  if (loops_ == 0) {
    fail_at(line, "{} stands outside of a loop", kind == StmtKind::kBreak ? "break" : "continue");
  }
  expect_block_end();
  return make_statement(kind, line);
}

Target Parser::parse_target(bool allow_attribute) {
  Target first = parse_single_target(allow_attribute);
  if (!is_op(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.elements.push_back(std::move(first));
  while (skip_op(",")) {
    if (is_op("=") || is_name("in") || current().kind == TokenKind::kBlockEnd) break;
    tuple.elements.push_back(parse_single_target(allow_attribute));
  }
  return tuple;
}

Target Parser::parse_single_target(bool allow_attribute) {
  const Level level(*this);
  if (skip_op("(")) {
    Target inner = parse_target(allow_attribute);
    expect_op(")");
    return inner;
  }
  const int line = current().line;
  Target target;
  target.name = expect_identifier("a name to assign to");
  if (reserved(target.name)) fail_at(line, "cannot assign to '{}'", target.name);
  if (allow_attribute && skip_op(".")) {
    target.attribute = expect_identifier("the name of an attribute");
  }
  return target;
}

}  // namespace strata::jinja
