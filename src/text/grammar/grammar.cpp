#include "text/grammar/grammar.h"

#include <algorithm>

namespace strata::grammar {

namespace {

// Works on the automata of all rules before they become tables.
class Trimmer {
 public:
  explicit Trimmer(Grammar::Source& source)
      : source_(source), productive_(source.automata.size()), nullable_(source.automata.size()) {}

  Status run() {
    find_productive();
    if (!productive_[source_.root]) {
      return invalid_argument(
          "nothing finite satisfies it: every way through {} goes on without end or meets "
          "conditions that exclude each other",
          source_.names[source_.root]);
    }
    for (RuleId r = 0; r < source_.automata.size(); ++r) drop_dead_ends(r);
    find_nullable();
    return refuse_left_recursion();
  }

 private:
  RuleId body_of(RuleId loop) const { return source_.automata[loop].states[0].calls[0].rule; }
  bool loop_is_optional(RuleId r) const {
    return source_.rules[r].loop && source_.rules[r].min == 0;
  }

  // States of a rule from which a final one can be reached through `usable` calls; bytes too when
  // `through_bytes`.
  std::vector<bool> finishing(RuleId r, const std::vector<bool>& usable, bool through_bytes) const {
    const auto& states = source_.automata[r].states;
    std::vector<std::vector<uint32_t>> before(states.size());
    std::vector<bool> good(states.size());
    std::vector<uint32_t> work;
    for (uint32_t s = 0; s < states.size(); ++s) {
      if (through_bytes) {
        for (const auto& e : states[s].edges) before[e.to].push_back(s);
      }
      for (const auto& c : states[s].calls) {
        if (usable[c.rule]) before[c.to].push_back(s);
      }
      if (states[s].final) {
        good[s] = true;
        work.push_back(s);
      }
    }
    while (!work.empty()) {
      const uint32_t s = work.back();
      work.pop_back();
      for (const uint32_t b : before[s]) {
        if (!good[b]) {
          good[b] = true;
          work.push_back(b);
        }
      }
    }
    return good;
  }

  // Rules that become true may make their callers true: a worklist over the callers.
  template <class Test>
  void fixpoint(std::vector<bool>& truth, Test test) {
    std::vector<std::vector<RuleId>> callers(truth.size());
    for (RuleId r = 0; r < truth.size(); ++r) {
      for (const auto& s : source_.automata[r].states) {
        for (const auto& c : s.calls) callers[c.rule].push_back(r);
      }
    }
    std::vector<RuleId> work(truth.size());
    std::vector<bool> queued(truth.size(), true);
    for (RuleId r = 0; r < truth.size(); ++r) work[r] = static_cast<RuleId>(truth.size()) - 1 - r;
    while (!work.empty()) {
      const RuleId r = work.back();
      work.pop_back();
      queued[r] = false;
      if (truth[r] || !test(r)) continue;
      truth[r] = true;
      for (const RuleId c : callers[r]) {
        if (!truth[c] && !queued[c]) {
          queued[c] = true;
          work.push_back(c);
        }
      }
    }
  }

  void find_productive() {
    fixpoint(productive_, [this](RuleId r) {
      if (source_.rules[r].loop) return loop_is_optional(r) || productive_[body_of(r)];
      return bool{finishing(r, productive_, true)[0]};
    });
  }

  void find_nullable() {
    fixpoint(nullable_, [this](RuleId r) {
      if (source_.rules[r].loop) return loop_is_optional(r);
      return bool{finishing(r, nullable_, false)[0]};
    });
  }

  void drop_dead_ends(RuleId r) {
    auto& states = source_.automata[r].states;
    if (source_.rules[r].loop) {
      if (!productive_[body_of(r)]) states[0].calls.clear();
      return;
    }
    const std::vector<bool> good = finishing(r, productive_, true);
    for (auto& s : states) {
      std::erase_if(s.edges, [&](const auto& e) { return !good[e.to]; });
      std::erase_if(s.calls, [&](const auto& c) { return !good[c.to] || !productive_[c.rule]; });
    }
  }

