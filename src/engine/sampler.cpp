#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <random>
#include <string_view>

#include "engine/random.h"
#include "engine/sampling_defaults.h"

namespace strata::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kBlock = 64;  // rows per entry of block_max
constexpr size_t kLanes = 16;  // independent maxima, so that the compiler can use vectors

template <class T>
Status check(const char* field, const std::optional<T>& value, bool (*allowed)(T),
             std::string_view range) {
  if (!value || allowed(*value)) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("{} must be {}, but is {}.", field, range, *value), field};
}

bool finite(float v) { return std::isfinite(v); }
bool in_openai_range(float v) { return v >= -2.0f && v <= 2.0f; }
bool positive_share(float v) { return v > 0.0f && v <= 1.0f; }

Status validate(const SamplingParams& p, int vocabulary) {
  STRATA_RETURN_IF_ERROR(check<float>(
      "temperature", p.temperature, [](float v) { return finite(v) && v >= 0.0f; },
      "a finite number of at least 0 (0 chooses the most probable token)"));
  STRATA_RETURN_IF_ERROR(check<int>(
      "top_k", p.top_k, [](int v) { return v >= 0; }, "an integer of at least 0 (0 is off)"));
  STRATA_RETURN_IF_ERROR(
      check<float>("top_p", p.top_p, positive_share, "above 0 and at most 1 (1 is off)"));
  STRATA_RETURN_IF_ERROR(check<float>(
      "min_p", p.min_p, [](float v) { return v >= 0.0f && v < 1.0f; },
      "at least 0 and below 1 (0 is off)"));
  STRATA_RETURN_IF_ERROR(
      check<float>("typical_p", p.typical_p, positive_share, "above 0 and at most 1 (1 is off)"));
  STRATA_RETURN_IF_ERROR(check<float>(
      "repetition_penalty", p.repetition_penalty, [](float v) { return finite(v) && v > 0.0f; },
      "a finite number above 0 (1 is off)"));
  STRATA_RETURN_IF_ERROR(check<float>("presence_penalty", p.presence_penalty, in_openai_range,
                                      "between -2 and 2 (0 is off)"));
  STRATA_RETURN_IF_ERROR(check<float>("frequency_penalty", p.frequency_penalty, in_openai_range,
                                      "between -2 and 2 (0 is off)"));
  STRATA_RETURN_IF_ERROR(check<int>(
      "penalty_last_n", p.penalty_last_n, [](int v) { return v >= -1; },
      "an integer of at least -1 (-1 looks back on everything, 0 is off)"));
  STRATA_RETURN_IF_ERROR(check<int>(
      "top_logprobs", p.top_logprobs, [](int v) { return v >= 0 && v <= kMaxTopLogprobs; },
      fmt::format("an integer between 0 and {}", kMaxTopLogprobs)));
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      return {StatusCode::kInvalidArgument,
              fmt::format("logit_bias names token {}, but token ids go from 0 to {}.", token,
                          vocabulary - 1),
              "logit_bias"};
    }
    if (!(std::abs(bias) <= kMaxLogitBias) && bias != -kInfinity) {
      return {StatusCode::kInvalidArgument,
              fmt::format("logit_bias of token {} must be between {} and {}, or -infinity to ban "
                          "the token, but is {}.",
                          token, -kMaxLogitBias, kMaxLogitBias, bias),
              "logit_bias"};
    }
  }
  return {};
}

Result<uint64_t> random_seed() {
  try {
    std::random_device device;
    const uint64_t high = device();
    return (high << 32) | static_cast<uint32_t>(device());
  } catch (const std::exception& error) {
    return unavailable("The system gave no random seed ({}); pass a seed with the request.",
                       error.what());
  }
}

// By growing id, each id once with the sum of its biases.
std::vector<std::pair<TokenId, float>> merged(std::vector<std::pair<TokenId, float>> biases) {
  std::stable_sort(biases.begin(), biases.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t kept = 0;
  for (size_t i = 0; i < biases.size(); ++i) {
    if (kept > 0 && biases[kept - 1].first == biases[i].first) {
      biases[kept - 1].second += biases[i].second;
    } else {
      biases[kept++] = biases[i];
    }
  }
  biases.resize(kept);
  return biases;
}

// A finite logit stays finite whatever the options, so that only a ban gives -inf and only a fault
// gives NaN or +inf.
float clamped(double logit) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kLargest, kLargest));
}

