#include "apps/bench_plan.h"

#include <set>

#include "engine/random.h"

namespace strata::apps {

std::vector<BenchCase> bench_cases(std::span<const int> prompts, std::span<const int> depths,
                                   std::span<const int> batch) {
  const std::set<int> timed(prompts.begin(), prompts.end());
  const std::set<int> decoded(depths.begin(), depths.end());
  std::set<int> sizes = timed;
  sizes.insert(decoded.begin(), decoded.end());
  std::vector<BenchCase> cases;
  for (const int size : sizes) {
    cases.push_back({size, 1, timed.contains(size), decoded.contains(size)});
  }
  if (depths.empty()) return cases;
  for (const int rows : std::set<int>(batch.begin(), batch.end())) {
    if (rows > 1) cases.push_back({depths.front(), rows, false, true});
  }
  return cases;
}

std::vector<TokenId> bench_tokens(int sequence, size_t count, int vocabulary, TokenId avoid) {
  std::vector<TokenId> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    const double place =
        engine::uniform(static_cast<uint64_t>(sequence), static_cast<int64_t>(i)) * vocabulary;
    tokens[i] = static_cast<TokenId>(place);
    if (tokens[i] == avoid) tokens[i] = avoid == 0 ? 1 : avoid - 1;
  }
  return tokens;
}

}  // namespace strata::apps
