// What eval measures on logits. All sums are in double precision.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace strata::apps {

// -ln softmax(logits)[target], in nats.
double negative_log_likelihood(std::span<const float> logits, TokenId target);

// The index of the largest, the lowest among equals.
TokenId most_probable(std::span<const float> logits);

// Perplexity over positions.
class PerplexityMeter {
 public:
  void add(double nll);

  struct Result {
    int64_t positions = 0;
    double mean_nll = 0.0;   // nats per token
    double nll_error = 0.0;  // standard error of the mean
    double perplexity = 0.0;
    double perplexity_error = 0.0;  // to first order: perplexity * nll_error
  };
  Result result() const;

 private:
  int64_t count_ = 0;
  double mean_ = 0.0;
  double squares_ = 0.0;  // of the distances to the mean (Welford)
};

// How the logits of one run differ from saved ones.
class DivergenceMeter {
 public:
  // One position; both hold the rows that stand for tokens.
  void add(std::span<const float> saved, std::span<const float> logits);

  struct Result {
    int64_t positions = 0;
    double mean_kl = 0.0;  // KL(saved || this), nats per position
    double p99_kl = 0.0;   // 99 % of the positions are at or below
    double max_kl = 0.0;
    double top1_agreement = 0.0;   // share of the positions with the same most probable token
    double mean_difference = 0.0;  // mean |this - saved| over the RMS of the saved logits
    double max_difference = 0.0;   // max |this - saved| over the same
  };
  Result result() const;

 private:
  std::vector<double> kl_;  // of each position
  int64_t agreements_ = 0;
  int64_t values_ = 0;
  double differences_ = 0.0;
  double largest_difference_ = 0.0;
  double squares_ = 0.0;
};

}  // namespace strata::apps