// A faulty logit stays one, so that the mask hides no fault of the model.
void apply_mask(std::span<const float> logits, std::span<const uint64_t> mask,
                std::span<float> out) {
  constexpr size_t kWord = 64;
  const auto excluded = [](float logit) { return logit < kInfinity ? -kInfinity : logit; };
  for (size_t begin = 0; begin < logits.size(); begin += kWord) {
    const uint64_t word = begin / kWord < mask.size() ? mask[begin / kWord] : 0;
    const size_t count = std::min(kWord, logits.size() - begin);
    const float* from = logits.data() + begin;
    float* to = out.data() + begin;
    if (word == ~uint64_t{0}) {
      std::copy_n(from, count, to);
      continue;
    }
    for (size_t i = 0; i < count; ++i) to[i] = excluded(from[i]);
    for (uint64_t rest = word; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(rest));
      if (i < count) to[i] = from[i];
    }
  }
}

Status not_finite(int64_t position, int64_t token, float logit) {
  return internal_error(
      "The logits of position {} are not finite (token {} has {}); the model file or the device "
      "may be faulty, check both and start again.",
      position, token, logit);
}

Status all_impossible(int64_t position) {
  return internal_error(
      "The logits of position {} are all -inf; the model file or the device may be faulty, check "
      "both and start again.",
      position);
}

