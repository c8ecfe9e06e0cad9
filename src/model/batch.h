// What one forward call is asked to compute.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/types.h"
#include "memory/sequence_state.h"

namespace strata::model {

using Position = std::array<int, 3>;  // t, h, w (docs/MODEL.md 3.4)

enum class LogitsOf { kNone, kLastToken, kEveryToken };

// Replaces the embedding of consecutive tokens, for pictures.
struct EmbeddingRows {
  size_t first = 0;             // index into BatchItem::tokens
  std::span<const float> rows;  // [count, width]
};

// The best logits of each row whose logits are asked for, instead of all of them: the order of
// backend::TopKLogitsArgs, in which a NaN or +inf comes first.
struct TopLogits {
  int k = 0;      // wanted of a row: 1 to backend::TopKLogitsArgs::kMost
  int valid = 0;  // tokens from here on are padding and never among them; k or more
  std::vector<float> values;    // [rows, k]
  std::vector<TokenId> tokens;  // [rows, k]
};

// New tokens of one sequence.
struct BatchItem {
  memory::SequenceState* sequence = nullptr;
  std::span<const TokenId> tokens;
  LogitsOf logits = LogitsOf::kLastToken;
  // Empty for text: positions then count on from the sequence's next one. Otherwise one per token.
  std::span<const Position> positions;
  int next_position = 0;  // after the tokens; read only when positions are given
  std::span<const EmbeddingRows> embeddings;
};

// What a diagnostic run may look at; all data is on the host and valid during the call.
struct ForwardObserver {
  // The wide residual [rows, streams * width]; layer -1: before the first layer.
  std::function<void(int layer, std::span<const float> residual)> on_residual;
  // Chosen experts, best first, and their weights: [rows, used].
  std::function<void(int layer, std::span<const int32_t> ids, std::span<const float> weights)>
      on_routes;
};

}  // namespace strata::model
