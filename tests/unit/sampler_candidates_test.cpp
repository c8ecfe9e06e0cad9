// Sampling from the best logits that a device sorted out: the tokens that all of them give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampler.h"
#include "support/sampler_support.h"

namespace strata::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kPadding = 7;

struct Best {
  Logits logits;
  std::vector<TokenId> tokens;
};

// By sorting all: NaN and +inf first, then falling, the lower id first.
Best best_of(const Logits& logits, int valid, int k) {
  const auto faulty = [&](TokenId id) { return !(logits[static_cast<size_t>(id)] < kInf); };
  std::vector<TokenId> order(static_cast<size_t>(valid));
  for (int id = 0; id < valid; ++id) order[static_cast<size_t>(id)] = id;
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    if (faulty(a) || faulty(b)) return faulty(a) && !faulty(b);
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(k));
  Best out;
  for (const TokenId id : order) out.logits.push_back(logits[static_cast<size_t>(id)]);
  out.tokens = order;
  return out;
}

// Both ways, at many positions with many seeds; what fails says the same.
void expect_same(SamplingParams params, const Logits& logits, int seeds = 40) {
  const int valid = static_cast<int>(logits.size()) - kPadding;
  const int k = Sampler(resolved(params), valid).candidates();
  ASSERT_GT(k, 0);
  const Best best = best_of(logits, valid, k);
  for (int seed = 0; seed < seeds; ++seed) {
    params.seed = static_cast<uint64_t>(seed) * 977;
    Sampler all(resolved(params), valid), few(resolved(params), valid);
    const auto want = all.sample(logits, seed);
    const auto got = few.sample_candidates(best.logits, best.tokens, seed);
    ASSERT_EQ(got.ok(), want.ok());
    if (want.ok()) {
      ASSERT_EQ(got->token, want->token) << "seed " << seed;
      EXPECT_FALSE(got->logprob);
    } else {
      ASSERT_EQ(got.status().message(), want.status().message());
      ASSERT_EQ(got.status().code(), want.status().code());
    }
  }
}

std::vector<SamplingParams> ways() {
  std::vector<SamplingParams> out;
  for (const int k : {1, 2, 20, 300, 1024}) {
    for (const float temperature : {0.0f, 0.2f, 1.0f, 3.0f}) {
      SamplingParams p;
      p.temperature = temperature;
      p.top_k = k;
      out.push_back(p);
      p.top_p = 0.9f;
      out.push_back(p);
      p.min_p = 0.05f;
      p.typical_p = 0.8f;
      out.push_back(p);
    }
  }
  return out;
}

TEST(SamplerCandidates, ChooseTheTokensThatAllLogitsGive) {
  const Logits spread = normal_logits(3000, 3.0f, 1), flat = normal_logits(3000, 0.01f, 2);
  for (const SamplingParams& params : ways()) {
    expect_same(params, spread);
    expect_same(params, flat);
  }
}

TEST(SamplerCandidates, EqualLogitsAreChosenAmongAlike) {
  Logits logits = normal_logits(2500, 2.0f, 3);
  for (float& x : logits) x = std::round(x);  // -0 among them
  for (const SamplingParams& params : ways()) {
    expect_same(params, logits);
    expect_same(params, Logits(1200, 0.5f), 10);
  }
}

TEST(SamplerCandidates, FewerPossibleTokensThanWanted) {
  Logits logits(1500, -kInf);
  logits[3] = 1.0f, logits[900] = 2.0f, logits[1400] = -80.0f, logits[7] = -2000.0f;
  logits[1499] = 50.0f;  // padding
  for (const SamplingParams& params : ways()) expect_same(params, logits);
}

TEST(SamplerCandidates, FaultsAreToldAlike) {
  Logits nan = normal_logits(1500, 2.0f, 4), inf = nan, both = nan, padding = nan;
  nan[1234] = -NAN;
  inf[8] = kInf;
  both[1000] = NAN, both[600] = kInf, both[601] = NAN;
  padding[1495] = NAN;
  for (const SamplingParams& params : ways()) {
    for (const Logits& logits : {nan, inf, both, padding, Logits(1500, -kInf)}) {
      expect_same(params, logits, 2);
    }
  }
}

TEST(SamplerCandidates, AreNotEnoughWhereAllLogitsMatter) {
  SamplingParams greedy;
  greedy.temperature = 0.0f;
  SamplingParams usual;
  usual.top_k = 20;
  const auto count = [](const SamplingParams& p, int valid = 5000) {
    return Sampler(resolved(p), valid).candidates();
  };
  EXPECT_EQ(count(greedy), 1);
  EXPECT_EQ(count(usual), 20);
  EXPECT_EQ(count(usual, 20), 0);
  EXPECT_EQ(count({}), 0);
  for (const auto& change : std::vector<void (*)(SamplingParams&)>{
           [](SamplingParams& p) { p.logit_bias = {{3, 1.0f}}; },
           [](SamplingParams& p) { p.top_logprobs = 0; },
           [](SamplingParams& p) { p.repetition_penalty = 1.1f; },
           [](SamplingParams& p) { p.presence_penalty = 0.5f; },
           [](SamplingParams& p) { p.frequency_penalty = -0.5f; }}) {
    for (SamplingParams p : {greedy, usual}) {
      change(p);
      EXPECT_EQ(count(p), 0);
    }
  }
  usual.repetition_penalty = 1.1f;
  usual.penalty_last_n = 0;
  EXPECT_EQ(count(usual), 20);
  usual.top_k = kMostCandidates + 1;
  EXPECT_EQ(count(usual), 0);
}

TEST(SamplerCandidates, OtherNumbersThanWantedAreRefused) {
  SamplingParams params;
  params.top_k = 2;
  Sampler sampler(resolved(params), 100);
  const std::vector<TokenId> tokens = {1, 2};
  EXPECT_FALSE(sampler.sample_candidates(Logits{1.0f}, tokens, 0).ok());
  EXPECT_FALSE(sampler.sample_candidates(Logits{1.0f, 0.5f, 0.0f}, tokens, 0).ok());
}

}  // namespace
}  // namespace strata::engine
