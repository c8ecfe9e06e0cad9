#include "text/grammar/automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace strata::grammar {

namespace {

constexpr uint32_t kDead = UINT32_MAX;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

struct HashWords {
  size_t operator()(const std::vector<uint32_t>& words) const {
    uint64_t hash = words.size();
    for (const uint32_t w : words) hash = mix(hash, w);
    return static_cast<size_t>(hash);
  }
};

void append_edge(std::vector<Automaton::Edge>& edges, uint8_t low, uint8_t high, uint32_t to) {
  if (!edges.empty() && edges.back().to == to && edges.back().high + 1 == low) {
    edges.back().high = high;
  } else {
    edges.push_back({low, high, to});
  }
}

// Cuts the byte range where any edge begins or ends and calls f(low, high) for each piece.
template <class F>
void for_each_piece(const std::vector<Automaton::Edge>& edges, F f) {
  std::array<bool, 257> begins{};
  for (const auto& e : edges) begins[e.low] = begins[e.high + 1u] = true;
  int low = -1;
  for (int b = 0; b <= 256; ++b) {
    if (b < 256 && !begins[static_cast<size_t>(b)]) continue;
    if (low >= 0) f(static_cast<uint8_t>(low), static_cast<uint8_t>(b - 1));
    low = b;
  }
}

uint32_t step(const Automaton& automaton, uint32_t state, uint8_t byte) {
  if (state == kDead) return kDead;
  for (const auto& e : automaton.states[state].edges) {
    if (byte >= e.low && byte <= e.high) return e.to;
  }
  return kDead;
}

// Pairs of states; b may be dead when `keep_dead`.
Result<Automaton> product(const Automaton& a, const Automaton& b, bool keep_dead) {
  Automaton out;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const auto id_of = [&](uint32_t x, uint32_t y) {
    const auto [it, added] = ids.try_emplace({x, y}, static_cast<uint32_t>(pairs.size()));
    if (added) pairs.push_back({x, y});
    return it->second;
  };
  id_of(0, 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.size() > kMaxAutomatonStates) {
      return out_of_range("the combined conditions need more than {} states", kMaxAutomatonStates);
    }
    const uint32_t x = pairs[i].first;
    const uint32_t y = pairs[i].second;
    Automaton::State state;
    const bool in_b = y != kDead && b.states[y].final;
    state.final = a.states[x].final && in_b != keep_dead;
    std::vector<Automaton::Edge> all = a.states[x].edges;
    if (y != kDead) all.insert(all.end(), b.states[y].edges.begin(), b.states[y].edges.end());
    for_each_piece(all, [&](uint8_t low, uint8_t high) {
      const uint32_t to_a = step(a, x, low);
      const uint32_t to_b = step(b, y, low);
      if (to_a == kDead || (to_b == kDead && !keep_dead)) return;
      append_edge(state.edges, low, high, id_of(to_a, to_b));
    });
    out.states.push_back(std::move(state));
  }
  return minimized(std::move(out));
}

}  // namespace

bool Automaton::accepts(std::string_view text) const {
  uint32_t state = 0;
  for (const char c : text) {
    state = step(*this, state, static_cast<uint8_t>(c));
    if (state == kDead) return false;
  }
  return states[state].final;
}

Result<Automaton> intersection(const Automaton& a, const Automaton& b) {
  return product(a, b, false);
}

Result<Automaton> difference(const Automaton& a, const Automaton& b) { return product(a, b, true); }

