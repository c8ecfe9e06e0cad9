// What a request may say about sampling. An absent field means "the model's default"; a present
// field means exactly its value, zero included.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/types.h"

namespace strata::engine {

struct SamplingParams {
  std::optional<float> temperature;         // >= 0; 0 = greedy
  std::optional<int> top_k;                 // >= 0; 0 = off
  std::optional<float> top_p;               // (0, 1]; 1 = off
  std::optional<float> min_p;               // [0, 1); 0 = off
  std::optional<float> typical_p;           // (0, 1]; 1 = off
  std::optional<float> repetition_penalty;  // > 0; 1 = off
  std::optional<float> presence_penalty;    // [-2, 2]; 0 = off
  std::optional<float> frequency_penalty;   // [-2, 2]; 0 = off
  std::optional<int> penalty_last_n;        // tokens looked back on; 0 = off, -1 = whole context
  std::optional<uint64_t> seed;             // absent: a fresh random seed per request
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the raw logit; -inf bans a token
  std::optional<int> top_logprobs;          // absent: no logprobs; n: chosen token and n best
};

}  // namespace strata::engine