template <class Candidate>
bool more_probable(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Moves the shortest prefix, by growing `key`, then by more_probable, whose weights add up to
// `target` or more to the front and returns its length; the last of the order stands at its end.
// Narrows the range down by sums over key intervals, which is linear where a sort of a whole
// vocabulary would not be. Ends because the smallest and the largest key never share an interval.
template <class Candidate, class Key>
size_t shortest_prefix(std::vector<Candidate>& candidates, double target, Key key) {
  constexpr std::ptrdiff_t kSmall = 256;
  constexpr int kIntervals = 1024;
  auto low = candidates.begin();
  auto high = candidates.end();  // the answer ends in (low, high]
  double mass = 0.0;             // of what stands before low
  while (high - low > kSmall) {
    double first = key(*low);
    double last = first;
    for (auto c = low; c != high; ++c) {
      first = std::min(first, key(*c));
      last = std::max(last, key(*c));
    }
    const double scale = (kIntervals - 1) / (last - first);
    if (!std::isfinite(scale)) break;
    const auto interval_of = [&](double k) { return static_cast<int>((k - first) * scale); };
    const auto interval = [&](const Candidate& c) { return interval_of(key(c)); };
    std::array<double, kIntervals> sums{};
    for (auto c = low; c != high; ++c) sums[static_cast<size_t>(interval(*c))] += c->weight;
    int hit = 0;
    for (; hit < interval_of(last) && mass + sums[static_cast<size_t>(hit)] < target; ++hit) {
      mass += sums[static_cast<size_t>(hit)];
    }
    low = std::partition(low, high, [&](const Candidate& c) { return interval(c) < hit; });
    high = std::partition(low, high, [&](const Candidate& c) { return interval(c) == hit; });
  }
  std::sort(low, high, [&](const Candidate& a, const Candidate& b) {
    const double key_a = key(a);
    const double key_b = key(b);
    return key_a < key_b || (key_a == key_b && more_probable(a, b));
  });
  auto end = low;
  while (end != high && mass < target) mass += (end++)->weight;
  return std::max<size_t>(static_cast<size_t>(end - candidates.begin()), 1);
}

// A type, not a function, so that it is inlined into the loops over the vocabulary.
struct FallingLogit {
  template <class Candidate>
  double operator()(const Candidate& c) const {
    return -double{c.logit};
  }
};

template <class Candidate>
double mass_of(const std::vector<Candidate>& candidates) {
  double total = 0.0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

// Drops candidates that are certainly outside the most probable `target` of `total`: together they
// weigh less than the rest of the mass. The margin covers the rounding of the sums.
template <class Candidate>
void drop_hopeless(std::vector<Candidate>& candidates, double total, double target) {
  constexpr double kMargin = 1e-9;
  const double floor = (total - target - kMargin * total) / static_cast<double>(candidates.size());
  if (floor > 0.0) {
    std::erase_if(candidates, [floor](const Candidate& c) { return c.weight < floor; });
  }
}

}  // namespace

Result<ResolvedSampling> resolve(const SamplingParams& params, const SamplingParams& defaults,
                                 int vocabulary) {
  STRATA_RETURN_IF_ERROR(validate(params, vocabulary));
  if (Status status = validate(defaults, vocabulary); !status.ok()) {
    return status.with_context("In the sampling defaults of the model or the server");
  }
  SamplingParams all = with_defaults(params, defaults);
  if (!all.seed) {
    STRATA_ASSIGN_OR_RETURN(all.seed, random_seed());
  }
  const ResolvedSampling neutral;
  ResolvedSampling resolved;
  resolved.temperature = all.temperature.value_or(neutral.temperature);
  resolved.top_k = all.top_k.value_or(neutral.top_k);
  resolved.top_p = all.top_p.value_or(neutral.top_p);
  resolved.min_p = all.min_p.value_or(neutral.min_p);
  resolved.typical_p = all.typical_p.value_or(neutral.typical_p);
  resolved.repetition_penalty = all.repetition_penalty.value_or(neutral.repetition_penalty);
  resolved.presence_penalty = all.presence_penalty.value_or(neutral.presence_penalty);
  resolved.frequency_penalty = all.frequency_penalty.value_or(neutral.frequency_penalty);
  resolved.penalty_last_n = all.penalty_last_n.value_or(neutral.penalty_last_n);
  resolved.seed = *all.seed;
  resolved.logit_bias = merged(std::move(all.logit_bias));
  resolved.top_logprobs = all.top_logprobs;
  return resolved;
}

Sampler::Sampler(ResolvedSampling sampling, int vocabulary_valid)
    : sampling_(std::move(sampling)), valid_(vocabulary_valid) {}

bool Sampler::counts(TokenOrigin origin) const {
  if (sampling_.repetition_penalty != 1.0f) return true;
  return origin == TokenOrigin::kGenerated &&
         (sampling_.presence_penalty != 0.0f || sampling_.frequency_penalty != 0.0f);
}

void Sampler::forget(const Accepted& accepted) {
  if (!counts(accepted.origin)) return;
  const auto found = counts_.find(accepted.token);
  found->second.generated -= accepted.origin == TokenOrigin::kGenerated ? 1 : 0;
  if (--found->second.seen == 0) counts_.erase(found);
}

void Sampler::accept(TokenId token, TokenOrigin origin) {
  const int last_n = sampling_.penalty_last_n;
  if (last_n == 0 || !counts(TokenOrigin::kGenerated)) return;
  if (last_n > 0) {
    const Accepted accepted{token, origin};
    if (window_.size() < static_cast<size_t>(last_n)) {
      window_.push_back(accepted);
    } else {
      forget(window_[oldest_]);
      window_[oldest_] = accepted;
      oldest_ = (oldest_ + 1) % window_.size();
    }
  }
  if (!counts(origin)) return;
  Counts& count = counts_[token];
  ++count.seen;
  count.generated += origin == TokenOrigin::kGenerated ? 1 : 0;
}

// The mask and steps 2 to 4 of the header; the logits themselves when there is nothing to change.
std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       std::span<const uint64_t> mask) {
  if (sampling_.logit_bias.empty() && counts_.empty() && mask.empty()) return logits;
  std::vector<float>& adjusted = scratch_.adjusted;
  if (mask.empty()) {
    adjusted.assign(logits.begin(), logits.end());
  } else {
    adjusted.resize(logits.size());
    apply_mask(logits, mask, adjusted);
  }
  for (const auto& [token, bias] : sampling_.logit_bias) {
    if (token >= valid_) continue;
    float& logit = adjusted[static_cast<size_t>(token)];
    if (std::isfinite(logit)) logit = bias == -kInfinity ? bias : clamped(double{logit} + bias);
  }
  const double repetition = sampling_.repetition_penalty;
  for (const auto& [token, count] : counts_) {
    if (token < 0 || token >= valid_) continue;
    float& logit = adjusted[static_cast<size_t>(token)];
    if (!std::isfinite(logit)) continue;
    double x = logit > 0.0f ? logit / repetition : logit * repetition;
    if (count.generated > 0) {
      x -= double{sampling_.frequency_penalty} * count.generated + sampling_.presence_penalty;
    }
    logit = clamped(x);
  }
  return adjusted;
}