Result<Automaton> counted(const Automaton& a, const Automaton& unit, uint32_t min, uint32_t max) {
  struct Place {
    uint32_t a = 0, unit = 0, count = 0;
    auto operator<=>(const Place&) const = default;
  };
  const bool limited = max != UINT32_MAX;
  std::map<Place, uint32_t> ids;
  std::vector<Place> places;
  const auto id_of = [&](const Place& p) {
    const auto [it, added] = ids.try_emplace(p, static_cast<uint32_t>(places.size()));
    if (added) places.push_back(p);
    return it->second;
  };
  Automaton out;
  id_of({});
  for (size_t i = 0; i < places.size(); ++i) {
    if (places.size() > kMaxAutomatonStates) {
      return out_of_range("the combined conditions need more than {} states", kMaxAutomatonStates);
    }
    const Place place = places[i];
    Automaton::State state;
    state.final = a.states[place.a].final && place.unit == 0 && place.count >= min;
    std::vector<Automaton::Edge> all = a.states[place.a].edges;
    const auto& more = unit.states[place.unit].edges;
    all.insert(all.end(), more.begin(), more.end());
    for_each_piece(all, [&](uint8_t low, uint8_t high) {
      Place to{step(a, place.a, low), step(unit, place.unit, low), place.count};
      if (to.a == kDead || to.unit == kDead) return;
      if (place.unit == 0 && limited && place.count == max) return;
      if (unit.states[to.unit].final) {
        to.unit = 0;
        to.count = limited ? to.count + 1 : std::min(to.count + 1, min);
      }
      append_edge(state.edges, low, high, id_of(to));
    });
    out.states.push_back(std::move(state));
  }
  return out;
}

bool accepts_nothing(const Automaton& automaton) {
  std::vector<bool> seen(automaton.states.size());
  std::vector<uint32_t> work{0};
  seen[0] = true;
  const auto visit = [&](uint32_t to) {
    if (!seen[to]) {
      seen[to] = true;
      work.push_back(to);
    }
  };
  while (!work.empty()) {
    const auto& state = automaton.states[work.back()];
    work.pop_back();
    if (state.final) return false;
    for (const auto& e : state.edges) visit(e.to);
    for (const auto& c : state.calls) visit(c.to);
  }
  return true;
}

namespace {

// final, byte ranges and calls of a state, with states replaced by what `name` gives.
template <class Name>
void describe(const Automaton::State& state, Name name, std::vector<uint32_t>& out) {
  out.assign({state.final ? 1u : 0u});
  // Neighbouring ranges that lead to one name are one range.
  uint32_t low = 0, high = 0, to = kDead;
  const auto flush = [&] {
    if (to == kDead) return;
    out.push_back(low << 8 | high);
    out.push_back(to);
  };
  for (const auto& e : state.edges) {
    const uint32_t next = name(e.to);
    if (to == next && high + 1u == e.low) {
      high = e.high;
    } else {
      flush();
      low = e.low;
      high = e.high;
      to = next;
    }
  }
  flush();
  out.push_back(kDead);
  for (const auto& c : state.calls) {
    out.push_back(c.rule);
    out.push_back(name(c.to));
  }
}

// Numbers lists of words by first appearance, all of them in one piece of memory.
class Names {
 public:
  size_t size() const { return entries_.size(); }
  void clear() {
    entries_.clear();
    words_.clear();
    std::fill(slots_.begin(), slots_.end(), kFree);
  }

  uint32_t of(const std::vector<uint32_t>& words) {
    if (2 * entries_.size() >= slots_.size()) grow();
    const uint64_t hash = HashWords()(words);
    size_t at = place(hash);
    for (; slots_[at] != kFree; at = (at + 1) & (slots_.size() - 1)) {
      const Entry& entry = entries_[slots_[at]];
      const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(entry.begin);
      if (entry.hash == hash && entry.size == words.size() &&
          std::equal(words.begin(), words.end(), begin)) {
        return slots_[at];
      }
    }
    slots_[at] = static_cast<uint32_t>(entries_.size());
    entries_.push_back({hash, words_.size(), words.size()});
    words_.insert(words_.end(), words.begin(), words.end());
    return slots_[at];
  }

 private:
  struct Entry {
    uint64_t hash = 0;
    size_t begin = 0, size = 0;  // in words_
  };
  static constexpr uint32_t kFree = UINT32_MAX;

  size_t place(uint64_t hash) const { return (hash ^ hash >> 32) & (slots_.size() - 1); }
  void grow() {
    slots_.assign(std::max<size_t>(64, 2 * slots_.size()), kFree);
    for (uint32_t i = 0; i < entries_.size(); ++i) {
      size_t at = place(entries_[i].hash);
      while (slots_[at] != kFree) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = i;
    }
  }

