// The parsed template. Nodes are immutable after parsing, so one tree serves many renderings at
// once. Depth is limited by the parser: walking and freeing the tree may recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace strata::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

enum class ExprKind : std::uint8_t {
  kConstant,   // value
  kName,       // name
  kList,       // args
  kTuple,      // args
  kDict,       // args: key, value, key, value, ...
  kAttribute,  // args[0] . name
  kSubscript,  // args[0] [ args[1] ]
  kSlice,      // args: object, start, stop, step; absent ones are null
  kCall,       // args[0] ( rest )
  kFilter,     // args[0] | name ( rest ); args[0] is null in {% filter %} and {% set x | f %}
  kTest,       // args[0] is name ( rest ); `negated` for "is not"
  kUnary,      // op, args[0]
  kBinary,     // op, args[0], args[1]
  kConcat,     // args joined by ~
  kCompare,    // args[0] ops[0] args[1] ops[1] ...
  kAnd,
  kOr,
  kNot,
  kConditional,  // args[0] if args[1] else args[2]; the last may be null
};

enum class Op : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kNegate,
  kPlus,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Keyword {
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind;
  int line = 0;
  int depth = 1;
  Op op = Op::kAdd;
  bool negated = false;
  std::string name;
  Value value;
  std::vector<ExprPtr> args;
  std::vector<Op> ops;
  std::vector<Keyword> keywords;
  ExprPtr star_args;      // f(*star_args)
  ExprPtr star_keywords;  // f(**star_keywords)
};

enum class StmtKind : std::uint8_t {
  kData,         // data
  kPrint,        // expr
  kIf,           // branches, else_body
  kFor,          // target, expr, filter (may be null), body, else_body
  kSet,          // target, expr
  kSetBlock,     // target, expr = filters around the body or null, body
  kMacro,        // macro
  kCallBlock,    // expr = the call, macro = the block as `caller`
  kFilterBlock,  // expr = filter chain, body
  kWith,         // assignments, body
  kScope,        // body (a generation block)
  kBreak,
  kContinue,
};

// Where a value is assigned: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> elements;
  bool is_tuple = false;
};

struct Branch {
  ExprPtr condition;
  Body body;
};

struct MacroDefinition {
  struct Parameter {
    std::string name;
    ExprPtr fallback;
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Stmt {
  StmtKind kind;
  int line = 0;
  Value data;
  ExprPtr expr;
  ExprPtr filter;
  Target target;
  Body body;
  Body else_body;
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  std::unique_ptr<MacroDefinition> macro;
};

}  // namespace strata::jinja
