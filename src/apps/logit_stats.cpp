#include "apps/logit_stats.h"

#include <algorithm>
#include <cmath>

namespace strata::apps {

namespace {

// ln of the sum of exp(x).
double log_sum_exp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(x - max);
  return max + std::log(sum);
}

}  // namespace

double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  return log_sum_exp(logits) - logits[static_cast<size_t>(target)];
}

TokenId most_probable(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void PerplexityMeter::add(double nll) {
  ++count_;
  const double distance = nll - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (nll - mean_);
}

PerplexityMeter::Result PerplexityMeter::result() const {
  Result out;
  out.positions = count_;
  out.mean_nll = mean_;
  if (count_ > 1) {
    const auto n = static_cast<double>(count_);
    out.nll_error = std::sqrt(squares_ / (n - 1.0) / n);
  }
  out.perplexity = std::exp(mean_);
  out.perplexity_error = out.perplexity * out.nll_error;
  return out;
}

void DivergenceMeter::add(std::span<const float> saved, std::span<const float> logits) {
  const double saved_norm = log_sum_exp(saved);
  const double norm = log_sum_exp(logits);
  double kl = 0.0;
  for (size_t i = 0; i < saved.size(); ++i) {
    const double log_p = saved[i] - saved_norm;
    kl += std::exp(log_p) * (log_p - (logits[i] - norm));
    const double difference = std::fabs(static_cast<double>(logits[i]) - saved[i]);
    differences_ += difference;
    largest_difference_ = std::max(largest_difference_, difference);
    squares_ += static_cast<double>(saved[i]) * saved[i];
  }
  values_ += static_cast<int64_t>(saved.size());
  // Rounding can leave a divergence of nothing slightly below zero.
  kl_.push_back(std::max(kl, 0.0));
  agreements_ += most_probable(saved) == most_probable(logits) ? 1 : 0;
}

DivergenceMeter::Result DivergenceMeter::result() const {
  Result out;
  out.positions = static_cast<int64_t>(kl_.size());
  if (kl_.empty()) return out;
  const auto n = static_cast<double>(kl_.size());
  std::vector<double> sorted = kl_;
  std::sort(sorted.begin(), sorted.end());
  for (const double kl : sorted) out.mean_kl += kl / n;
  out.p99_kl = sorted[static_cast<size_t>(std::ceil(0.99 * n)) - 1];
  out.max_kl = sorted.back();
  out.top1_agreement = static_cast<double>(agreements_) / n;
  const double rms = std::sqrt(squares_ / static_cast<double>(values_));
  if (rms > 0.0) {
    out.mean_difference = differences_ / static_cast<double>(values_) / rms;
    out.max_difference = largest_difference_ / rms;
  }
  return out;
}

}  // namespace strata::apps