  std::vector<uint32_t> words_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // a power of two of them
};

// Moore's partition refinement: classes are split by where their edges lead until none splits.
// Nothing when that takes more than `max_work` looks at edges.
std::optional<std::vector<uint32_t>> equivalence(const Automaton& automaton, size_t max_work) {
  const size_t count = automaton.states.size();
  size_t edges = count;
  for (const auto& s : automaton.states) edges += s.edges.size() + s.calls.size();
  std::vector<uint32_t> classes(count, 0);
  std::vector<uint32_t> signature;
  size_t before = 0;
  Names names;
  std::vector<uint32_t> next(count);
  for (size_t work = 0; work <= max_work; work += edges) {
    names.clear();
    for (size_t i = 0; i < count; ++i) {
      describe(
          automaton.states[i], [&](uint32_t s) { return classes[s]; }, signature);
      signature.push_back(classes[i]);
      next[i] = names.of(signature);
    }
    classes.swap(next);
    if (names.size() == before) return classes;
    before = names.size();
  }
  return std::nullopt;
}

// Linear, and complete but for what lies on cycles: states are compared after those they lead to;
// one that is still under way stands for itself.
std::vector<uint32_t> equal_tails(const Automaton& automaton) {
  const size_t count = automaton.states.size();
  const auto own_name = [count](uint32_t s) { return static_cast<uint32_t>(count) + s; };
  std::vector<uint32_t> names(count, kDead);
  Names known;
  std::vector<uint32_t> signature;
  std::vector<bool> seen(count);
  std::vector<std::pair<uint32_t, bool>> work;
  for (uint32_t first = static_cast<uint32_t>(count); first-- > 0;) work.push_back({first, false});
  while (!work.empty()) {
    const auto [s, leaving] = work.back();
    work.pop_back();
    if (leaving) {
      describe(
          automaton.states[s],
          [&](uint32_t to) { return names[to] == kDead ? own_name(to) : names[to]; }, signature);
      names[s] = known.of(signature);
      continue;
    }
    if (seen[s]) continue;
    seen[s] = true;
    work.push_back({s, true});
    for (const auto& e : automaton.states[s].edges) work.push_back({e.to, false});
    for (const auto& c : automaton.states[s].calls) work.push_back({c.to, false});
  }
  return names;
}

}  // namespace

Automaton minimized(Automaton automaton) {
  constexpr size_t kMaxWork = size_t{1} << 19;
  const size_t count = automaton.states.size();
  auto classes = equivalence(automaton, kMaxWork);
  if (!classes) classes = equal_tails(automaton);
  // Numbered by first appearance, so that the start stays first.
  std::vector<uint32_t> number(count, kDead);
  uint32_t numbers = 0;
  for (const uint32_t c : *classes) {
    if (number[c] == kDead) number[c] = numbers++;
  }
  const auto renamed = [&](uint32_t s) { return number[(*classes)[s]]; };
  Automaton out;
  out.states.resize(numbers);
  std::vector<bool> made(numbers);
  for (uint32_t i = 0; i < count; ++i) {
    if (made[renamed(i)]) continue;
    made[renamed(i)] = true;
    auto& state = out.states[renamed(i)];
    state.final = automaton.states[i].final;
    for (const auto& e : automaton.states[i].edges) {
      append_edge(state.edges, e.low, e.high, renamed(e.to));
    }
    for (const auto& c : automaton.states[i].calls) state.calls.push_back({c.rule, renamed(c.to)});
  }
  return out;
}

void Nfa::add_bytes(uint32_t from, const ByteSet& bytes, uint32_t to) {
  bytes.for_each_range([&](uint8_t low, uint8_t high) {
    nodes_[from].edges.push_back({low, high, to});
  });
}

// Closures over empty moves. Only nodes that do something are kept: subsets that differ in others
// are the same state.
class Nfa::Closer {
 public:
  Closer(const std::vector<Node>& nodes, uint32_t final)
      : nodes_(nodes), final_(final), seen_(nodes.size()) {}

