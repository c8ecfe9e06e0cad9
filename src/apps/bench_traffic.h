// How many bytes a decode step has to read, from the list of tensors and the shape of the model:
// what an achieved rate is computed from. Every matrix counts once per step, however many sequences
// are decoded together; an expert counts when at least one of them chose it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/op_args.h"
#include "format/gguf.h"
#include "model/config.h"

namespace strata::apps {

struct WeightTraffic {
  int64_t dense = 0;            // every weight of the trunk but experts and head; bytes per step
  int64_t head = 0;             // the matrix of the logits; per step
  int64_t per_token = 0;        // rows of the embedding and of the n-gram table; per token
  std::vector<int64_t> expert;  // [layers] gate, up and down of one expert
};

// Tensors that the trunk does not read (the draft layer, a vision part) count nothing.
WeightTraffic weight_traffic(std::span<const TensorInfo> tensors, const model::Config& config);

// Bytes of one sequence's memory that its next token reads when `seen` tokens stand in it, the next
// one included: keys and values of the cells attended, indexer keys where the budget binds, and
// recurrent states. What the token writes is not counted.
int64_t state_traffic(const model::Config& config, backend::KvType kv_type, int64_t seen);

}  // namespace strata::apps
