#include "memory/sequence_state.h"

#include <algorithm>

namespace strata::memory {

using backend::Buffer;
using backend::KvType;

namespace {

size_t kv_bytes(KvType type) { return type == KvType::kF16 ? 2 : 4; }

int64_t gdn_floats(const StateShape& s) {
  return static_cast<int64_t>(s.conv_width - 1) * s.conv_channels +
         static_cast<int64_t>(s.value_heads) * s.gdn_head_dim * s.gdn_head_dim;
}

int64_t tail_floats(const StateShape& s, size_t layer) {
  return static_cast<int64_t>(s.ratios[layer]) * (s.index_dim + s.rot_dim);
}

int64_t ple_floats(const StateShape& s) { return static_cast<int64_t>(s.ple_tail) * s.ple_width; }

}  // namespace

int64_t SequenceState::fixed_bytes(const StateShape& shape) {
  int64_t floats = ple_floats(shape);
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    floats += shape.layers[il] == LayerKind::kGdn ? gdn_floats(shape) : tail_floats(shape, il);
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t SequenceState::bytes_per_token(const StateShape& shape, KvType kv_type) {
  int64_t bytes = 0;
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    if (shape.layers[il] != LayerKind::kAttention) continue;
    bytes += 2 * shape.kv_width * static_cast<int64_t>(kv_bytes(kv_type));
    const int ratio = shape.ratios[il];
    if (ratio > 0) bytes += (shape.index_dim * static_cast<int64_t>(sizeof(float))) / ratio;
  }
  return bytes;
}

Result<SequenceState> SequenceState::create(backend::Device& device, const StateShape& shape,
                                            KvType kv_type, int64_t capacity) {
  if (capacity <= 0) return invalid_argument("a context of {} tokens is not possible", capacity);
  SequenceState state;
  state.device_ = &device;
  state.capacity_ = capacity;
  state.tokens_.reserve(static_cast<size_t>(capacity));
  STRATA_ASSIGN_OR_RETURN(state.fixed_,
                          device.allocate(static_cast<size_t>(fixed_bytes(shape))));
  auto* next = state.fixed_.as<float>();
  const auto take = [&next](int64_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };

  state.gdn_.resize(shape.layers.size());
  state.attention_.resize(shape.layers.size());
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    if (shape.layers[il] == LayerKind::kGdn) {
      GdnState& gdn = state.gdn_[il];
      gdn.conv = take(static_cast<int64_t>(shape.conv_width - 1) * shape.conv_channels);
      gdn.state =
          take(static_cast<int64_t>(shape.value_heads) * shape.gdn_head_dim * shape.gdn_head_dim);
      continue;
    }
    AttentionState& attention = state.attention_[il];
    const int ratio = shape.ratios[il];
    const size_t cache_bytes =
        static_cast<size_t>(capacity) * static_cast<size_t>(shape.kv_width) * kv_bytes(kv_type);
    STRATA_ASSIGN_OR_RETURN(Buffer k, device.allocate(cache_bytes));
    STRATA_ASSIGN_OR_RETURN(Buffer v, device.allocate(cache_bytes));
    attention.kv.k = k.data();
    attention.kv.v = v.data();
    attention.kv.type = kv_type;
    attention.kv.capacity = capacity;
    state.caches_.push_back(std::move(k));
    state.caches_.push_back(std::move(v));
    if (ratio > 0) {
      const size_t blocks = static_cast<size_t>(capacity / ratio + 1);
      STRATA_ASSIGN_OR_RETURN(
          Buffer keys,
          device.allocate(blocks * static_cast<size_t>(shape.index_dim) * sizeof(float)));
      attention.kv.block_keys = keys.as<float>();
      state.caches_.push_back(std::move(keys));
      attention.kv.tail_keys = take(static_cast<int64_t>(ratio) * shape.index_dim);
      attention.tail_rope = take(static_cast<int64_t>(ratio) * shape.rot_dim);
    }
  }
  if (shape.ple_tail > 0) state.ple_conv_ = take(ple_floats(shape));
  return state;
}

Status SequenceState::reset() {
  // Cached cells beyond length() are never read, so only the recurrent part needs clearing.
  STRATA_RETURN_IF_ERROR(device_->zero(fixed_.data(), fixed_.size()));
  tokens_.clear();
  next_position_ = 0;
  return {};
}

void SequenceState::append(std::span<const TokenId> tokens, int next_position) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  next_position_ = next_position;
}

}  // namespace strata::memory
