// The tensors of a qwen4exp model as operands of the ops: found by name, checked for shape, placed
// on a device (mapped in place where the device computes on host memory).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/device.h"
#include "backend/op_args.h"
#include "format/gguf.h"
#include "memory/ple_table.h"
#include "model/config.h"

namespace strata::model {

struct HcWeights {
  const float* norm = nullptr;
  backend::WeightRef down, up, inject;
};

struct GdnWeights {
  backend::WeightRef qkv, gate, alpha, beta, out;
  const float *conv = nullptr, *dt_bias = nullptr, *a_log = nullptr, *norm = nullptr;
};

struct AttentionWeights {
  backend::WeightRef q, k, v, out;
  const float *q_norm = nullptr, *k_norm = nullptr;
  backend::WeightRef index_q, index_k;
  const float *index_q_norm = nullptr, *index_k_norm = nullptr;
};

struct MoeWeights {
  backend::WeightRef router;
  backend::WeightRef gate, up, down;  // up absent when gate holds both
  backend::WeightRef shared_gate_inp, shared_gate, shared_up, shared_down;
};

struct PleWeights {
  backend::WeightRef key, value;
  const float *norm_key = nullptr, *norm_query = nullptr, *norm_conv = nullptr, *conv = nullptr;
};

struct LayerWeights {
  HcWeights hc_attn, hc_ffn;
  GdnWeights gdn;              // of delta-net layers
  AttentionWeights attention;  // of attention layers
  MoeWeights moe;
};

// Which part of the model a device holds: layers [first, end); with the first layer the embeddings,
// with the last one the head.
struct LayerRange {
  int first = 0;
  int end = 0;
};

struct Weights {
  backend::WeightRef token_embd, output;
  HcWeights output_hc;
  std::vector<LayerWeights> layers;  // by layer of the model; empty outside the range
  PleWeights ple;
  std::optional<memory::PleTable> ple_table;

  // Memory that is not mapped from the file: uploads, and small tensors widened to float.
  std::vector<backend::Buffer> owned;
  std::shared_ptr<const GgufFile> file;
};

// Places the weights of `range` on `device`. Every shape problem of the whole file is found before
// any weight is read; the message lists the first ones. The device must outlive the result.
Result<Weights> load_weights(std::shared_ptr<const GgufFile> file, const Config& config,
                             backend::Device& device, LayerRange range);

}  // namespace strata::model