  // Replaces the seeds by their closure, ascending.
  void close(Subset& subset) {
    ++epoch_;
    work_.clear();
    for (const uint32_t n : subset) visit(n);
    subset.clear();
    while (!work_.empty()) {
      const uint32_t n = work_.back();
      work_.pop_back();
      const Node& node = nodes_[n];
      if (n == final_ || !node.edges.empty() || !node.calls.empty()) subset.push_back(n);
      for (const uint32_t to : node.epsilon) visit(to);
    }
    std::sort(subset.begin(), subset.end());
  }

 private:
  void visit(uint32_t n) {
    if (seen_[n] == epoch_) return;
    seen_[n] = epoch_;
    work_.push_back(n);
  }
  const std::vector<Node>& nodes_;
  uint32_t final_;
  std::vector<uint32_t> seen_;
  std::vector<uint32_t> work_;
  uint32_t epoch_ = 0;
};

std::optional<Automaton> Nfa::determinize(uint32_t start, uint32_t final, size_t max_states) const {
  const size_t max_members = 64 * max_states + nodes_.size() * 16;  // of all subsets together
  Closer closer(nodes_, final);
  Automaton out;
  std::unordered_map<Subset, uint32_t, HashWords> ids;
  std::vector<const Subset*> subsets;
  size_t members = 0;
  const auto id_of = [&](Subset subset) {
    closer.close(subset);
    const auto [it, added] = ids.try_emplace(std::move(subset), static_cast<uint32_t>(ids.size()));
    if (added) {
      subsets.push_back(&it->first);
      members += it->first.size();
    }
    return it->second;
  };
  id_of({start});
  for (size_t i = 0; i < subsets.size(); ++i) {
    if (subsets.size() > max_states || members > max_members) return std::nullopt;
    const Subset& subset = *subsets[i];
    Automaton::State state;
    std::vector<Automaton::Edge> edges;
    std::map<RuleId, Subset> calls;
    for (const uint32_t n : subset) {
      state.final |= n == final;
      edges.insert(edges.end(), nodes_[n].edges.begin(), nodes_[n].edges.end());
      for (const auto& c : nodes_[n].calls) calls[c.rule].push_back(c.to);
    }
    for_each_piece(edges, [&](uint8_t low, uint8_t high) {
      Subset to;
      for (const auto& e : edges) {
        if (low >= e.low && low <= e.high) to.push_back(e.to);
      }
      if (!to.empty()) append_edge(state.edges, low, high, id_of(std::move(to)));
    });
    for (auto& [rule, to] : calls) state.calls.push_back({rule, id_of(std::move(to))});
    out.states.push_back(std::move(state));
  }
  return out;
}

std::optional<Automaton> Nfa::without_epsilon(uint32_t start, uint32_t final,
                                              size_t max_edges) const {
  Closer closer(nodes_, final);
  Automaton out;
  std::unordered_map<uint32_t, uint32_t> ids;
  std::vector<uint32_t> order;
  const auto id_of = [&](uint32_t node) {
    const auto [it, added] = ids.try_emplace(node, static_cast<uint32_t>(order.size()));
    if (added) order.push_back(node);
    return it->second;
  };
  id_of(start);
  size_t edges = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    Subset subset{order[i]};
    closer.close(subset);
    Automaton::State state;
    for (const uint32_t n : subset) {
      state.final |= n == final;
      for (const auto& e : nodes_[n].edges) state.edges.push_back({e.low, e.high, id_of(e.to)});
      for (const auto& c : nodes_[n].calls) state.calls.push_back({c.rule, id_of(c.to)});
    }
    edges += state.edges.size() + state.calls.size();
    if (edges > max_edges) return std::nullopt;
    std::sort(state.edges.begin(), state.edges.end(), [](const auto& a, const auto& b) {
      return std::pair(a.low, a.to) < std::pair(b.low, b.to);
    });
    out.states.push_back(std::move(state));
  }
  return out;
}

}  // namespace strata::grammar
