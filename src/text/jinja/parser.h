// Tokens to syntax tree: parser.cpp has the statements, parser_expressions.cpp the expressions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace strata::jinja {

// Deepest nesting of statements, and of operators within one expression.
inline constexpr int kMaxSyntaxDepth = 200;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // The whole template. Throws Failure with the line at fault.
  Body parse();

 private:
  // Counts one level of nesting for its lifetime.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) { parser_.enter(); }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };
  void enter();

  const Token& current() const { return tokens_[pos_]; }
  const Token& next();
  bool is_op(std::string_view op) const;
  bool is_name(std::string_view name) const;
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_identifier(std::string_view what);
  void expect_block_end();
  [[noreturn]] void unexpected(std::string_view wanted) const;

  Body parse_body(const std::vector<std::string_view>& ends, int opened_line,
                  std::string_view opened_by);
  StmtPtr parse_statement(const std::vector<std::string_view>& ends);
  StmtPtr parse_if(int line);
  StmtPtr parse_for(int line);
  StmtPtr parse_set(int line);
  StmtPtr parse_macro(int line);
  StmtPtr parse_call_block(int line);
  StmtPtr parse_filter_block(int line);
  StmtPtr parse_with(int line);
  StmtPtr parse_generation(int line);
  StmtPtr parse_loop_control(StmtKind kind, int line);
  void parse_signature(MacroDefinition& macro);
  void parse_macro_body(MacroDefinition& macro, int line, std::string_view end,
                        std::string_view opened_by);
  void end_block(std::string_view end);
  Target parse_target(bool allow_attribute);
  Target parse_single_target(bool allow_attribute);

  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr finish(ExprPtr expr) const;
  ExprPtr parse_expression();
  ExprPtr parse_tuple(bool conditional);
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_parenthesised();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_filter_chain(ExprPtr expr, bool start_inline);
  ExprPtr parse_test(ExprPtr expr);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_subscript(ExprPtr object);
  void parse_arguments(Expr& call);
  bool at_tuple_end() const;
  static bool reserved(std::string_view name);

  std::vector<Token> tokens_;
  std::size_t pos_ = 0;
  int depth_ = 0;
  int loops_ = 0;                         // loops around the current statement, within its macro
  std::vector<MacroDefinition*> macros_;  // macros around the current statement
};

}  // namespace strata::jinja
