// The sampler against a plain implementation that sorts everything, and its cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/random.h"
#include "engine/sampler.h"
#include "support/sampler_support.h"

namespace {
thread_local size_t allocations = 0;
}

// Not inlined, so that the compiler does not pair malloc with delete and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace strata::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kFullVocabulary = 248320;

// The steps of sampler.h word for word, each on a fully sorted list.
Distribution reference(const ResolvedSampling& s, const Logits& logits, int valid,
                       const std::vector<Event>& history) {
  struct Item {
    TokenId token;
    float logit;
    double p;
  };
  std::map<TokenId, int> seen, generated;
  size_t from = 0;
  if (s.penalty_last_n >= 0 && history.size() > static_cast<size_t>(s.penalty_last_n)) {
    from = history.size() - static_cast<size_t>(s.penalty_last_n);
  }
  for (size_t i = from; i < history.size(); ++i) {
    ++seen[history[i].token];
    if (history[i].origin == TokenOrigin::kGenerated) ++generated[history[i].token];
  }
  std::vector<Item> items;
  for (int id = 0; id < valid; ++id) {
    float x = logits[static_cast<size_t>(id)];
    for (const auto& [token, bias] : s.logit_bias) {
      if (token == id) x += bias;
    }
    if (seen.count(id) != 0) {
      double y = x > 0 ? x / double{s.repetition_penalty} : x * double{s.repetition_penalty};
      if (const int count = generated.count(id) != 0 ? generated[id] : 0; count > 0) {
        y -= double{s.frequency_penalty} * count + s.presence_penalty;
      }
      x = static_cast<float>(y);
    }
    if (x != -kInf) items.push_back({id, x, 0.0});
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.logit > b.logit; });
  if (s.temperature == 0.0f) return {{items[0].token, 1.0}};
  const auto normalize = [&] {
    double sum = 0.0;
    for (const Item& i : items) sum += i.p;
    for (Item& i : items) i.p /= sum;
  };
  const auto keep_mass = [&](double mass) {
    double sum = 0.0;
    size_t n = 0;
    while (n < items.size() && sum < mass) sum += items[n++].p;
    items.resize(std::max<size_t>(n, 1));
    normalize();
  };
  if (s.top_k > 0 && static_cast<size_t>(s.top_k) < items.size()) {
    items.resize(static_cast<size_t>(s.top_k));
  }
  const double max = items[0].logit;
  for (Item& i : items) i.p = std::exp((i.logit - max) / double{s.temperature});
  std::erase_if(items, [](const Item& i) { return i.p == 0.0; });
  normalize();
  if (s.typical_p < 1.0f) {
    double entropy = 0.0;
    for (const Item& i : items) entropy -= i.p * std::log(i.p);
    std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      return std::abs(-std::log(a.p) - entropy) < std::abs(-std::log(b.p) - entropy);
    });
    keep_mass(s.typical_p);
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
    });
  }
  if (s.top_p < 1.0f) keep_mass(s.top_p);
  if (s.min_p > 0.0f) {
    const double bound = s.min_p * items[0].p;
    std::erase_if(items, [&](const Item& i) { return i.p < bound; });
    normalize();
  }
  Distribution out;
  for (const Item& i : items) out.push_back({i.token, i.p});
  return out;
}

void expect_same(const Distribution& got, const Distribution& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].token, want[i].token) << where << ", rank " << i;
    ASSERT_NEAR(got[i].probability, want[i].probability, 1e-12) << where << ", rank " << i;
  }
}

// The token of the inverse CDF; both neighbours when u is within rounding of a border.
std::set<TokenId> drawn(const Distribution& distribution, double u) {
  std::set<TokenId> tokens;
  double sum = 0.0;
  for (const TokenProbability& t : distribution) {
    const double before = sum;
    sum += t.probability;
    if (u > before - 1e-12 && u < sum + 1e-12) tokens.insert(t.token);
  }
  return tokens;
}

void expect_logprobs(const SampleResult& result, const Logits& logits, int valid, int top) {
  double sum = 0.0;
  for (int i = 0; i < valid; ++i) sum += std::exp(double{logits[static_cast<size_t>(i)]});
  const auto logprob = [&](TokenId t) { return logits[static_cast<size_t>(t)] - std::log(sum); };
  std::vector<TokenId> order(static_cast<size_t>(valid));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logprob(a) > logprob(b); });
  ASSERT_NEAR(*result.logprob, logprob(result.token), 1e-5);
  ASSERT_EQ(result.best().size(), static_cast<size_t>(std::min(top, valid)));
  for (size_t i = 0; i < result.best().size(); ++i) {
    ASSERT_EQ(result.best()[i].token, order[i]);
    ASSERT_NEAR(result.best()[i].logprob, logprob(order[i]), 1e-5);
  }
}

