// Hyperparameters of a qwen4exp model, read from GGUF metadata (docs/MODEL.md 1) and checked to be
// ones this implementation computes correctly.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "format/gguf.h"
#include "memory/ple_table.h"
#include "memory/sequence_state.h"

namespace strata::model {

struct Config {
  int layers = 0;          // trunk layers; a draft block is not counted
  int draft_layers = 0;    // nextn_predict_layers
  int context = 0;         // tokens the model was trained for
  int width = 0;           // hidden size E
  int vocabulary = 0;      // rows of the head, padding included
  float eps = 0.0f;

  int streams = 0;         // residual streams
  int hc_rank = 0;

  int heads = 0, kv_heads = 0, head_dim = 0;
  int rot_dim = 0;
  std::vector<double> rope_frequencies;  // [rot_dim / 2] radians per position
  std::array<int, 3> rope_sections{};  // pairs of axes t, h, w
  float attention_scale = 0.0f;
  int index_heads = 0, index_dim = 0;
  int index_budget = 0;    // tokens

  int key_heads = 0, value_heads = 0, gdn_head_dim = 0, conv_width = 0;

  int experts = 0, experts_used = 0, expert_width = 0, shared_expert_width = 0;

  std::vector<memory::LayerKind> layer_kinds;  // [layers]
  std::vector<int> ratios;                     // [layers], 0 = dense

  int ple_layer = -1;      // -1: no n-gram table
  int ple_conv_width = 0;
  int ple_row_width = 0;
  TokenId image_token = -1;  // -1: not named by the file
  memory::PleHash ple;

  int conv_channels() const { return (2 * key_heads + value_heads) * gdn_head_dim; }
  int wide() const { return streams * width; }
  bool has_ple() const { return ple_layer >= 0; }
  memory::StateShape state_shape() const;

  // Fails with the key, what was expected and what was found.
  static Result<Config> read(const GgufFile& file);
};

}  // namespace strata::model
