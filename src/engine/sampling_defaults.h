// Where an absent sampling field gets its value from.
#pragma once

#include "engine/sampling_params.h"

namespace strata::engine {

// What the model's makers advise for thinking mode; a model file that carries sampling values of
// its own goes before these: with_defaults(from_file, model_defaults()).
inline SamplingParams model_defaults() {
  SamplingParams defaults;
  defaults.temperature = 1.0f;
  defaults.top_p = 0.95f;
  defaults.top_k = 20;
  defaults.min_p = 0.0f;
  return defaults;
}

// `params` with every absent field taken from `defaults`; an empty logit_bias counts as absent.
inline SamplingParams with_defaults(SamplingParams params, const SamplingParams& defaults) {
  const auto fill = [](auto& field, const auto& value) {
    if (!field) field = value;
  };
  fill(params.temperature, defaults.temperature);
  fill(params.top_k, defaults.top_k);
  fill(params.top_p, defaults.top_p);
  fill(params.min_p, defaults.min_p);
  fill(params.typical_p, defaults.typical_p);
  fill(params.repetition_penalty, defaults.repetition_penalty);
  fill(params.presence_penalty, defaults.presence_penalty);
  fill(params.frequency_penalty, defaults.frequency_penalty);
  fill(params.penalty_last_n, defaults.penalty_last_n);
  fill(params.seed, defaults.seed);
  fill(params.top_logprobs, defaults.top_logprobs);
  if (params.logit_bias.empty()) params.logit_bias = defaults.logit_bias;
  return params;
}

}  // namespace strata::engine