TEST(Sampler, EachOptionAloneAndAllTogetherMatchTheFullSortReference) {
  std::mt19937 random(20240607);
  const auto real = [&](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  };
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int many_survivors = 0;
  for (int round = 0; round < 6000; ++round) {
    const int alone = round % 3 == 0 ? integer(0, 8) : -1;
    const auto use = [&](int option) { return alone < 0 ? integer(0, 2) > 0 : alone == option; };
    const int valid = integer(0, 3) == 0 ? integer(500, 1000) : integer(1, 200);
    SamplingParams p;
    p.seed = random();
    if (use(0)) p.temperature = real(0.05f, 3.0f);
    if (use(1)) p.top_k = integer(0, valid + 5);
    if (use(2)) p.top_p = real(0.01f, 1.0f);
    if (use(3)) p.min_p = real(0.0f, 0.5f);
    if (use(4)) p.typical_p = real(0.05f, 1.0f);
    if (use(5)) p.repetition_penalty = real(0.5f, 2.0f);
    if (use(6)) p.presence_penalty = real(-2.0f, 2.0f);
    if (use(7)) p.frequency_penalty = real(-2.0f, 2.0f);
    if (use(8)) {
      for (int i = integer(1, 8); i > 0; --i) {
        p.logit_bias.push_back({integer(1, 999), integer(0, 4) == 0 ? -kInf : real(-5.0f, 5.0f)});
      }
    }
    if (integer(0, 1) != 0) p.penalty_last_n = integer(-1, 40);
    p.top_logprobs = integer(0, kMaxTopLogprobs);
    const ResolvedSampling s = resolved(p);
    Logits logits = normal_logits(static_cast<size_t>(valid + integer(0, 30)), real(0.1f, 8.0f),
                                  static_cast<uint32_t>(random()));
    if (integer(0, 2) == 0) {
      for (float& x : logits) x = std::round(2.0f * x) / 2.0f;  // many equal logits
    }
    Sampler sampler(s, valid);
    std::vector<Event> history;
    for (int i = integer(0, 60); i > 0; --i) {
      history.push_back({integer(0, std::min(valid + 3, 30)),
                         integer(0, 1) != 0 ? TokenOrigin::kPrompt : TokenOrigin::kGenerated});
      sampler.accept(history.back().token, history.back().origin);
    }
    const Distribution want = reference(s, logits, valid, history);
    const auto got = sampler.distribution(logits, round);
    const std::string where = fmt::format("round {}, {} tokens", round, valid);
    ASSERT_TRUE(got.ok()) << where << ": " << got.status().message();
    ASSERT_NO_FATAL_FAILURE(expect_same(*got, want, where));
    many_survivors += want.size() > 100 ? 1 : 0;
    for (int64_t position = 0; position < 4; ++position) {
      const auto result = sampler.sample(logits, position);
      ASSERT_TRUE(drawn(want, uniform(s.seed, position)).count(result->token)) << where;
      ASSERT_NO_FATAL_FAILURE(expect_logprobs(*result, logits, valid, *p.top_logprobs)) << where;
    }
  }
  EXPECT_GT(many_survivors, 500) << "the long lists must be covered too";
}

TEST(Sampler, DrawsFollowTheExactProbabilities) {
  std::vector<SamplingParams> cases(5);
  cases[1].temperature = 0.6f;
  cases[1].top_k = 12;
  cases[2].top_p = 0.8f;
  cases[3].min_p = 0.1f;
  cases[4].typical_p = 0.6f;
  const Logits logits = normal_logits(40, 1.0f, 5);
  for (size_t c = 0; c < cases.size(); ++c) {
    cases[c].seed = 1000 + c;
    const ResolvedSampling s = resolved(cases[c]);
    const Distribution want = reference(s, logits, 40, {});
    Sampler sampler(s, 40);
    constexpr int kDraws = 200000;
    std::map<TokenId, int> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[sampler.sample(logits, i)->token];
    double chi2 = 0.0;
    int drawn_total = 0;
    for (const auto& t : want) {
      const double expected = t.probability * kDraws;
      chi2 += (counts[t.token] - expected) * (counts[t.token] - expected) / expected;
      drawn_total += counts[t.token];
    }
    EXPECT_EQ(drawn_total, kDraws) << "a token outside the support was drawn, case " << c;
    // Wilson and Hilferty's approximation of the 99.9 % quantile of chi-square.
    const double freedom = static_cast<double>(want.size()) - 1.0;
    const double root = 1.0 - 2.0 / (9.0 * freedom) + 3.0902 * std::sqrt(2.0 / (9.0 * freedom));
    EXPECT_LT(chi2, freedom * root * root * root) << "case " << c;
  }
}

