#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>
#include <string>

#include "engine/random.h"
#include "engine/sampler.h"
#include "engine/sampling_defaults.h"

namespace strata::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Random, PhiloxGivesThePublishedAnswers) {
  // Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10).
  using Counter = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  // 0x6627e8d5e169c58d without its last 11 bits, as a fraction of 2^53.
  EXPECT_EQ(uniform(0, 0), static_cast<double>(0x6627e8d5e169c58dull >> 11) / 9007199254740992.0);
}

TEST(Random, UniformFillsTheUnitIntervalEvenlyForNeighbouringSeedsAndPositions) {
  for (const bool over_seeds : {false, true}) {
    std::vector<int> bins(100);
    constexpr int kDraws = 100000;
    for (int i = 0; i < kDraws; ++i) {
      const double u = over_seeds ? uniform(static_cast<uint64_t>(i), 7) : uniform(7, i);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++bins[static_cast<size_t>(u * 100)];
    }
    double chi2 = 0.0;
    for (const int n : bins) chi2 += (n - 1000.0) * (n - 1000.0) / 1000.0;
    EXPECT_LT(chi2, 148.2) << "99.9 % quantile for 99 degrees of freedom";
    EXPECT_GT(chi2, 60.0) << "too even to be random";
  }
  EXPECT_NE(uniform(1, 0), uniform(uint64_t{1} << 32, 0));
  EXPECT_NE(uniform(0, 1), uniform(0, int64_t{1} << 32));
}

TEST(Resolve, TakesTheRequestThenTheDefaultsThenTheNeutralValue) {
  SamplingParams params;
  params.top_p = 0.5f;
  params.seed = 9;
  const auto result = resolve(params, model_defaults(), 100);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->top_p, 0.5f);
  EXPECT_EQ(result->temperature, 1.0f);
  EXPECT_EQ(result->top_k, 20);
  EXPECT_EQ(result->min_p, 0.0f);
  EXPECT_EQ(result->typical_p, 1.0f);
  EXPECT_EQ(result->repetition_penalty, 1.0f);
  EXPECT_EQ(result->penalty_last_n, -1);
  EXPECT_EQ(result->seed, 9u);
  EXPECT_FALSE(result->top_logprobs.has_value());
}

TEST(Resolve, KeepsAPresentZeroApartFromAnAbsentField) {
  SamplingParams defaults;
  defaults.temperature = 0.7f;
  defaults.top_k = 20;
  defaults.min_p = 0.1f;
  defaults.presence_penalty = 1.5f;
  defaults.penalty_last_n = 64;
  defaults.top_logprobs = 3;
  SamplingParams zeros;
  zeros.temperature = 0.0f;
  zeros.top_k = 0;
  zeros.min_p = 0.0f;
  zeros.presence_penalty = 0.0f;
  zeros.penalty_last_n = 0;
  zeros.top_logprobs = 0;
  zeros.seed = 0;
  const auto result = resolve(zeros, defaults, 100);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->temperature, 0.0f);
  EXPECT_EQ(result->top_k, 0);
  EXPECT_EQ(result->min_p, 0.0f);
  EXPECT_EQ(result->presence_penalty, 0.0f);
  EXPECT_EQ(result->penalty_last_n, 0);
  EXPECT_EQ(result->top_logprobs, 0);
  EXPECT_EQ(result->seed, 0u);
  const auto absent = resolve({}, defaults, 100);
  ASSERT_TRUE(absent.ok());
  EXPECT_EQ(absent->temperature, 0.7f);
  EXPECT_EQ(absent->top_k, 20);
  EXPECT_EQ(absent->min_p, 0.1f);
  EXPECT_EQ(absent->presence_penalty, 1.5f);
  EXPECT_EQ(absent->penalty_last_n, 64);
  EXPECT_EQ(absent->top_logprobs, 3);
}

TEST(Resolve, GivesEachRequestWithoutASeedAnotherOne) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 16; ++i) seeds.insert(resolve({}, {}, 10)->seed);
  EXPECT_EQ(seeds.size(), 16u);
}

