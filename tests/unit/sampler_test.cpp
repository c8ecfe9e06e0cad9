#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/sampler_support.h"

namespace strata::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Distribution distribution_of(const SamplingParams& params, const Logits& logits) {
  Sampler sampler(resolved(params), static_cast<int>(logits.size()));
  auto result = sampler.distribution(logits, 0);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : Distribution{};
}

std::vector<TokenId> support(const SamplingParams& params, const Logits& logits) {
  std::vector<TokenId> tokens;
  for (const auto& t : distribution_of(params, logits)) tokens.push_back(t.token);
  return tokens;
}

TEST(Sampler, GreedyTakesTheLargestLogitAndTheLowestIdAmongEquals) {
  SamplingParams p;
  p.temperature = 0.0f;
  for (const size_t n : {size_t{1}, size_t{3}, size_t{64}, size_t{200}, size_t{1000}}) {
    for (size_t best = 0; best < n; best += 1 + n / 50) {
      Logits logits(n, -1.0f);
      logits[best] = 2.0f;
      logits[n - 1] = 2.0f;
      Sampler sampler(resolved(p), static_cast<int>(n));
      EXPECT_EQ(sampler.sample(logits, 0)->token, static_cast<TokenId>(best)) << n;
    }
  }
  Sampler sampler(resolved(p), 3);
  EXPECT_EQ(sampler.sample(Logits{-kInf, -0.0f, 0.0f}, 0)->token, 1) << "-0 equals 0";
}

TEST(Sampler, TemperatureDividesTheLogits) {
  SamplingParams p;
  p.temperature = 2.0f;
  const auto d = distribution_of(p, {0.0f, 2.0f * std::log(3.0f)});
  ASSERT_EQ(d.size(), 2u);
  EXPECT_EQ(d[0].token, 1);
  EXPECT_NEAR(d[0].probability, 0.75, 1e-7);
  p.temperature = 1e-45f;
  EXPECT_EQ(support(p, {1.0f, 1.0000001f, -3e38f}), (std::vector<TokenId>{1}));
  p.temperature = 3e38f;
  EXPECT_EQ(distribution_of(p, {3e38f, -3e38f, 0.0f}).size(), 3u);
}

TEST(Sampler, CutsEqualLogitsAtTheBorderByIdLowerFirst) {
  SamplingParams p;
  const Logits logits{1.0f, 2.0f, 1.0f, 1.0f, 1.0f};
  p.top_k = 3;
  EXPECT_EQ(support(p, logits), (std::vector<TokenId>{1, 0, 2}));
  p = {};
  p.top_p = 0.75f;
  EXPECT_EQ(support(p, {0.0f, 0.0f, 0.0f, 0.0f}), (std::vector<TokenId>{0, 1, 2}));
  p.top_p = 0.76f;
  EXPECT_EQ(support(p, {0.0f, 0.0f, 0.0f, 0.0f}).size(), 4u);
  p.top_p = 1e-30f;
  EXPECT_EQ(support(p, {0.0f, 0.0f, 0.0f, 0.0f}), (std::vector<TokenId>{0}));
}

TEST(Sampler, MinPComparesWithTheMostProbableToken) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const Logits logits{std::log(4.0f), std::log(2.0f), 0.0f, 0.0f};
  SamplingParams p;
  p.min_p = 0.26f;
  const auto d = distribution_of(p, logits);
  ASSERT_EQ(d.size(), 2u);
  EXPECT_NEAR(d[0].probability, 2.0 / 3.0, 1e-7);
  p.min_p = 0.24f;
  EXPECT_EQ(support(p, logits).size(), 4u);
  p.min_p = 0.99f;
  EXPECT_EQ(support(p, logits), (std::vector<TokenId>{0}));
}

TEST(Sampler, TypicalPKeepsTokensNearTheEntropyEvenWithoutTheMostProbable) {
  // p = 0.4, 0.15 x 4: entropy 1.505, distances |0.916 - 1.505| = 0.589 and |1.897 - 1.505| =
  // 0.392.
  const Logits logits{std::log(0.4f), std::log(0.15f), std::log(0.15f), std::log(0.15f),
                      std::log(0.15f)};
  SamplingParams p;
  p.typical_p = 0.5f;
  EXPECT_EQ(support(p, logits), (std::vector<TokenId>{1, 2, 3, 4}));
  p.typical_p = 0.29f;
  EXPECT_EQ(support(p, logits), (std::vector<TokenId>{1, 2}));
  p.typical_p = 0.7f;
  EXPECT_EQ(support(p, logits).size(), 5u);
}