// Fills block_max and returns the largest logit; NaN when any logit is NaN or +inf.
float Sampler::scan(std::span<const float> logits) {
  const size_t blocks = (logits.size() + kBlock - 1) / kBlock;
  scratch_.block_max.resize(blocks);
  float max = -kInfinity;
  int32_t faults[kLanes] = {};
  for (size_t b = 0; b < blocks; ++b) {
    const float* row = logits.data() + b * kBlock;
    const size_t length = std::min(kBlock, logits.size() - b * kBlock);
    float largest[kLanes];
    std::fill(std::begin(largest), std::end(largest), -kInfinity);
    size_t i = 0;
    for (; i + kLanes <= length; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float x = row[i + lane];
        largest[lane] = x > largest[lane] ? x : largest[lane];
        faults[lane] |= x < kInfinity ? 0 : 1;
      }
    }
    for (; i < length; ++i) {
      largest[0] = std::max(largest[0], row[i]);
      faults[0] |= row[i] < kInfinity ? 0 : 1;
    }
    const float block = *std::max_element(std::begin(largest), std::end(largest));
    scratch_.block_max[b] = block;
    max = std::max(max, block);
  }
  const bool faulty =
      std::any_of(std::begin(faults), std::end(faults), [](int32_t f) { return f != 0; });
  return faulty ? std::numeric_limits<float>::quiet_NaN() : max;
}

TokenId Sampler::first_largest(std::span<const float> logits, float max) const {
  const auto& block_max = scratch_.block_max;
  const auto block = std::find(block_max.begin(), block_max.end(), max) - block_max.begin();
  const auto from = logits.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
  return static_cast<TokenId>(std::find(from, logits.end(), max) - logits.begin());
}

// Makes `logits` the adjusted logits without padding and returns their maximum, which is finite.
Result<float> Sampler::prepare(std::span<const float>& logits, int64_t position,
                               std::span<const uint64_t> mask) {
  if (logits.size() < static_cast<size_t>(valid_)) {
    return internal_error(
        "The head gave {} logits for position {}, but the vocabulary has {} tokens; check that the "
        "model file is complete.",
        logits.size(), position, valid_);
  }
  const std::span<const float> raw = logits.first(static_cast<size_t>(valid_));
  logits = adjust(raw, mask);
  const float max = scan(logits);
  if (std::isnan(max)) {
    const auto fault =
        std::find_if(logits.begin(), logits.end(), [](float x) { return !(x < kInfinity); });
    return not_finite(position, fault - logits.begin(), *fault);
  }
  if (max == -kInfinity) {
    const auto possible = [&](size_t i) {
      return raw[i] > -kInfinity && ((mask[i / 64] >> (i % 64)) & 1) != 0;
    };
    size_t first = 0;
    while (!mask.empty() && first < raw.size() && !possible(first)) ++first;
    if (first == raw.size()) {
      return failed_precondition(
          "The constraint of the answer admits no token that the model holds for possible at "
          "position {}; relax the constraint.",
          position);
    }
    if (std::any_of(raw.begin(), raw.end(), [](float x) { return x > -kInfinity; })) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("logit_bias bans every token that is possible at position {}; "
                                "leave one or more of them allowed.",
                                position),
                    "logit_bias");
    }
    return all_impossible(position);
  }
  return max;
}