TEST(Sampler, AllocatesNothingAfterTheFirstCall) {
  std::vector<SamplingParams> cases(6);
  cases[0].temperature = 0.0f;
  cases[1].top_k = 20;
  cases[1].top_p = 0.95f;
  cases[2].top_p = 0.95f;
  cases[3].typical_p = 0.5f;
  cases[4].min_p = 0.05f;
  cases[5].top_k = 3000;
  for (SamplingParams& p : cases) {
    p.top_logprobs = 20;
    p.presence_penalty = 0.5f;
    Sampler sampler(resolved(p), 5000);
    sampler.accept(3, TokenOrigin::kGenerated);
    ASSERT_TRUE(sampler.sample(Logits(5000, -1.0f), 0).ok());
    for (uint32_t i = 0; i < 20; ++i) {
      const Logits logits = normal_logits(5000, 0.1f * static_cast<float>(i), i);
      const size_t before = allocations;
      const bool ok = sampler.sample(logits, i).ok();
      ASSERT_EQ(allocations, before);
      ASSERT_TRUE(ok);
    }
  }
}

TEST(Sampler, MatchesTheReferenceAndIsFastAtTheFullVocabulary) {
  struct Case {
    const char* name;
    SamplingParams params;
    float spread;
    double limit_ms;  // several times what an idle machine needs: it guards the order of growth
  };
  std::vector<Case> cases;
  const auto add = [&](const char* name, float spread, double limit_ms, auto set) {
    cases.push_back({name, {}, spread, limit_ms});
    set(cases.back().params);
  };
  using P = SamplingParams;
  add("greedy", 2.5f, 1.5, [](P& p) { p.temperature = 0.0f; });
  add("top_k 20, top_p 0.95", 2.5f, 1.5, [](P& p) { p.top_k = 20, p.top_p = 0.95f; });
  add("top_k 20, top_p 0.95, penalties", 2.5f, 1.5,
      [](P& p) { p.top_k = 20, p.top_p = 0.95f, p.presence_penalty = 1.5f; });
  add("top_k 20, top_p 0.95, 20 logprobs", 2.5f, 25.0,
      [](P& p) { p.top_k = 20, p.top_p = 0.95f, p.top_logprobs = 20; });
  add("top_p 0.95", 2.5f, 25.0, [](P& p) { p.top_p = 0.95f; });
  add("top_p 0.95, flat", 0.3f, 25.0, [](P& p) { p.top_p = 0.95f; });
  add("top_p 0.95, peaked", 6.0f, 25.0, [](P& p) { p.top_p = 0.95f; });
  add("no cut, flat", 0.3f, 25.0, [](P&) {});
  add("min_p 0.05", 2.5f, 25.0, [](P& p) { p.min_p = 0.05f; });
  add("typical_p 0.9, flat", 0.3f, 60.0, [](P& p) { p.typical_p = 0.9f; });
  add("top_k 100000", 2.5f, 25.0, [](P& p) { p.top_k = 100000; });
  for (Case& c : cases) {
    c.params.seed = 11;
    const Logits logits = normal_logits(kFullVocabulary, c.spread, 12);
    const ResolvedSampling s = resolved(c.params, kFullVocabulary);
    Sampler sampler(s, kFullVocabulary - 76);
    std::vector<Event> history;
    for (TokenId t = 0; t < 500; ++t) history.push_back({t * 3, TokenOrigin::kGenerated});
    for (const Event& e : history) sampler.accept(e.token, e.origin);
    const Distribution want = reference(s, logits, kFullVocabulary - 76, history);
    ASSERT_NO_FATAL_FAILURE(expect_same(*sampler.distribution(logits, 0), want, c.name));
    double best_ms = 1e9;
    for (int64_t i = 0; i < 25; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto result = sampler.sample(logits, i);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      best_ms = std::min(best_ms, took.count());
      ASSERT_TRUE(drawn(want, uniform(s.seed, i)).count(result->token)) << c.name;
    }
    RecordProperty(c.name, fmt::format("{:.3f} ms", best_ms));
    fmt::print("{:<36} {:7.3f} ms, {} candidates\n", c.name, best_ms, want.size());
#ifdef STRATA_TIMED_TESTS
    EXPECT_LT(best_ms, c.limit_ms) << c.name;
#endif
  }
}

}  // namespace
}  // namespace strata::engine
