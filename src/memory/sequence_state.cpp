#include "memory/sequence_state.h"

#include <algorithm>

namespace strata::memory {

using backend::Buffer;
using backend::KvType;

namespace {

int64_t gdn_floats(const StateShape& s) {
  return static_cast<int64_t>(s.conv_width - 1) * s.conv_channels +
         static_cast<int64_t>(s.value_heads) * s.gdn_head_dim * s.gdn_head_dim;
}

int64_t tail_floats(const StateShape& s, size_t layer) {
  return static_cast<int64_t>(s.ratios[layer]) * (s.index_dim + s.rot_dim);
}

int64_t ple_floats(const StateShape& s) { return static_cast<int64_t>(s.ple_tail) * s.ple_width; }

}  // namespace

int64_t SequenceState::fixed_bytes(const StateShape& shape, int first, int end) {
  int64_t floats = first <= shape.ple_layer && shape.ple_layer < end ? ple_floats(shape) : 0;
  for (auto il = static_cast<size_t>(first); il < static_cast<size_t>(end); ++il) {
    floats += shape.layers[il] == LayerKind::kGdn ? gdn_floats(shape) : tail_floats(shape, il);
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

Result<SequenceState> SequenceState::create(std::span<const LayerPlace> places,
                                            const StateShape& shape, KvType kv_type,
                                            int64_t capacity) {
  if (capacity <= 0) return invalid_argument("a context of {} tokens is not possible", capacity);
  SequenceState state;
  state.capacity_ = capacity;
  state.tokens_.reserve(static_cast<size_t>(capacity));
  state.gdn_.resize(shape.layers.size());
  state.attention_.resize(shape.layers.size());
  for (const LayerPlace& place : places) {
    STRATA_RETURN_IF_ERROR(state.create_place(place, shape, kv_type));
  }
  return state;
}

Status SequenceState::create_place(const LayerPlace& place, const StateShape& shape,
                                   KvType kv_type) {
  backend::Device& device = *place.device;
  if (kv_type == KvType::kI8 && shape.kv_head_dim % backend::kKvGroup != 0) {
    return failed_precondition("heads of {} values cannot be kept as i8, which takes them by {}; give "
                               "--kv f16",
                               shape.kv_head_dim, backend::kKvGroup);
  }
  STRATA_ASSIGN_OR_RETURN(
      Buffer block,
      device.allocate(static_cast<size_t>(fixed_bytes(shape, place.first, place.end))));
  auto* next = block.as<float>();
  fixed_.push_back({&device, std::move(block)});
  const auto take = [&next](int64_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };

  for (auto il = static_cast<size_t>(place.first); il < static_cast<size_t>(place.end); ++il) {
    if (shape.layers[il] == LayerKind::kGdn) {
      GdnState& gdn = gdn_[il];
      gdn.conv = take(static_cast<int64_t>(shape.conv_width - 1) * shape.conv_channels);
      gdn.state =
          take(static_cast<int64_t>(shape.value_heads) * shape.gdn_head_dim * shape.gdn_head_dim);
      continue;
    }
    AttentionState& attention = attention_[il];
    const int ratio = shape.ratios[il];
    const int64_t values = capacity_ * shape.kv_width;
    const auto cache_bytes = static_cast<size_t>(backend::kv_bytes(kv_type, values));
    STRATA_ASSIGN_OR_RETURN(Buffer k, device.allocate(cache_bytes));
    STRATA_ASSIGN_OR_RETURN(Buffer v, device.allocate(cache_bytes));
    attention.kv.k = k.data();
    attention.kv.v = v.data();
    if (kv_type == KvType::kI8) {
      attention.kv.k_scales = reinterpret_cast<float*>(k.as<std::byte>() + values);
      attention.kv.v_scales = reinterpret_cast<float*>(v.as<std::byte>() + values);
    }
    attention.kv.type = kv_type;
    attention.kv.capacity = capacity_;
    caches_.push_back(std::move(k));
    caches_.push_back(std::move(v));
    if (ratio > 0) {
      const size_t blocks = static_cast<size_t>(capacity_ / ratio + 1);
      STRATA_ASSIGN_OR_RETURN(
          Buffer keys,
          device.allocate(blocks * static_cast<size_t>(shape.index_dim) * sizeof(float)));
      attention.kv.block_keys = keys.as<float>();
      caches_.push_back(std::move(keys));
      attention.kv.tail_keys = take(static_cast<int64_t>(ratio) * shape.index_dim);
      attention.tail_rope = take(static_cast<int64_t>(ratio) * shape.rot_dim);
    }
  }
  if (place.first <= shape.ple_layer && shape.ple_layer < place.end) {
    ple_conv_ = take(ple_floats(shape));
  }
  return {};
}

Status SequenceState::reset() {
  // Cached cells beyond length() are never read, so only the recurrent part needs clearing.
  for (const Fixed& fixed : fixed_) {
    STRATA_RETURN_IF_ERROR(fixed.device->zero(fixed.block.data(), fixed.block.size()));
  }
  tokens_.clear();
  next_position_ = 0;
  return {};
}

void SequenceState::append(std::span<const TokenId> tokens, int next_position) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  next_position_ = next_position;
}

}  // namespace strata::memory