// Makes the `count` largest logits the candidates, in no order. Uses block_max: the count-th
// largest block maximum is a lower bound of the count-th largest logit, so few blocks need a look.
void Sampler::select_largest(std::span<const float> logits, int count) {
  auto& candidates = scratch_.candidates;
  const auto& block_max = scratch_.block_max;
  const auto wanted = static_cast<size_t>(count);
  candidates.clear();
  candidates.reserve(logits.size());
  float bound = -kInfinity;
  if (wanted <= block_max.size()) {
    auto& order = scratch_.block_order;
    order = block_max;
    const auto nth = order.begin() + (count - 1);
    std::nth_element(order.begin(), nth, order.end(), std::greater<>());
    bound = *nth;
  }
  for (size_t b = 0; b < block_max.size(); ++b) {
    if (block_max[b] < bound) continue;
    const size_t end = std::min(logits.size(), (b + 1) * kBlock);
    for (size_t i = b * kBlock; i < end; ++i) {
      if (logits[i] >= bound && logits[i] > -kInfinity) {
        candidates.push_back({logits[i], static_cast<TokenId>(i), 0.0});
      }
    }
  }
  if (candidates.size() > wanted) {
    std::nth_element(candidates.begin(), candidates.begin() + (count - 1), candidates.end(),
                     more_probable<Candidate>);
    candidates.resize(wanted);
  }
}

// Steps 6 and 7: the candidates with their weights, and the sum of those. Weights that are 0 in
// double go: their tokens cannot be drawn.
double Sampler::weigh(std::span<const float> logits, float max) {
  auto& candidates = scratch_.candidates;
  const double temperature = sampling_.temperature;
  double total = 0.0;
  if (sampling_.top_k > 0 && sampling_.top_k < valid_) {
    select_largest(logits, sampling_.top_k);
    // The order in which sample_candidates() gets them: sums round by it.
    if (sampling_.top_k <= kMostCandidates) {
      std::sort(candidates.begin(), candidates.end(), more_probable<Candidate>);
    }
    return weigh_candidates(max);
  }
  candidates.clear();
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp((double{logits[i]} - max) / temperature);
    if (!(weight > 0.0)) continue;
    candidates.push_back({logits[i], static_cast<TokenId>(i), weight});
    total += weight;
  }
  return total;
}

// Step 6 for the candidates of step 7.
double Sampler::weigh_candidates(float max) {
  auto& candidates = scratch_.candidates;
  for (Candidate& c : candidates) {
    c.weight = std::exp((double{c.logit} - max) / double{sampling_.temperature});
  }
  std::erase_if(candidates, [](const Candidate& c) { return !(c.weight > 0.0); });
  return mass_of(candidates);
}

// Steps 8 to 10; returns the mass that is left.
double Sampler::cut(float max, double total) {
  auto& candidates = scratch_.candidates;
  if (sampling_.typical_p < 1.0f) {
    const double log_total = std::log(total);
    const auto log_probability = [&](const Candidate& c) {
      return (double{c.logit} - max) / sampling_.temperature - log_total;
    };
    double entropy = 0.0;
    for (const Candidate& c : candidates) entropy -= c.weight / total * log_probability(c);
    const auto distance = [&](const Candidate& c) {
      return std::abs(log_probability(c) + entropy);
    };
    candidates.resize(shortest_prefix(candidates, double{sampling_.typical_p} * total, distance));
    total = mass_of(candidates);
  }
  if (sampling_.top_p < 1.0f) {
    const double target = double{sampling_.top_p} * total;
    drop_hopeless(candidates, total, target);
    candidates.resize(shortest_prefix(candidates, target, FallingLogit()));
    total = mass_of(candidates);
  }
  if (sampling_.min_p > 0.0f) {
    double largest = 0.0;
    for (const Candidate& c : candidates) largest = std::max(largest, c.weight);
    const double bound = sampling_.min_p * largest;
    std::erase_if(candidates, [bound](const Candidate& c) { return c.weight < bound; });
    total = mass_of(candidates);
  }
  return total;
}

TokenId Sampler::draw(double total, double u) {
  auto& candidates = scratch_.candidates;
  drop_hopeless(candidates, total, u * total);
  return candidates[shortest_prefix(candidates, u * total, FallingLogit()) - 1].token;
}

