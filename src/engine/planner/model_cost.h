// What a model costs to hold and to run, from the index of its file: nothing of the weights is
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/op_args.h"
#include "base/status.h"
#include "format/gguf.h"
#include "model/config.h"

namespace strata::engine {

// One layer. Bytes of weights are as a device holds them: each tensor rounded up as drivers do.
struct LayerCost {
  uint64_t dense_bytes = 0;   // everything but the experts; read by every step
  uint64_t expert_bytes = 0;  // one expert: gate, up and down
  int experts = 0;
  uint64_t state_bytes = 0;   // per sequence, whatever its length
  int kv_values = 0;          // cached keys and values per token of a sequence
  double index_bytes = 0;     // indexer keys per token of a sequence
  double dense_macs = 0;      // multiply-adds per token, without experts
  double expert_macs = 0;     // of one expert
  double state_macs = 0;      // of the recurrence, per token
  double attention_macs = 0;  // per token and cell attended
  double index_macs = 0;      // per token and token of the sequence
  int most_cells = 0;         // cells attended at most; 0: as many as there are
  int launches = 0;           // kernels of one step on a card
};

struct ModelCost {
  std::string name;  // of the file, for messages
  std::vector<LayerCost> layers;
  std::optional<LayerCost> draft;  // the draft layer, where the file has one
  int experts_used = 0;
  uint64_t embedding_bytes = 0;  // with the first layer
  uint64_t head_bytes = 0;       // with the last layer: logits and their mixer
  bool tied = false;             // the head is the embedding; on one device it is held once
  double head_macs = 0;          // per row of logits
  int wide = 0;                  // float values per row that one stage hands to the next
  uint64_t table_bytes = 0;      // the n-gram table, which stays on the disk

  // Activations for a chunk of `rows` tokens and `head_rows` rows of logits, in sequences of up to
  // `context` tokens (model/workspace.h).
  uint64_t workspace_bytes(int64_t rows, int64_t head_rows, int64_t context) const;
  // The same for a stage at work: on prompts, `chunk` tokens at a time, and on recorded decode steps of
  // `window_rows` rows, which have room for longer sequences; with what a card unpacks.
  uint64_t step_bytes(int64_t chunk, int64_t window_rows, int64_t context) const;
  // A second residual of a chunk of `rows`, which a stage of several has on its way.
  uint64_t handoff_bytes(int64_t rows) const;
  // What a card unpacks of a matrix for a product of `rows` (gpu/drivers/products.cpp), at most.
  static uint64_t unpacked_bytes(int64_t rows);
  double row_bytes = 0;            // per token of the chunk
  double row_bytes_per_token = 0;  // per token of the chunk and token of the context
  double head_row_bytes = 0;

  uint64_t expert_bytes() const;  // of all layers
  uint64_t weight_bytes() const;  // of all that devices hold, without the draft layer
  // Cached keys, values and indexer keys of a whole sequence.
  uint64_t cache_bytes(backend::KvType type, int64_t context) const;

  // `config` must be the file's own.
  static Result<ModelCost> read(const GgufFile& file, const model::Config& config);
};

uint64_t layer_cache_bytes(const LayerCost& layer, backend::KvType type, int64_t context);

}  // namespace strata::engine
