// Measures of logits against values worked out by hand.
#include "apps/logit_stats.h"

#include <cmath>

#include <gtest/gtest.h>

namespace strata::apps {
namespace {

std::vector<float> logs(std::vector<double> probabilities, double shift = 0.0) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p) + shift));
  return out;
}

TEST(LogitStats, LikelihoodIsThatOfTheSoftmaxWhateverTheLevel) {
  for (const double shift : {0.0, 50.0, -900.0}) {
    const auto logits = logs({0.5, 0.25, 0.25}, shift);
    EXPECT_NEAR(negative_log_likelihood(logits, 0), std::log(2.0), 1e-4) << shift;
    EXPECT_NEAR(negative_log_likelihood(logits, 2), std::log(4.0), 1e-4) << shift;
  }
}

TEST(LogitStats, TheLowestOfEqualLogitsIsTheMostProbable) {
  EXPECT_EQ(most_probable(std::vector<float>{1, 3, 3, 2}), 1);
}

TEST(LogitStats, PerplexityIsTheExponentOfTheMean) {
  PerplexityMeter meter;
  meter.add(1.0);
  meter.add(2.0);
  meter.add(6.0);
  const auto result = meter.result();
  EXPECT_EQ(result.positions, 3);
  EXPECT_NEAR(result.mean_nll, 3.0, 1e-12);
  EXPECT_NEAR(result.perplexity, std::exp(3.0), 1e-9);
  // Sample variance (4 + 1 + 9) / 2 = 7; standard error sqrt(7 / 3).
  EXPECT_NEAR(result.nll_error, std::sqrt(7.0 / 3.0), 1e-12);
  EXPECT_NEAR(result.perplexity_error, std::exp(3.0) * std::sqrt(7.0 / 3.0), 1e-9);
}

TEST(LogitStats, DivergenceIsTakenFromTheSavedSide) {
  DivergenceMeter meter;
  meter.add(logs({0.5, 0.5}), logs({0.25, 0.75}));
  const auto result = meter.result();
  const double expected = 0.5 * std::log(0.5 / 0.25) + 0.5 * std::log(0.5 / 0.75);
  EXPECT_NEAR(result.mean_kl, expected, 1e-6);
  EXPECT_NEAR(result.max_kl, expected, 1e-6);
  EXPECT_EQ(result.top1_agreement, 0.0) << "equal saved logits: the lower id is the best";
}

TEST(LogitStats, DivergenceReportsTailAgreementAndDifferences) {
  DivergenceMeter meter;
  const std::vector<float> same = {3.0f, -4.0f};
  for (int i = 0; i < 199; ++i) meter.add(same, same);
  meter.add(same, std::vector<float>{-4.0f, 3.0f});
  const auto result = meter.result();
  EXPECT_EQ(result.positions, 200);
  EXPECT_NEAR(result.top1_agreement, 199.0 / 200.0, 1e-12);
  EXPECT_EQ(result.p99_kl, 0.0);
  EXPECT_GT(result.max_kl, 6.9);
  EXPECT_NEAR(result.mean_kl, result.max_kl / 200.0, 1e-12);
  const double rms = std::sqrt((9.0 + 16.0) / 2.0);
  EXPECT_NEAR(result.mean_difference, 7.0 / 200.0 / rms, 1e-9);
  EXPECT_NEAR(result.max_difference, 7.0 / rms, 1e-9);
}

}  // namespace
}  // namespace strata::apps