TEST(Sampler, PenaltiesMatchHandComputedValues) {
  // Neutral softmax of two tokens shows their adjusted difference: ln(p0 / p1) = x0 - x1.
  const auto difference = [](const SamplingParams& p, const Logits& logits,
                             const std::vector<Event>& history) {
    Sampler sampler(resolved(p), 2);
    for (const Event& e : history) sampler.accept(e.token, e.origin);
    double probability[2] = {};
    const auto distribution = sampler.distribution(logits, 0);
    for (const auto& t : *distribution) probability[t.token] = t.probability;
    return std::log(probability[0] / probability[1]);
  };
  constexpr auto kPrompt = TokenOrigin::kPrompt;
  constexpr auto kOut = TokenOrigin::kGenerated;
  SamplingParams p;
  p.repetition_penalty = 2.0f;
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kPrompt}}), 1.5 - 1.0, 1e-6);
  EXPECT_NEAR(difference(p, {-3.0f, 1.0f}, {{0, kOut}, {0, kOut}}), -6.0 - 1.0, 1e-6);
  p = {};
  p.presence_penalty = 0.5f;
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kPrompt}}), 2.0, 1e-6) << "output only";
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kOut}, {0, kOut}}), 1.5, 1e-6);
  p.frequency_penalty = 0.25f;
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kPrompt}, {0, kOut}, {0, kOut}}), 1.0, 1e-6);
  p.repetition_penalty = 1.5f;
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kPrompt}, {0, kOut}, {1, kPrompt}}),
              (2.0 - 0.75) - 1.0 / 1.5, 1e-6);
  p.penalty_last_n = 2;
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kOut}, {0, kOut}, {0, kPrompt}}), 1.25 - 1.0, 1e-6)
      << "the first output token left the window";
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kOut}, {0, kOut}, {5, kOut}, {6, kOut}}), 2.0, 1e-6);
  p.penalty_last_n = 0;
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kOut}}), 2.0, 1e-6);
  p = {};
  p.logit_bias = {{0, -4.0f}};
  p.repetition_penalty = 2.0f;
  EXPECT_NEAR(difference(p, {3.0f, 1.0f}, {{0, kOut}}), -2.0 - 1.0, 1e-6)
      << "the penalty sees the biased logit";
}

TEST(Sampler, ExtremePenaltiesNeverGiveAFaultyDistribution) {
  SamplingParams p;
  p.repetition_penalty = 1e-38f;
  p.frequency_penalty = 2.0f;
  Sampler sampler(resolved(p), 3);
  for (const TokenId t : {0, 1, 2, -7, 3000}) sampler.accept(t, TokenOrigin::kGenerated);
  const auto d = sampler.distribution(Logits{1e30f, 2e30f, -1e30f}, 0);
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ((*d)[0].token, 0) << "both logits end at the largest float; the lower id goes first";
  EXPECT_NEAR((*d)[0].probability, 0.5, 1e-12);
}

TEST(Sampler, ADrawDependsOnSeedAndPositionOnly) {
  SamplingParams p;
  p.seed = 77;
  const Logits logits = normal_logits(500, 1.0f, 8);
  const Logits others = normal_logits(500, 1.0f, 9);
  std::vector<TokenId> forward;
  Sampler sampler(resolved(p), 500);
  for (int64_t i = 0; i < 200; ++i) forward.push_back(sampler.sample(logits, i)->token);
  EXPECT_GT(std::set<TokenId>(forward.begin(), forward.end()).size(), 50u);

  std::vector<TokenId> backward(200);
  std::thread thread([&] {
    Sampler another(resolved(p), 500);
    for (int64_t i = 199; i >= 0; --i) {
      for (int64_t skipped = 0; skipped < i % 3; ++skipped) (void)another.sample(others, skipped);
      backward[static_cast<size_t>(i)] = another.sample(logits, i)->token;
    }
  });
  thread.join();
  EXPECT_EQ(backward, forward);

  p.seed = 78;
  Sampler reseeded(resolved(p), 500);
  std::vector<TokenId> different;
  for (int64_t i = 0; i < 200; ++i) different.push_back(reseeded.sample(logits, i)->token);
  EXPECT_NE(different, forward);
}

TEST(Sampler, ACopyContinuesFromTheSameStateOnItsOwn) {
  SamplingParams p;
  p.seed = 4;
  p.frequency_penalty = 1.0f;
  p.repetition_penalty = 1.2f;
  p.penalty_last_n = 8;
  const Logits logits = normal_logits(50, 0.5f, 3);
  Sampler original(resolved(p), 50);
  std::vector<Event> history;
  const auto advance = [&](Sampler& sampler, int64_t from, int64_t to) {
    std::vector<TokenId> tokens;
    for (int64_t i = from; i < to; ++i) {
      tokens.push_back(sampler.sample(logits, i)->token);
      sampler.accept(tokens.back(), TokenOrigin::kGenerated);
    }
    return tokens;
  };
  advance(original, 0, 20);
  const Sampler snapshot = original;
  const auto first = advance(original, 20, 60);
  Sampler copy = snapshot;
  EXPECT_EQ(advance(copy, 20, 60), first);
  original = snapshot;
  EXPECT_EQ(advance(original, 20, 60), first) << "assignment restores the state";
}

