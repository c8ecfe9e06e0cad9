// Reads tokens through a model, bounded in memory, and hands out the logits of every position.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/loaded_model.h"

namespace strata::apps {

struct EvaluationOptions {
  backend::KvType kv_type = backend::KvType::kF32;
  int chunk = 512;  // tokens per forward call; fewer where their logits would pass kMaxLogitBytes
  int window = 0;   // tokens after which the model begins afresh, > 0
  std::function<bool()> cancelled = [] { return false; };
  std::function<void(size_t done)> progress = [](size_t) {};
};

inline constexpr size_t kMaxLogitBytes = size_t{64} << 20;

// Positions [first, first + rows) of the tokens, in order and without gaps; `logits` is
// [rows, vocabulary]. `next` are the tokens that follow each position in its window: one fewer than
// rows where the window ends.
struct LogitChunk {
  size_t first = 0;
  size_t rows = 0;
  std::span<const float> logits;
  std::span<const TokenId> next;
};

// Fails with kCancelled when asked to stop, on a logit that is not finite, or as `visit` does.
Status evaluate(engine::LoadedModel& loaded, std::span<const TokenId> tokens,
                const EvaluationOptions& options,
                const std::function<Status(const LogitChunk&)>& visit);

// The `count` most probable tokens after `tokens`, each chosen given those before it. Fails as
// evaluate() does.
Result<std::vector<TokenId>> continue_greedily(engine::LoadedModel& loaded,
                                               std::span<const TokenId> tokens, int count,
                                               const EvaluationOptions& options);

}  // namespace strata::apps
