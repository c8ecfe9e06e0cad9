// Everything the model remembers about one sequence, each layer's part on the device that runs the
// layer: delta-net states and convolution tails, cached keys and values, pooled indexer keys, n-gram
// convolution tail, token history and positions. All of it belongs together: a sequence is
// continued, copied or reset as a whole, never in part.
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
  int kv_width = 0, kv_head_dim = 0, index_dim = 0, rot_dim = 0;
  // N-gram injection before layer ple_layer; ple_tail rows of ple_width. -1 and zero when the model
  // has none.
  int ple_layer = -1, ple_tail = 0, ple_width = 0;
};

// Layers [first, end) lie on `device`.
struct LayerPlace {
  backend::Device* device = nullptr;
  int first = 0;
  int end = 0;
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
  // the device allows that. `places` cover all layers in order, each once; their devices must
  // outlive the state.
  static Result<SequenceState> create(std::span<const LayerPlace> places, const StateShape& shape,
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

  // Bytes of layers [first, end) that do not grow with the length.
  static int64_t fixed_bytes(const StateShape& shape, int first, int end);

 private:
  SequenceState() = default;
  Status create_place(const LayerPlace& place, const StateShape& shape, backend::KvType kv_type);

  struct Fixed {
    backend::Device* device;
    backend::Buffer block;
  };
  std::vector<Fixed> fixed_;             // recurrent parts of each place: reset and copied as one
  std::vector<backend::Buffer> caches_;  // per attention layer: k, v, block keys
  std::vector<GdnState> gdn_;
  std::vector<AttentionState> attention_;
  float* ple_conv_ = nullptr;
  std::vector<TokenId> tokens_;
  int next_position_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace strata::memory