TEST(Sampler, LogprobsAreOfTheRawLogitsWithoutPadding) {
  // Raw probabilities 0.5, 0.25, 0.125, 0.125; the padding row would dwarf them.
  const Logits logits{std::log(2.0f), std::log(4.0f), 0.0f, 0.0f, -kInf, 50.0f};
  SamplingParams p;
  p.top_logprobs = 5;
  p.temperature = 0.0f;
  p.logit_bias = {{1, -kInf}, {3, 10.0f}};
  Sampler sampler(resolved(p), 5);
  const auto result = sampler.sample(logits, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->token, 3);
  EXPECT_NEAR(*result->logprob, std::log(0.125), 1e-6);
  ASSERT_EQ(result->best().size(), 4u) << "a token of probability 0 is not listed";
  const TokenId order[] = {1, 0, 2, 3};
  const double probability[] = {0.5, 0.25, 0.125, 0.125};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result->best()[i].token, order[i]);
    EXPECT_NEAR(result->best()[i].logprob, std::log(probability[i]), 1e-6);
  }
  p.top_logprobs = 2;
  p.logit_bias = {};
  p.temperature = 1.0f;
  const auto two = Sampler(resolved(p), 5).sample(logits, 3);
  ASSERT_EQ(two->best().size(), 2u);
  EXPECT_EQ(two->best()[1].token, 0);
  p.top_logprobs = 0;
  const auto none = Sampler(resolved(p), 5).sample(logits, 3);
  EXPECT_TRUE(none->logprob.has_value());
  EXPECT_TRUE(none->best().empty());
  p.top_logprobs.reset();
  EXPECT_FALSE(Sampler(resolved(p), 5).sample(logits, 3)->logprob.has_value());
}

TEST(Sampler, NeverReadsOrChoosesPadding) {
  Logits logits = normal_logits(100, 1.0f, 6);
  for (size_t i = 70; i < 100; ++i) logits[i] = i % 2 == 0 ? kNan : 1000.0f;
  std::vector<SamplingParams> cases(4);
  cases[0].temperature = 0.0f;
  cases[1].top_k = 80;
  cases[2].top_p = 0.9f;
  cases[3].temperature = 3.0f;
  for (SamplingParams& p : cases) {
    p.logit_bias = {{90, 100.0f}};
    p.repetition_penalty = 0.5f;
    p.top_logprobs = 20;
    Sampler sampler(resolved(p), 70);
    sampler.accept(95, TokenOrigin::kPrompt);
    for (int64_t i = 0; i < 200; ++i) {
      const auto result = sampler.sample(logits, i);
      ASSERT_TRUE(result.ok()) << result.status().message();
      ASSERT_LT(result->token, 70);
      for (const RankedToken& t : result->best()) ASSERT_LT(t.token, 70);
    }
  }
}

TEST(Sampler, RefusesFaultyLogitsWhereverTheyStand) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float fault : {kNan, -kNan, kInf}) {
      for (size_t at = 0; at < 150; ++at) {
        SamplingParams p;
        p.temperature = temperature;
        p.top_k = 5;
        if (at % 2 == 0) p.logit_bias = {{static_cast<TokenId>(at), -kInf}};
        Logits logits = normal_logits(150, 1.0f, 1);
        logits[at] = fault;
        const Status status = Sampler(resolved(p), 150).sample(logits, 321).status();
        ASSERT_EQ(status.code(), StatusCode::kInternal) << at;
        ASSERT_NE(status.message().find("position 321"), std::string::npos);
        ASSERT_NE(status.message().find(fmt::format("token {} ", at)), std::string::npos);
      }
    }
  }
}

TEST(Sampler, ExplainsWhenNoTokenIsLeft) {
  SamplingParams p;
  Sampler all_impossible(resolved(p), 2);
  const Status device = all_impossible.sample(Logits{-kInf, -kInf}, 5).status();
  EXPECT_EQ(device.code(), StatusCode::kInternal);
  EXPECT_NE(device.message().find("position 5"), std::string::npos);
  p.logit_bias = {{0, -kInf}, {1, -kInf}};
  const Status banned = Sampler(resolved(p), 3).sample(Logits{1.0f, 2.0f, -kInf}, 5).status();
  EXPECT_EQ(banned.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(banned.field(), "logit_bias");
  const Status few = Sampler(resolved({}), 3).sample(Logits{1.0f, 2.0f}, 5).status();
  EXPECT_EQ(few.code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace strata::engine
