// Activations of one forward call: one block of device memory, cut anew for each batch size and
// reused from call to call. The residual lies apart and twice, so that one may travel from or to
// another device while the other is computed with; where nothing travels, the second is never made.
#pragma once

#include <array>

#include "backend/device.h"
#include "model/config.h"

namespace strata::model {

struct Workspace {
  // [rows, ...] unless noted; names follow qwen4exp.cpp.
  float* residual = nullptr;       // streams * width
  float* x = nullptr;              // width
  float* y = nullptr;              // width
  float* inject_weight = nullptr;  // streams
  float* hc_scratch = nullptr;     // 2 * streams * width + rank

  // What the host fills in before a step: [starts, rope) lies together, `input_bytes` long.
  int64_t* starts = nullptr;       // 1: sequence index of each row; decode steps only
  int32_t* ids = nullptr;          // token ids
  float* rope = nullptr;           // rot_dim
  size_t input_bytes = 0;

  float* qkv = nullptr;            // conv_channels
  float* z = nullptr;              // value_heads * gdn_head_dim
  float* alpha = nullptr;          // value_heads
  float* beta = nullptr;           // value_heads
  float* gdn_out = nullptr;        // value_heads * gdn_head_dim
  float* gdn_scratch = nullptr;    // conv_channels

  float* q = nullptr;              // heads * 2 * head_dim
  float* k = nullptr;              // kv_heads * head_dim
  float* v = nullptr;              // kv_heads * head_dim
  float* index_q = nullptr;        // index_heads * index_dim
  float* index_k = nullptr;        // index_dim
  float* attention_out = nullptr;  // heads * head_dim
  int32_t* cells = nullptr;        // max_cells
  int32_t* counts = nullptr;       // 1
  float* scores = nullptr;         // score_stride
  int max_cells = 0;
  int64_t score_stride = 0;

  int32_t* expert_ids = nullptr;   // used
  float* expert_weights = nullptr; // used
  float* router_scratch = nullptr; // experts
  float* expert_scratch = nullptr; // used * (2 * expert_width + width)
  float* shared_gate = nullptr;    // shared_expert_width
  float* shared_up = nullptr;      // shared_expert_width
  float* shared_out = nullptr;     // width

  float* ple_rows = nullptr;       // ple width
  float* ple_key = nullptr;        // streams * width
  float* ple_value = nullptr;      // width
  float* ple_scratch = nullptr;    // 2 * streams * width

  float* head_rows = nullptr;      // streams * width: residuals whose logits are wanted
  float* logits = nullptr;         // [head rows, vocabulary]
  float* top = nullptr;            // [head rows, 2 * most of top_k_logits]: values and tokens
  uint32_t* top_scratch = nullptr; // [head rows, groups of top_k_logits]

  // Makes room for `rows` tokens, `head_rows` rows of logits and sequences of up to `tokens` tokens,
  // with the `which`-th residual (0 or 1), which must not be travelling.
  // Equal arguments cut the block at base() equally. Contents do not survive, but those of the other
  // residual. Fails when the device has no memory left.
  Status reserve(backend::Device& device, const Config& config, int64_t rows, int64_t head_rows,
                 int64_t tokens, size_t which = 0);

  const void* base() const { return block_.data(); }

 private:
  backend::Buffer block_;
  std::array<backend::Buffer, 2> residuals_;
};

}  // namespace strata::model