TEST(Resolve, RefusesValuesOutOfRangeAndNamesTheField) {
  const auto refused = [](const char* field, const char* given, auto set) {
    SamplingParams params;
    set(params);
    const Status status = resolve(params, {}, 100).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field << " " << given;
    EXPECT_EQ(status.field(), field);
    EXPECT_NE(status.message().find(field), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(given), std::string::npos) << status.message();
    const Status in_defaults = resolve({}, params, 100).status();
    EXPECT_EQ(in_defaults.field(), field);
    EXPECT_NE(in_defaults.message().find("defaults"), std::string::npos) << in_defaults.message();
  };
  using P = SamplingParams;
  const std::pair<const char*, float> not_finite[] = {
      {"nan", kNan}, {"inf", kInf}, {"-inf", -kInf}};
  for (const auto& [name, value] : not_finite) {
    const float v = value;
    refused("temperature", name, [v](P& p) { p.temperature = v; });
    refused("top_p", name, [v](P& p) { p.top_p = v; });
    refused("min_p", name, [v](P& p) { p.min_p = v; });
    refused("typical_p", name, [v](P& p) { p.typical_p = v; });
    refused("repetition_penalty", name, [v](P& p) { p.repetition_penalty = v; });
    refused("presence_penalty", name, [v](P& p) { p.presence_penalty = v; });
    refused("frequency_penalty", name, [v](P& p) { p.frequency_penalty = v; });
    if (v != -kInf) refused("logit_bias", name, [v](P& p) { p.logit_bias = {{1, v}}; });
  }
  refused("temperature", "-0.5", [](P& p) { p.temperature = -0.5f; });
  refused("top_k", "-1", [](P& p) { p.top_k = -1; });
  refused("top_p", "1.5", [](P& p) { p.top_p = 1.5f; });
  refused("top_p", "is 0", [](P& p) { p.top_p = 0.0f; });
  refused("min_p", "is 1", [](P& p) { p.min_p = 1.0f; });
  refused("min_p", "-0.25", [](P& p) { p.min_p = -0.25f; });
  refused("typical_p", "is 0", [](P& p) { p.typical_p = 0.0f; });
  refused("typical_p", "1.25", [](P& p) { p.typical_p = 1.25f; });
  refused("repetition_penalty", "is 0", [](P& p) { p.repetition_penalty = 0.0f; });
  refused("presence_penalty", "2.5", [](P& p) { p.presence_penalty = 2.5f; });
  refused("frequency_penalty", "-3", [](P& p) { p.frequency_penalty = -3.0f; });
  refused("penalty_last_n", "-2", [](P& p) { p.penalty_last_n = -2; });
  refused("top_logprobs", "21", [](P& p) { p.top_logprobs = 21; });
  refused("top_logprobs", "-1", [](P& p) { p.top_logprobs = -1; });
  refused("logit_bias", "100", [](P& p) { p.logit_bias = {{100, 0.0f}}; });
  refused("logit_bias", "-1", [](P& p) { p.logit_bias = {{-1, 0.0f}}; });
  refused("logit_bias", "100.5", [](P& p) { p.logit_bias = {{3, 100.5f}}; });
}

TEST(Resolve, AcceptsTheEndsOfEachRange) {
  SamplingParams p;
  p.temperature = 1e30f;
  p.top_k = std::numeric_limits<int>::max();
  p.top_p = 1.0f;
  p.min_p = 0.0f;
  p.typical_p = 1.0f;
  p.repetition_penalty = 1e-30f;
  p.presence_penalty = -2.0f;
  p.frequency_penalty = 2.0f;
  p.penalty_last_n = -1;
  p.top_logprobs = kMaxTopLogprobs;
  p.logit_bias = {{0, -100.0f}, {99, 100.0f}, {5, -kInf}};
  EXPECT_TRUE(resolve(p, {}, 100).ok());
}

TEST(Resolve, AddsUpBiasesOfOneToken) {
  SamplingParams p;
  p.logit_bias = {{7, 1.5f}, {3, 1.0f}, {7, 2.0f}, {3, -kInf}};
  const auto bias = resolve(p, {}, 100)->logit_bias;
  ASSERT_EQ(bias.size(), 2u);
  EXPECT_EQ(bias[0], (std::pair<TokenId, float>{3, -kInf}));
  EXPECT_EQ(bias[1], (std::pair<TokenId, float>{7, 3.5f}));
}

}  // namespace
}  // namespace strata::engine
