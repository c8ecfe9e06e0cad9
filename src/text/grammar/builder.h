// Expressions and rules, from which a Grammar is compiled. Every front end (regex, GBNF, JSON
// schema, tool calls) writes to one of these.
//
// Limits keep hostile input from using much memory or time: see kMaxExpressions and the rest. The
// first one exceeded makes status() fail, and build() with it; operations then return none().
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "text/grammar/automaton.h"
#include "text/grammar/grammar.h"

namespace strata::grammar {

using ExprId = uint32_t;

inline constexpr size_t kMaxExpressions = 400'000;
inline constexpr size_t kMaxLiteralBytes = 2'000'000;
inline constexpr size_t kMaxNodes = 600'000;    // of all rules before they are made deterministic
inline constexpr uint32_t kMaxDepth = 1000;     // of nested expressions
inline constexpr uint32_t kMaxCount = 1 << 28;  // of a bounded repetition

struct CodeRange {
  char32_t low = 0;
  char32_t high = 0;
};

class GrammarBuilder {
 public:
  GrammarBuilder();

  ExprId empty() const { return 0; }  // the empty text
  ExprId none() const { return 1; }   // no text at all
  ExprId literal(std::string_view text);
  ExprId bytes(const ByteSet& set);
  // One character out of the ranges, as UTF-8; surrogates are left out.
  ExprId characters(std::span<const CodeRange> ranges);
  ExprId concat(std::vector<ExprId> parts);
  ExprId either(std::vector<ExprId> parts);
  ExprId optional(ExprId e) { return repeat(e, 0, 1); }
  ExprId repeat(ExprId e, uint32_t min, uint32_t max);  // max may be kUnbounded
  ExprId ref(RuleId rule);
  ExprId embed(Automaton automaton);  // without calls
  // The texts of the ways from node 0 to node `final`.
  struct Arc {
    uint32_t from = 0;
    ExprId label = 0;
    uint32_t to = 0;
  };
  ExprId graph(uint32_t nodes, uint32_t final, std::vector<Arc> arcs);

  RuleId declare_rule(std::string name);
  void define_rule(RuleId rule, ExprId e);
  bool is_defined(RuleId rule) const { return rules_[rule].defined; }
  const std::string& name(RuleId rule) const { return rules_[rule].name; }
  size_t rule_count() const { return rules_.size(); }

  // The language of an expression that needs no stack; kOutOfRange when it refers to a rule that
  // does, or is too large.
  Result<Automaton> to_automaton(ExprId e);

  Status status() const { return status_; }
  // Every rule that was declared must have been defined.
  Result<Grammar> build(ExprId root);

 private:
  enum class Kind : uint8_t {
    kEmpty,
    kNone,
    kLiteral,
    kBytes,
    kConcat,
    kEither,
    kRepeat,
    kRef,
    kEmbed,
    kGraph
  };
  struct Expr {
    Kind kind = Kind::kEmpty;
    uint32_t index = 0;  // of text, set, rule, automaton or graph
    uint32_t min = 0, max = 0;
    uint32_t size = 1;  // nodes, with every repetition written out; saturates
    uint32_t depth = 1;
    std::vector<ExprId> children;
  };
  struct Graph {
    uint32_t nodes = 0, final = 0;
    std::vector<Arc> arcs;
  };
  struct RuleInfo {
    std::string name;
    ExprId body = 1;
    bool defined = false;
  };
  struct Lowering;

  ExprId add(Expr e);
  void fail(std::string what);

  std::vector<Expr> exprs_;
  std::vector<std::string> texts_;
  std::vector<ByteSet> sets_;
  std::vector<Automaton> automata_;
  std::vector<Graph> graphs_;
  std::vector<RuleInfo> rules_;
  size_t literal_bytes_ = 0;
  Status status_;
};

}  // namespace strata::grammar
