// What the tests of the sampler share.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/sampler.h"

namespace strata::engine {

using Logits = std::vector<float>;
using Distribution = std::vector<TokenProbability>;

struct Event {
  TokenId token;
  TokenOrigin origin;
};

inline Logits normal_logits(size_t n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Logits logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

inline ResolvedSampling resolved(SamplingParams params, int vocabulary = 1000) {
  if (!params.seed) params.seed = 1;
  Result<ResolvedSampling> result = resolve(params, {}, vocabulary);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : ResolvedSampling{};
}

}  // namespace strata::engine