  // Rules that r calls before a byte is read.
  std::vector<RuleId> left_calls(RuleId r) const {
    const auto& states = source_.automata[r].states;
    std::vector<bool> seen(states.size());
    std::vector<uint32_t> work{0};
    std::vector<RuleId> out;
    seen[0] = true;
    while (!work.empty()) {
      const uint32_t s = work.back();
      work.pop_back();
      for (const auto& c : states[s].calls) {
        out.push_back(c.rule);
        if (nullable_[c.rule] && !seen[c.to]) {
          seen[c.to] = true;
          work.push_back(c.to);
        }
      }
    }
    return out;
  }

  Status refuse_left_recursion() const {
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> mark(source_.automata.size(), kNew);
    struct Visit {
      RuleId rule;
      std::vector<RuleId> calls;
      size_t next = 0;
    };
    for (RuleId first = 0; first < mark.size(); ++first) {
      if (mark[first] != kNew) continue;
      std::vector<Visit> path;
      path.push_back({first, left_calls(first), 0});
      mark[first] = kOpen;
      while (!path.empty()) {
        Visit& top = path.back();
        if (top.next == top.calls.size()) {
          mark[top.rule] = kDone;
          path.pop_back();
          continue;
        }
        const RuleId callee = top.calls[top.next++];
        if (mark[callee] == kOpen) {
          return invalid_argument(
              "{} refers to itself before it reads anything (left recursion); put something that "
              "is read in front of the recursion",
              source_.names[callee]);
        }
        if (mark[callee] == kNew) {
          mark[callee] = kOpen;
          path.push_back({callee, left_calls(callee), 0});
        }
      }
    }
    return {};
  }

  Grammar::Source& source_;
  std::vector<bool> productive_, nullable_;
};

}  // namespace

Result<Grammar> Grammar::create(Source source) {
  STRATA_RETURN_IF_ERROR(Trimmer(source).run());
  Grammar out;
  out.rules_ = std::move(source.rules);
  out.root_ = source.root;
  for (RuleId r = 0; r < out.rules_.size(); ++r) {
    const auto base = static_cast<uint32_t>(out.flags_.size());
    Rule& rule = out.rules_[r];
    rule.start = base;
    if (rule.loop && source.automata[r].states[0].calls.empty()) rule.max = 0;
    for (const auto& s : source.automata[r].states) {
      uint8_t flags = 0;
      if (rule.loop) {
        flags = kLoop;
      } else if (s.final) {
        flags = s.edges.empty() && s.calls.empty() ? kFinal | kOnlyReturns : kFinal;
      }
      out.flags_.push_back(flags);
      out.first_range_.push_back(static_cast<uint32_t>(out.ranges_.size()));
      out.first_call_.push_back(static_cast<uint32_t>(out.calls_.size()));
      for (const auto& e : s.edges) out.ranges_.push_back({e.low, e.high, base + e.to});
      for (const auto& c : s.calls) out.calls_.push_back({c.rule, base + c.to});
    }
  }
  out.first_range_.push_back(static_cast<uint32_t>(out.ranges_.size()));
  out.first_call_.push_back(static_cast<uint32_t>(out.calls_.size()));
  out.make_classes();
  return out;
}

// Bytes are told apart by the set of range borders below them only when some range has exactly one
// of them; refining the partition by every distinct (low, high) gives the coarsest one.
void Grammar::make_classes() {
  std::array<std::array<bool, 256>, 256> known{};
  std::array<uint32_t, 256> klass{};
  uint32_t count = 1;
  for (const Range& r : ranges_) {
    if (known[r.low][r.high]) continue;
    known[r.low][r.high] = true;
    std::array<uint32_t, 512> renamed{};
    std::array<uint32_t, 256> next{};
    uint32_t fresh = 0;
    for (size_t b = 0; b < 256; ++b) {
      const bool inside = b >= r.low && b <= r.high;
      uint32_t& name = renamed[klass[b] * 2 + (inside ? 1 : 0)];
      if (name == 0) name = ++fresh;
      next[b] = name - 1;
    }
    klass = next;
    count = fresh;
  }
  class_byte_.resize(count);
  for (size_t b = 256; b-- > 0;) {
    byte_class_[b] = static_cast<uint8_t>(klass[b]);
    class_byte_[klass[b]] = static_cast<uint8_t>(b);
  }
}

}  // namespace strata::grammar
