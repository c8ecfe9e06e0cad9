// From the logits of one position to one token.
//
// Order of the steps, each on what the one before left:
//   1. rows from `vocabulary_valid` on are padding: never read, never chosen
//      The same holds for tokens that a mask excludes, when the answer is constrained.
//   2. logit_bias is added to the raw logit
//   3. repetition penalty r, for tokens of prompt and output: x > 0 ? x / r : x * r
//      (Keskar et al., "CTRL", 2019, section 4.1, with the sign rule that Hugging Face and vLLM
//      use)
//   4. x -= frequency_penalty * count + presence_penalty * (count > 0), where count counts
//      generated tokens only (the OpenAI formula, counted as vLLM does)
//   5. temperature 0: the largest x, the lowest id among equals. Nothing below applies.
//   6. p = softmax(x / temperature). Temperature goes before the cuts below, as in Hugging Face
//      and vLLM; llama.cpp by default applies it after them.
//   7. top_k: the k largest x
//   8. typical_p (Meister et al., "Locally typical sampling", 2022): tokens by growing
//      |-ln p - entropy|, the fewest that hold typical_p of the mass
//   9. top_p: tokens by falling p, the fewest that hold top_p of the mass left
//  10. min_p: tokens with p >= min_p * (largest p left)
//  11. one draw: inverse CDF over the tokens by falling p with uniform(seed, position)
// Equal logits are ordered by id, the lower first, in every step. Each cut leaves one token or
// more. Masses are sums in double of exp((x - max) / temperature).
//
// The penalties of steps 3 and 4 look at the last penalty_last_n accepted tokens, prompt and output
// together: -1 at all of them, 0 at none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "engine/sampling_params.h"

namespace strata::engine {

inline constexpr int kMaxTopLogprobs = 20;      // as the OpenAI API
inline constexpr float kMaxLogitBias = 100.0f;  // as the OpenAI API; -inf is allowed besides
inline constexpr int kMostCandidates = 1024;    // that a device sorts out of all logits

// SamplingParams with every choice made. The initial values are neutral: each step is off.
struct ResolvedSampling {
  float temperature = 1.0f;
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int penalty_last_n = -1;
  uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;  // by growing id, each id once
  std::optional<int> top_logprobs;
};

// Checks both sets of parameters, then takes each value from `params`, else from `defaults`, else
// the neutral one. An absent seed becomes a random one. Biases that name one id twice are added up.
// Errors: kInvalidArgument with field() the name of the SamplingParams member; a fault in
// `defaults` says so. `vocabulary` bounds the ids of logit_bias.
Result<ResolvedSampling> resolve(const SamplingParams& params, const SamplingParams& defaults,
                                 int vocabulary);

enum class TokenOrigin { kPrompt, kGenerated };

struct RankedToken {
  TokenId token = 0;
  float logprob = 0.0f;
};

// Log-probabilities are natural logs of softmax(raw logits without padding): before mask, bias,
// penalties and temperature. The OpenAI API too reports what the model holds for likely, whatever
// then steers the choice.
struct SampleResult {
  TokenId token = 0;
  std::optional<float> logprob;  // of `token`; present when top_logprobs was asked for
  int best_count = 0;
  std::array<RankedToken, kMaxTopLogprobs> best_tokens{};

  // The top_logprobs most probable tokens, best first; fewer when fewer have a probability above 0.
  std::span<const RankedToken> best() const {
    return {best_tokens.data(), static_cast<size_t>(best_count)};
  }
};

struct TokenProbability {
  TokenId token = 0;
  double probability = 0.0;
};

// The sampling state of one sequence. A value: a copy continues from the same state on its own, and
// costs what the penalty counts cost (work buffers are not copied). Not thread-safe; different
// samplers are independent.
class Sampler {
 public:
  // `sampling` comes from resolve(); 0 < vocabulary_valid <= rows of the head.
  Sampler(ResolvedSampling sampling, int vocabulary_valid);

  // Tells the penalties of the next token of the sequence; every prompt token and every generated
  // one, in order.
  void accept(TokenId token, TokenOrigin origin);

  // `logits`: one value per row of the head, vocabulary_valid or more. `position` is the index in
  // the sequence of the token to be chosen; with the seed it fixes the draw. -inf in a logit means
  // the token is impossible. `mask`: empty, or one bit per token (lowest bit first) that is set
  // where the token may be chosen. Allocates nothing after a sampler's first call with the same
  // options.
  // Errors: kInternal when a logit is NaN or +inf, when every logit is -inf, or when there are too
  // few; kInvalidArgument (field logit_bias) when the biases ban every possible token;
  // kFailedPrecondition when the mask admits no possible token.
  Result<SampleResult> sample(std::span<const float> logits, int64_t position,
                              std::span<const uint64_t> mask = {});

  // How many of the best logits are enough to choose by: 1 to kMostCandidates, fewer than there are
  // tokens; 0 where all are needed, because a bias, a penalty, log-probabilities or a cut looks at them.
  int candidates() const;

  // As sample() without a mask, bit for bit, from the candidates() best logits and their tokens, in the
  // order of backend::TopKLogitsArgs, in which the lowest token with a NaN or +inf comes first.
  Result<SampleResult> sample_candidates(std::span<const float> logits,
                                         std::span<const TokenId> tokens, int64_t position);

  // What sample() would draw from, best first, with the same errors. Probabilities add up to 1.
  Result<std::vector<TokenProbability>> distribution(std::span<const float> logits,
                                                     int64_t position,
                                                     std::span<const uint64_t> mask = {});

  const ResolvedSampling& sampling() const { return sampling_; }

 private:
  struct Counts {
    int32_t seen = 0;       // in prompt and output
    int32_t generated = 0;  // in the output
  };
  struct Accepted {
    TokenId token = 0;
    TokenOrigin origin = TokenOrigin::kPrompt;
  };
  struct Candidate {
    float logit = 0.0f;
    TokenId token = 0;
    double weight = 0.0;  // probability times a common factor
  };
  // Work memory; it carries no state from call to call, so copies start without it.
  struct Scratch {
    Scratch() = default;
    Scratch(const Scratch&) {}
    Scratch& operator=(const Scratch&) { return *this; }
    Scratch(Scratch&&) = default;
    Scratch& operator=(Scratch&&) = default;

    std::vector<float> adjusted;     // logits after bias and penalties
    std::vector<float> block_max;    // largest logit of each block of rows
    std::vector<float> block_order;  // block_max, reordered
    std::vector<Candidate> candidates;
  };

  bool counts(TokenOrigin origin) const;
  void forget(const Accepted& accepted);
  std::span<const float> adjust(std::span<const float> logits, std::span<const uint64_t> mask);
  float scan(std::span<const float> logits);
  TokenId first_largest(std::span<const float> logits, float max) const;
  Result<float> prepare(std::span<const float>& logits, int64_t position,
                        std::span<const uint64_t> mask);
  void select_largest(std::span<const float> logits, int count);
  double weigh(std::span<const float> logits, float max);
  double weigh_candidates(float max);
  double cut(float max, double total);
  TokenId draw(double total, double u);
  void rank(std::span<const float> logits, SampleResult& result);

  ResolvedSampling sampling_;
  int valid_ = 0;
  std::unordered_map<TokenId, Counts> counts_;  // of the tokens in the window
  std::vector<Accepted> window_;                // ring, only with a bounded window
  size_t oldest_ = 0;
  Scratch scratch_;
};

}  // namespace strata::engine
