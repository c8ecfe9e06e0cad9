// What one round of bench runs.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"

namespace strata::apps {

// `rows` sequences read `tokens` tokens each and then decode together.
struct BenchCase {
  int tokens = 0;
  int rows = 1;
  bool times_prompt = false;  // rows is 1 then
  bool times_decode = false;

  bool operator==(const BenchCase&) const = default;
};

// A prompt size that is a depth too is read once for both. Batches follow the first depth; without
// a depth they are not measured. Sorted, each case once.
std::vector<BenchCase> bench_cases(std::span<const int> prompts, std::span<const int> depths,
                                   std::span<const int> batch);

// `count` tokens of sequence number `sequence`: spread over [0, vocabulary), without `avoid`, and
// the same in every run. vocabulary >= 2.
std::vector<TokenId> bench_tokens(int sequence, size_t count, int vocabulary, TokenId avoid);

}  // namespace strata::apps
