// Everything the model remembers about one sequence on one device: delta-net states and
// convolution tails, cached keys and values, pooled indexer keys, n-gram convolution tail, token
// history and positions. All of it belongs together: a sequence is continued, copied or reset as a
// whole, never in part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/device.h"
#include "base/types.h"

namespace strata::memory {

enum class LayerKind : uint8_t { kGdn, kAttention };

// What a model needs remembered. Widths are in elements.
struct StateShape {
  std::vector<LayerKind> layers;
  // Gated delta net layers.
  int value_heads = 0, gdn_head_dim = 0, conv_channels = 0, conv_width = 0;
  // Attention layers; ratio per layer (0 = dense, no indexer state).
  std::vector<int> ratios;
  int kv_width = 0, index_dim = 0, rot_dim = 0;
  // N-gram injection; ple_tail rows of ple_width. Zero when the model has none.
  int ple_tail = 0, ple_width = 0;
};

struct GdnState {
  float* conv = nullptr;   // [conv_width - 1, conv_channels]
  float* state = nullptr;  // [value_heads, head_dim, head_dim]
};

struct AttentionState {
  backend::KvView kv;
  float* tail_rope = nullptr;  // [ratio, rot_dim]
};

class SequenceState {
 public:
  // Reserves room for `capacity` tokens; physical memory is used only as the sequence grows, where
  // the device allows that. The device must outlive the state.
  static Result<SequenceState> create(backend::Device& device, const StateShape& shape,
                                      backend::KvType kv_type, int64_t capacity);

  // Back to the empty sequence.
  Status reset();

  const GdnState& gdn(size_t layer) const { return gdn_[layer]; }
  const AttentionState& attention(size_t layer) const { return attention_[layer]; }
  float* ple_conv() const { return ple_conv_; }

  int64_t capacity() const { return capacity_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  // Every token so far; image positions hold their placeholder id.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  // Rotary position of the next text token; differs from length() after an image.
  int next_position() const { return next_position_; }

  // Records tokens that the device state now includes.
  void append(std::span<const TokenId> tokens, int next_position);

  // Bytes that do not grow with the length, and bytes per token.
  static int64_t fixed_bytes(const StateShape& shape);
  static int64_t bytes_per_token(const StateShape& shape, backend::KvType kv_type);

 private:
  SequenceState() = default;

  backend::Device* device_ = nullptr;
  backend::Buffer fixed_;               // recurrent parts, one block: reset and copied as one
  std::vector<backend::Buffer> caches_;  // per attention layer: k, v, block keys
  std::vector<GdnState> gdn_;
  std::vector<AttentionState> attention_;
  float* ple_conv_ = nullptr;
  std::vector<TokenId> tokens_;
  int next_position_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace strata::memory