// The log-probabilities of the result, from raw logits whose block_max is filled.
void Sampler::rank(std::span<const float> logits, SampleResult& result) {
  const double max = *std::max_element(scratch_.block_max.begin(), scratch_.block_max.end());
  double total = 0.0;
  for (const float x : logits) total += std::exp(x - max);
  const double log_total = max + std::log(total);
  const auto logprob = [&](float x) { return static_cast<float>(x - log_total); };
  result.logprob = logprob(logits[static_cast<size_t>(result.token)]);
  if (*sampling_.top_logprobs == 0) return;
  select_largest(logits, *sampling_.top_logprobs);
  auto& candidates = scratch_.candidates;
  std::sort(candidates.begin(), candidates.end(), more_probable<Candidate>);
  for (const Candidate& c : candidates) {
    result.best_tokens[static_cast<size_t>(result.best_count++)] = {c.token, logprob(c.logit)};
  }
}

Result<SampleResult> Sampler::sample(std::span<const float> logits, int64_t position,
                                     std::span<const uint64_t> mask) {
  std::span<const float> adjusted = logits;
  STRATA_ASSIGN_OR_RETURN(const float max, prepare(adjusted, position, mask));
  SampleResult result;
  if (sampling_.temperature == 0.0f) {
    result.token = first_largest(adjusted, max);
  } else {
    const double total = cut(max, weigh(adjusted, max));
    result.token = draw(total, uniform(sampling_.seed, position));
  }
  if (sampling_.top_logprobs) {
    const std::span<const float> raw = logits.first(static_cast<size_t>(valid_));
    if (adjusted.data() != raw.data()) scan(raw);
    rank(raw, result);
  }
  return result;
}

int Sampler::candidates() const {
  const bool penalties =
      sampling_.penalty_last_n != 0 && counts(TokenOrigin::kGenerated);
  if (!sampling_.logit_bias.empty() || penalties || sampling_.top_logprobs) return 0;
  const int wanted = sampling_.temperature == 0.0f ? 1 : sampling_.top_k;
  return wanted <= kMostCandidates && wanted < valid_ ? wanted : 0;
}

Result<SampleResult> Sampler::sample_candidates(std::span<const float> logits,
                                                std::span<const TokenId> tokens,
                                                int64_t position) {
  const auto wanted = static_cast<size_t>(candidates());
  if (wanted == 0 || logits.size() != wanted || tokens.size() != wanted) {
    return internal_error("The head gave {} of the best logits and {} tokens for position {}, where "
                          "{} were wanted.",
                          logits.size(), tokens.size(), position, wanted);
  }
  const float max = logits[0];
  if (!(max < kInfinity)) return not_finite(position, tokens[0], max);
  if (max == -kInfinity) return all_impossible(position);
  SampleResult result;
  result.token = tokens[0];
  if (sampling_.temperature == 0.0f) return result;
  auto& chosen = scratch_.candidates;
  chosen.clear();
  chosen.reserve(wanted);
  for (size_t i = 0; i < wanted && logits[i] > -kInfinity; ++i) {
    chosen.push_back({logits[i], tokens[i], 0.0});
  }
  result.token = draw(cut(max, weigh_candidates(max)), uniform(sampling_.seed, position));
  return result;
}

Result<std::vector<TokenProbability>> Sampler::distribution(std::span<const float> logits,
                                                            int64_t position,
                                                            std::span<const uint64_t> mask) {
  STRATA_ASSIGN_OR_RETURN(const float max, prepare(logits, position, mask));
  std::vector<TokenProbability> probabilities;
  if (sampling_.temperature == 0.0f) {
    probabilities.push_back({first_largest(logits, max), 1.0});
    return probabilities;
  }
  const double total = cut(max, weigh(logits, max));
  auto& candidates = scratch_.candidates;
  std::sort(candidates.begin(), candidates.end(), more_probable<Candidate>);
  probabilities.reserve(candidates.size());
  for (const Candidate& c : candidates) probabilities.push_back({c.token, c.weight / total});
  return probabilities;
}

}  // namespace strata::engine
