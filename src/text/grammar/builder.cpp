#include "text/grammar/builder.h"

#include <algorithm>
#include <limits>

namespace strata::grammar {

namespace {

constexpr uint32_t kInlineSize = 48;    // a rule of up to so many nodes is copied where it is used
constexpr uint64_t kWrittenOut = 256;   // a repetition of up to so many nodes is copied
constexpr size_t kRuleStates = 20'000;  // of a deterministic rule; larger ones stay as they are
constexpr size_t kRegularNodes = 60'000;  // of an expression made into one automaton

uint32_t saturated(uint64_t n) {
  return static_cast<uint32_t>(std::min<uint64_t>(n, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

GrammarBuilder::GrammarBuilder() {
  exprs_.resize(2);
  exprs_[1].kind = Kind::kNone;
}

void GrammarBuilder::fail(std::string what) {
  if (status_.ok()) status_ = Status(StatusCode::kInvalidArgument, std::move(what));
}

ExprId GrammarBuilder::add(Expr e) {
  for (const ExprId c : e.children) e.depth = std::max(e.depth, exprs_[c].depth + 1);
  if (e.depth > kMaxDepth) fail(fmt::format("it is nested more than {} levels deep", kMaxDepth));
  if (exprs_.size() >= kMaxExpressions) {
    fail(fmt::format("it has more than {} parts; make it smaller", kMaxExpressions));
  }
  if (!status_.ok()) return none();
  exprs_.push_back(std::move(e));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId GrammarBuilder::literal(std::string_view text) {
  if (text.empty()) return empty();
  literal_bytes_ += text.size();
  if (literal_bytes_ > kMaxLiteralBytes) {
    fail(fmt::format("its fixed texts have more than {} bytes together", kMaxLiteralBytes));
  }
  if (!status_.ok()) return none();
  texts_.emplace_back(text);
  Expr e;
  e.kind = Kind::kLiteral;
  e.index = static_cast<uint32_t>(texts_.size() - 1);
  e.size = static_cast<uint32_t>(text.size());
  return add(std::move(e));
}

ExprId GrammarBuilder::bytes(const ByteSet& set) {
  sets_.push_back(set);
  Expr e;
  e.kind = Kind::kBytes;
  e.index = static_cast<uint32_t>(sets_.size() - 1);
  return add(std::move(e));
}

ExprId GrammarBuilder::concat(std::vector<ExprId> parts) {
  std::erase(parts, empty());
  if (std::find(parts.begin(), parts.end(), none()) != parts.end()) return none();
  if (parts.empty()) return empty();
  if (parts.size() == 1) return parts[0];
  Expr e;
  e.kind = Kind::kConcat;
  uint64_t size = 0;
  for (const ExprId p : parts) size += exprs_[p].size;
  e.size = saturated(size);
  e.children = std::move(parts);
  return add(std::move(e));
}

ExprId GrammarBuilder::either(std::vector<ExprId> parts) {
  std::erase(parts, none());
  if (parts.empty()) return none();
  if (parts.size() == 1) return parts[0];
  Expr e;
  e.kind = Kind::kEither;
  uint64_t size = 0;
  for (const ExprId p : parts) size += exprs_[p].size;
  e.size = saturated(size);
  e.children = std::move(parts);
  return add(std::move(e));
}

ExprId GrammarBuilder::repeat(ExprId e, uint32_t min, uint32_t max) {
  if (min > max) return none();
  if (min > kMaxCount || (max != kUnbounded && max > kMaxCount)) {
    fail(fmt::format("a repetition counts further than {}", kMaxCount));
    return none();
  }
  if (max == 0 || e == empty()) return empty();
  if (e == none()) return min == 0 ? empty() : none();
  if (min == 1 && max == 1) return e;
  Expr r;
  r.kind = Kind::kRepeat;
  r.min = min;
  r.max = max;
  r.children = {e};
  r.size = saturated(uint64_t{exprs_[e].size} * (max == kUnbounded ? min + 1 : max));
  return add(std::move(r));
}

ExprId GrammarBuilder::ref(RuleId rule) {
  Expr e;
  e.kind = Kind::kRef;
  e.index = rule;
  return add(std::move(e));
}

ExprId GrammarBuilder::embed(Automaton automaton) {
  Expr e;
  e.kind = Kind::kEmbed;
  e.size = saturated(automaton.states.size());
  automata_.push_back(std::move(automaton));
  e.index = static_cast<uint32_t>(automata_.size() - 1);
  return add(std::move(e));
}

ExprId GrammarBuilder::graph(uint32_t nodes, uint32_t final, std::vector<Arc> arcs) {
  std::erase_if(arcs, [this](const Arc& a) { return a.label == none(); });
  Expr e;
  e.kind = Kind::kGraph;
  uint64_t size = nodes;
  for (const Arc& a : arcs) {
    size += exprs_[a.label].size;
    e.children.push_back(a.label);
  }
  e.size = saturated(size);
  graphs_.push_back({nodes, final, std::move(arcs)});
  e.index = static_cast<uint32_t>(graphs_.size() - 1);
  return add(std::move(e));
}

RuleId GrammarBuilder::declare_rule(std::string name) {
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void GrammarBuilder::define_rule(RuleId rule, ExprId e) {
  rules_[rule].body = e;
  rules_[rule].defined = true;
}

// Turns expressions into automata with calls. Rules get new numbers: inlined ones vanish, loops and
// variants that exclude the empty text are added.
struct GrammarBuilder::Lowering {
  explicit Lowering(GrammarBuilder& b) : builder(b) {}

  GrammarBuilder& builder;
  bool all_inline = false;  // for to_automaton()
  size_t nodes = 0;         // of all rules so far
  // Of a rule with what it refers to inlined; UINT32_MAX when it refers to itself.
  std::vector<uint32_t> total_size, total_depth;
  std::vector<bool> nullable_rule;

  struct Job {
    ExprId body = 0;
    bool loop = false;
    uint32_t min = 0, max = 0;
  };
  std::vector<Job> jobs;
  std::vector<std::string> names;
  std::map<std::tuple<ExprId, uint32_t, uint32_t>, RuleId> loops;
  std::map<RuleId, RuleId> rules;      // builder's rule -> job
  std::map<RuleId, RuleId> not_empty;  // builder's rule -> builder's rule without the empty text

  const Expr& at(ExprId e) const { return builder.exprs_[e]; }

  // Sizes of rules that need no stack; others count as endless.
  void measure() {
    const size_t count = builder.rules_.size();
    total_size.assign(count, UINT32_MAX);
    total_depth.assign(count, UINT32_MAX);
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> mark(count, kNew);
    std::vector<std::pair<RuleId, bool>> work;
    for (RuleId first = 0; first < count; ++first) work.push_back({first, false});
    while (!work.empty()) {
      const auto [r, leaving] = work.back();
      work.pop_back();
      if (leaving) {
        bool known = true;
        const uint64_t size = size_of(builder.rules_[r].body, known);
        if (known) {
          total_size[r] = saturated(size);
          total_depth[r] = depth_of(builder.rules_[r].body);
        }
        mark[r] = kDone;
        continue;
      }
      if (mark[r] != kNew) continue;
      mark[r] = kOpen;
      work.push_back({r, true});
      std::vector<RuleId> callees;
      collect_refs(builder.rules_[r].body, callees);
      for (const RuleId c : callees) {
        if (mark[c] == kNew) work.push_back({c, false});
      }
    }
  }

  void collect_refs(ExprId root, std::vector<RuleId>& out) const {
    std::vector<ExprId> work{root};
    while (!work.empty()) {
      const Expr& e = at(work.back());
      work.pop_back();
      if (e.kind == Kind::kRef) out.push_back(e.index);
      work.insert(work.end(), e.children.begin(), e.children.end());
    }
  }

  // Of an expression whose rules are all known.
  uint32_t depth_of(ExprId id) const {
    std::vector<RuleId> callees;
    collect_refs(id, callees);
    uint64_t deepest = 0;
    for (const RuleId c : callees) deepest = std::max<uint64_t>(deepest, total_depth[c]);
    return saturated(deepest + at(id).depth);
  }

  bool inlined(RuleId r) const {
    return all_inline || (total_size[r] <= kInlineSize && total_depth[r] <= kInlineSize);
  }

  uint64_t size_of(ExprId id, bool& known) const {
    const Expr& e = at(id);
    if (e.kind == Kind::kRef) {
      known &= total_size[e.index] != UINT32_MAX;
      return total_size[e.index];
    }
    uint64_t size = e.children.empty() ? e.size : 0;
    for (const ExprId c : e.children)
      size = std::min<uint64_t>(size + size_of(c, known), UINT32_MAX);
    if (e.kind == Kind::kRepeat) size *= e.max == kUnbounded ? e.min + 1 : e.max;
    return std::min<uint64_t>(size, UINT32_MAX);
  }

  bool nullable(ExprId id) const {
    const Expr& e = at(id);
    switch (e.kind) {
      case Kind::kEmpty: return true;
      case Kind::kNone:
      case Kind::kLiteral:
      case Kind::kBytes: return false;
      case Kind::kConcat:
        return std::all_of(e.children.begin(), e.children.end(),
                           [this](ExprId c) { return nullable(c); });
      case Kind::kEither:
        return std::any_of(e.children.begin(), e.children.end(),
                           [this](ExprId c) { return nullable(c); });
      case Kind::kRepeat: return e.min == 0 || nullable(e.children[0]);
      case Kind::kRef: return nullable_rule[e.index];
      case Kind::kEmbed: return builder.automata_[e.index].states[0].final;
      case Kind::kGraph: return nullable_graph(builder.graphs_[e.index]);
    }
    return false;
  }

  bool nullable_graph(const Graph& graph) const {
    std::vector<bool> reached(graph.nodes);
    reached[0] = true;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Arc& a : graph.arcs) {
        if (!reached[a.from] || reached[a.to] || !nullable(a.label)) continue;
        reached[a.to] = true;
        changed = true;
      }
    }
    return reached[graph.final];
  }

  void find_nullable_rules() {
    nullable_rule.assign(builder.rules_.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (RuleId r = 0; r < builder.rules_.size(); ++r) {
        if (nullable_rule[r] || !nullable(builder.rules_[r].body)) continue;
        nullable_rule[r] = true;
        changed = true;
      }
    }
  }

  // The texts of e but the empty one.
  ExprId without_empty(ExprId id) {
    if (!nullable(id)) return id;
    const Expr e = at(id);
    switch (e.kind) {
      case Kind::kConcat: {
        std::vector<ExprId> ways;
        for (size_t i = 0; i < e.children.size(); ++i) {
          std::vector<ExprId> way{without_empty(e.children[i])};
          way.insert(way.end(), e.children.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     e.children.end());
          ways.push_back(builder.concat(std::move(way)));
          if (!nullable(e.children[i])) break;
        }
        return builder.either(std::move(ways));
      }
      case Kind::kEither: {
        std::vector<ExprId> ways;
        for (const ExprId c : e.children) ways.push_back(without_empty(c));
        return builder.either(std::move(ways));
      }
      case Kind::kRepeat: {
        const ExprId once = without_empty(e.children[0]);
        const uint32_t rest = e.max == kUnbounded ? kUnbounded : e.max - 1;
        const uint32_t least = nullable(e.children[0]) || e.min == 0 ? 0 : e.min - 1;
        return builder.concat({once, builder.repeat(once, least, rest)});
      }
      case Kind::kRef: {
        const auto found = not_empty.find(e.index);
        if (found != not_empty.end()) return builder.ref(found->second);
        const RuleId fresh = builder.declare_rule(builder.rules_[e.index].name);
        not_empty[e.index] = fresh;
        total_size.push_back(UINT32_MAX);
        total_depth.push_back(UINT32_MAX);
        nullable_rule.push_back(false);
        builder.define_rule(fresh, without_empty(builder.rules_[e.index].body));
        return builder.ref(fresh);
      }
      case Kind::kEmbed: {
        Automaton copy = builder.automata_[e.index];
        // A new start, so that a way back to the old one may still end there.
        copy.states.push_back(copy.states[0]);
        const auto old_start = static_cast<uint32_t>(copy.states.size() - 1);
        for (auto& s : copy.states) {
          for (auto& edge : s.edges) {
            if (edge.to == 0) edge.to = old_start;
          }
        }
        copy.states[0].final = false;
        return builder.embed(std::move(copy));
      }
      case Kind::kGraph: {
        // Two copies: nothing read yet, and something read.
        const Graph graph = builder.graphs_[e.index];
        std::vector<Arc> arcs;
        for (const Arc& a : graph.arcs) {
          arcs.push_back({a.from, without_empty(a.label), a.to + graph.nodes});
          if (nullable(a.label)) arcs.push_back({a.from, builder.empty(), a.to});
          arcs.push_back({a.from + graph.nodes, a.label, a.to + graph.nodes});
        }
        return builder.graph(2 * graph.nodes, graph.final + graph.nodes, std::move(arcs));
      }
      default: return builder.none();
    }
  }

  RuleId job_of(RuleId rule) {
    const auto [it, added] = rules.try_emplace(rule, static_cast<RuleId>(jobs.size()));
    if (added) {
      jobs.push_back({builder.rules_[rule].body});
      names.push_back(builder.rules_[rule].name);
    }
    return it->second;
  }

  RuleId loop_of(ExprId body, uint32_t min, uint32_t max, const std::string& name) {
    const auto [it, added] = loops.try_emplace({body, min, max}, static_cast<RuleId>(jobs.size()));
    if (added) {
      jobs.push_back({body, true, min, max});
      names.push_back(name);
    }
    return it->second;
  }

  void lower(Nfa& nfa, ExprId id, uint32_t from, uint32_t to, const std::string& name) {
    if (!builder.status_.ok()) return;
    if (nodes + nfa.size() > kMaxNodes) {
      builder.fail(fmt::format("it needs more than {} states; make it smaller", kMaxNodes));
      return;
    }
    const Expr e = at(id);
    switch (e.kind) {
      case Kind::kEmpty: nfa.add_epsilon(from, to); return;
      case Kind::kNone: return;
      case Kind::kLiteral: {
        const std::string& text = builder.texts_[e.index];
        for (size_t i = 0; i < text.size(); ++i) {
          const uint32_t next = i + 1 == text.size() ? to : nfa.add_node();
          nfa.add_bytes(from, ByteSet::of(static_cast<uint8_t>(text[i])), next);
          from = next;
        }
        return;
      }
      case Kind::kBytes: nfa.add_bytes(from, builder.sets_[e.index], to); return;
      case Kind::kConcat:
        for (size_t i = 0; i < e.children.size(); ++i) {
          const uint32_t next = i + 1 == e.children.size() ? to : nfa.add_node();
          lower(nfa, e.children[i], from, next, name);
          from = next;
        }
        return;
      case Kind::kEither:
        for (const ExprId c : e.children) lower(nfa, c, from, to, name);
        return;
      case Kind::kRepeat: lower_repeat(nfa, e, from, to, name); return;
      case Kind::kRef:
        if (inlined(e.index)) {
          lower(nfa, builder.rules_[e.index].body, from, to, name);
        } else {
          nfa.add_call(from, job_of(e.index), to);
        }
        return;
      case Kind::kGraph: {
        const Graph graph = builder.graphs_[e.index];
        std::vector<uint32_t> node(graph.nodes);
        for (auto& n : node) n = nfa.add_node();
        nfa.add_epsilon(from, node[0]);
        for (const Arc& a : graph.arcs) lower(nfa, a.label, node[a.from], node[a.to], name);
        nfa.add_epsilon(node[graph.final], to);
        return;
      }
      case Kind::kEmbed: {
        const Automaton& automaton = builder.automata_[e.index];
        std::vector<uint32_t> node(automaton.states.size());
        for (auto& n : node) n = nfa.add_node();
        nfa.add_epsilon(from, node[0]);
        for (size_t i = 0; i < node.size(); ++i) {
          for (const auto& edge : automaton.states[i].edges) {
            nfa.add_bytes(node[i], ByteSet::range(edge.low, edge.high), node[edge.to]);
          }
          if (automaton.states[i].final) nfa.add_epsilon(node[i], to);
        }
        return;
      }
    }
  }

  void lower_repeat(Nfa& nfa, const Expr& e, uint32_t from, uint32_t to, const std::string& name) {
    const ExprId body = e.children[0];
    const bool endless = e.max == kUnbounded;
    const uint64_t body_size = std::max<uint64_t>(size_inline(body), 1);
    const uint64_t copies = endless ? uint64_t{e.min} + 1 : e.max;
    if (!all_inline && body_size * copies > kWrittenOut && copies > 1) {
      const ExprId once = without_empty(body);
      nfa.add_call(from, loop_of(once, nullable(body) ? 0 : e.min, e.max, name), to);
      return;
    }
    uint32_t at_node = nfa.add_node();
    nfa.add_epsilon(from, at_node);
    for (uint32_t i = 0; i < e.min; ++i) {
      const uint32_t next = nfa.add_node();
      lower(nfa, body, at_node, next, name);
      at_node = next;
      if (!builder.status_.ok()) return;
    }
    if (endless) {
      const uint32_t loop = nfa.add_node();
      nfa.add_epsilon(at_node, loop);
      lower(nfa, body, loop, loop, name);
      at_node = loop;
    } else {
      for (uint32_t i = e.min; i < e.max; ++i) {
        nfa.add_epsilon(at_node, to);
        const uint32_t next = nfa.add_node();
        lower(nfa, body, at_node, next, name);
        at_node = next;
        if (!builder.status_.ok()) return;
      }
    }
    nfa.add_epsilon(at_node, to);
  }

  // Nodes that writing the expression out here costs: calls count as one.
  uint64_t size_inline(ExprId id) const {
    const Expr& e = at(id);
    if (e.kind == Kind::kRef) {
      return inlined(e.index) ? total_size[e.index] : 1;
    }
    uint64_t size = e.children.empty() ? e.size : 0;
    for (const ExprId c : e.children) size += size_inline(c);
    if (e.kind == Kind::kRepeat) {
      size *= e.max == kUnbounded ? e.min + 1 : e.max;
      if (size > kWrittenOut) size = 1;  // becomes a call of a loop
    }
    return std::min<uint64_t>(size, UINT32_MAX);
  }
};

Result<Automaton> GrammarBuilder::to_automaton(ExprId e) {
  STRATA_RETURN_IF_ERROR(status_);
  Lowering lowering(*this);
  lowering.measure();
  bool known = true;
  const uint64_t size = lowering.size_of(e, known);
  if (!known) return out_of_range("a recursive part cannot be combined with other conditions");
  if (size > kRegularNodes || lowering.depth_of(e) > 2 * kMaxDepth) {
    return out_of_range("a condition needs about {} states, more than the {} that can be combined",
                        size, kRegularNodes);
  }
  lowering.all_inline = true;
  Nfa nfa;
  const uint32_t start = nfa.add_node();
  const uint32_t final = nfa.add_node();
  lowering.lower(nfa, e, start, final, "");
  STRATA_RETURN_IF_ERROR(status_);
  auto out = nfa.determinize(start, final, kMaxAutomatonStates);
  if (!out) return out_of_range("a condition needs more than {} states", kMaxAutomatonStates);
  return minimized(std::move(*out));
}

Result<Grammar> GrammarBuilder::build(ExprId root) {
  STRATA_RETURN_IF_ERROR(status_);
  for (const RuleInfo& rule : rules_) {
    if (!rule.defined) return invalid_argument("{} is used but not defined", rule.name);
  }
  Lowering lowering(*this);
  lowering.measure();
  lowering.find_nullable_rules();
  lowering.jobs.push_back({root});
  lowering.names.push_back("the whole");
  Grammar::Source source;
  for (size_t i = 0; i < lowering.jobs.size(); ++i) {
    const Lowering::Job job = lowering.jobs[i];
    const std::string name = lowering.names[i];
    if (job.loop) {
      // The loop's one state calls its body, which is a rule of its own.
      const auto body = static_cast<RuleId>(lowering.jobs.size());
      lowering.jobs.push_back({job.body});
      lowering.names.push_back(name);
      Automaton automaton;
      automaton.states.resize(1);
      automaton.states[0].calls.push_back({body, 0});
      source.automata.push_back(std::move(automaton));
      source.rules.push_back({0, job.min, job.max, true});
      continue;
    }
    Nfa nfa;
    const uint32_t start = nfa.add_node();
    const uint32_t final = nfa.add_node();
    lowering.lower(nfa, job.body, start, final, name);
    STRATA_RETURN_IF_ERROR(status_);
    lowering.nodes += nfa.size();
    auto automaton = nfa.determinize(start, final, std::min(kRuleStates, 4 * nfa.size() + 64));
    if (!automaton) automaton = nfa.without_epsilon(start, final, 8 * kMaxNodes);
    if (!automaton) {
      return invalid_argument("{} is too ambiguous to be compiled; make it simpler", name);
    }
    source.automata.push_back(minimized(std::move(*automaton)));
    source.rules.emplace_back();
  }
  source.names = std::move(lowering.names);
  source.root = 0;
  return Grammar::create(std::move(source));
}

}  // namespace strata::grammar
