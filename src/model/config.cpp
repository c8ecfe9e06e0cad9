#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/rope.h"

namespace strata::model {

namespace {

constexpr std::string_view kArchitecture = "qwen4exp";

std::string full_key(std::string_view key) { return fmt::format("{}.{}", kArchitecture, key); }

Status bad(const GgufFile& file, std::string_view key, const std::string& what) {
  return failed_precondition("{}: {} {}", file.path(), full_key(key), what);
}

// Reads `key` into `out`; the value must lie in [low, high].
Status read_int(const GgufFile& file, std::string_view key, int64_t low, int64_t high, int& out) {
  STRATA_ASSIGN_OR_RETURN(const int64_t value, file.require<int64_t>(full_key(key)));
  if (value < low || value > high) {
    return bad(file, key, fmt::format("is {}, expected {} to {}", value, low, high));
  }
  out = static_cast<int>(value);
  return {};
}

Status read_int_or(const GgufFile& file, std::string_view key, int64_t low, int64_t high,
                   int fallback, int& out) {
  out = fallback;
  return file.find_value(full_key(key)) == nullptr ? Status() : read_int(file, key, low, high, out);
}

constexpr int64_t kMaxWidth = 1 << 20;

Status read_attention(const GgufFile& file, Config& c) {
  STRATA_RETURN_IF_ERROR(read_int(file, "attention.head_count", 1, 4096, c.heads));
  STRATA_RETURN_IF_ERROR(read_int(file, "attention.head_count_kv", 1, c.heads, c.kv_heads));
  STRATA_RETURN_IF_ERROR(read_int(file, "attention.key_length", 2, 8192, c.head_dim));
  int value_dim = 0;
  STRATA_RETURN_IF_ERROR(read_int(file, "attention.value_length", 2, 8192, value_dim));
  if (value_dim != c.head_dim) {
    return bad(file, "attention.value_length",
               fmt::format("is {}, expected the key length {}", value_dim, c.head_dim));
  }
  if (c.heads % c.kv_heads != 0) {
    return bad(file, "attention.head_count",
               fmt::format("is {}, expected a multiple of the {} KV heads", c.heads, c.kv_heads));
  }
  STRATA_RETURN_IF_ERROR(read_int(file, "rope.dimension_count", 2, c.head_dim, c.rot_dim));
  if (c.rot_dim % 2 != 0) return bad(file, "rope.dimension_count", "must be even");
  STRATA_ASSIGN_OR_RETURN(const float base, file.require<float>(full_key("rope.freq_base")));
  if (!(base > 0)) return bad(file, "rope.freq_base", "must be positive");
  c.rope_frequencies = rope_frequencies(c.rot_dim, base);

  c.rope_sections = {11, 11, 10};
  STRATA_ASSIGN_OR_RETURN(
      const auto sections,
      file.find<std::vector<int32_t>>(full_key("rope.dimension_sections")));
  if (sections) {
    if (sections->size() < 3) return bad(file, "rope.dimension_sections", "needs 3 entries");
    std::copy_n(sections->begin(), 3, c.rope_sections.begin());
    for (const int section : c.rope_sections) {
      if (section < 0 || section > c.rot_dim / 2) {
        return bad(file, "rope.dimension_sections",
                   fmt::format("holds {}, expected 0 to {} rotated pairs", section, c.rot_dim / 2));
      }
    }
  }

  STRATA_ASSIGN_OR_RETURN(const auto scale, file.find<float>(full_key("attention.scale")));
  if (scale && *scale < 0.0f) {
    return bad(file, "attention.scale", fmt::format("is {}, expected 0 or more", *scale));
  }
  c.attention_scale = scale && *scale != 0.0f
                          ? *scale
                          : 1.0f / std::sqrt(static_cast<float>(c.head_dim));

  STRATA_RETURN_IF_ERROR(read_int_or(file, "attention.indexer.head_count", 1, 1024, 0, c.index_heads));
  STRATA_RETURN_IF_ERROR(read_int_or(file, "attention.indexer.key_length", 2, 8192, 0, c.index_dim));
  STRATA_RETURN_IF_ERROR(read_int_or(file, "attention.indexer.top_k", 1, 1 << 24, 0, c.index_budget));
  return {};
}

Status read_layer_kinds(const GgufFile& file, int blocks, Config& c) {
  int interval = 4;
  STRATA_RETURN_IF_ERROR(read_int_or(file, "full_attention_interval", 1, 4096, 4, interval));
  for (int il = 0; il < c.layers; ++il) {
    c.layer_kinds.push_back((il + 1) % interval == 0 ? memory::LayerKind::kAttention
                                                     : memory::LayerKind::kGdn);
  }
  STRATA_ASSIGN_OR_RETURN(
      const auto recurrent,
      file.find<std::vector<uint32_t>>(full_key("attention.recurrent_layers")));
  if (recurrent) {
    if (recurrent->size() < static_cast<size_t>(c.layers)) {
      return bad(file, "attention.recurrent_layers",
                 fmt::format("has {} entries for {} layers", recurrent->size(), c.layers));
    }
    for (size_t il = 0; il < c.layer_kinds.size(); ++il) {
      c.layer_kinds[il] = (*recurrent)[il] != 0 ? memory::LayerKind::kGdn
                                                : memory::LayerKind::kAttention;
    }
  }

  c.ratios.assign(static_cast<size_t>(c.layers), 0);
  STRATA_ASSIGN_OR_RETURN(const auto ratios,
                          file.find<std::vector<uint32_t>>(full_key("attention.compress_ratios")));
  if (!ratios) return {};
  if (ratios->size() < static_cast<size_t>(c.layers) ||
      ratios->size() > static_cast<size_t>(blocks)) {
    return bad(file, "attention.compress_ratios",
               fmt::format("has {} entries for {} blocks", ratios->size(), blocks));
  }
  for (size_t il = 0; il < c.ratios.size(); ++il) {
    if (c.layer_kinds[il] != memory::LayerKind::kAttention || (*ratios)[il] == 0) continue;
    if ((*ratios)[il] > 4096) return bad(file, "attention.compress_ratios", "names a ratio above 4096");
    c.ratios[il] = static_cast<int>((*ratios)[il]);
    if (c.index_heads == 0 || c.index_dim < c.rot_dim || c.index_budget < c.ratios[il]) {
      return bad(file, "attention.indexer",
                 fmt::format("describes no usable indexer ({} heads of {}, budget {}) for layer {}, "
                             "whose compression ratio is {}",
                             c.index_heads, c.index_dim, c.index_budget, il, c.ratios[il]));
    }
  }
  return {};
}

Status read_gdn(const GgufFile& file, Config& c) {
  STRATA_RETURN_IF_ERROR(read_int(file, "ssm.conv_kernel", 2, 64, c.conv_width));
  STRATA_RETURN_IF_ERROR(read_int(file, "ssm.group_count", 1, 4096, c.key_heads));
  STRATA_RETURN_IF_ERROR(read_int(file, "ssm.time_step_rank", 1, 4096, c.value_heads));
  STRATA_RETURN_IF_ERROR(read_int(file, "ssm.state_size", 1, 4096, c.gdn_head_dim));
  int inner = 0;
  STRATA_RETURN_IF_ERROR(read_int(file, "ssm.inner_size", 1, kMaxWidth, inner));
  if (inner != c.value_heads * c.gdn_head_dim) {
    return bad(file, "ssm.inner_size",
               fmt::format("is {}, expected {} value heads of {}", inner, c.value_heads,
                           c.gdn_head_dim));
  }
  if (c.value_heads % c.key_heads != 0) {
    return bad(file, "ssm.time_step_rank",
               fmt::format("is {}, expected a multiple of the {} key heads", c.value_heads,
                           c.key_heads));
  }
  return {};
}

Status read_moe(const GgufFile& file, Config& c) {
  STRATA_RETURN_IF_ERROR(read_int(file, "expert_count", 1, 65536, c.experts));
  STRATA_RETURN_IF_ERROR(read_int(file, "expert_used_count", 1, c.experts, c.experts_used));
  STRATA_RETURN_IF_ERROR(
      read_int(file, "expert_feed_forward_length", 1, kMaxWidth, c.expert_width));
  STRATA_RETURN_IF_ERROR(
      read_int(file, "expert_shared_feed_forward_length", 1, kMaxWidth, c.shared_expert_width));
  STRATA_ASSIGN_OR_RETURN(const auto scale, file.find<float>(full_key("expert_weights_scale")));
  if (scale && *scale != 0.0f && *scale != 1.0f) {
    return bad(file, "expert_weights_scale",
               fmt::format("is {}; this architecture scales no expert weights", *scale));
  }
  return {};
}

Status read_ple(const GgufFile& file, Config& c) {
  STRATA_ASSIGN_OR_RETURN(const auto layers,
                          file.find<std::vector<uint32_t>>(full_key("ple.layers")));
  if (!layers || layers->empty()) return {};
  if (layers->size() != 1) {
    return bad(file, "ple.layers",
               fmt::format("names {} layers; one is supported", layers->size()));
  }
  const uint32_t layer = layers->front();
  if (layer >= static_cast<uint32_t>(c.layers) ||
      c.layer_kinds[layer] != memory::LayerKind::kGdn) {
    return bad(file, "ple.layers", fmt::format("names layer {}, which is no delta-net layer", layer));
  }
  c.ple_layer = static_cast<int>(layer);
  STRATA_RETURN_IF_ERROR(read_int(file, "ple.ngram_size", 2, 16, c.ple.ngram));
  STRATA_RETURN_IF_ERROR(read_int(file, "ple.heads_per_ngram", 1, 256, c.ple.heads_per_ngram));
  STRATA_RETURN_IF_ERROR(read_int(file, "ple.conv_kernel", 2, 64, c.ple_conv_width));
  STRATA_RETURN_IF_ERROR(
      read_int(file, "embedding_length_per_layer_input", 1, kMaxWidth, c.ple_row_width));
  STRATA_ASSIGN_OR_RETURN(c.ple.eos, file.require<int32_t>(full_key("ple.eos_token_id")));
  STRATA_ASSIGN_OR_RETURN(const auto image,
                          file.find<int32_t>(full_key("ple.image_token_id")));
  c.image_token = image.value_or(-1);
  STRATA_ASSIGN_OR_RETURN(c.ple.multipliers,
                          file.require<std::vector<uint64_t>>(full_key("ple.layer_multipliers")));
  STRATA_ASSIGN_OR_RETURN(c.ple.moduli,
                          file.require<std::vector<uint64_t>>(full_key("ple.head_vocab_sizes")));
  STRATA_ASSIGN_OR_RETURN(c.ple.offsets,
                          file.require<std::vector<uint64_t>>(full_key("ple.head_offsets")));
  const auto heads = static_cast<size_t>(c.ple.heads());
  if (c.ple.multipliers.size() != static_cast<size_t>(c.ple.ngram)) {
    return bad(file, "ple.layer_multipliers",
               fmt::format("has {} entries, expected {}", c.ple.multipliers.size(), c.ple.ngram));
  }
  if (c.ple.moduli.size() != heads || c.ple.offsets.size() != heads) {
    return bad(file, "ple.head_vocab_sizes",
               fmt::format("and head_offsets have {} and {} entries, expected {}",
                           c.ple.moduli.size(), c.ple.offsets.size(), heads));
  }
  for (size_t head = 0; head < heads; ++head) {
    constexpr uint64_t kLimit = uint64_t{1} << 48;
    if (c.ple.moduli[head] == 0 || c.ple.moduli[head] > kLimit || c.ple.offsets[head] > kLimit) {
      return bad(file, "ple.head_vocab_sizes",
                 fmt::format("entry {} is {} at offset {}, which no table can have", head,
                             c.ple.moduli[head], c.ple.offsets[head]));
    }
  }
  return {};
}

}  // namespace

Result<Config> Config::read(const GgufFile& file) {
  STRATA_ASSIGN_OR_RETURN(const auto architecture,
                          file.require<std::string_view>("general.architecture"));
  if (architecture != kArchitecture) {
    return failed_precondition(
        "{}: architecture '{}'; this engine runs '{}' (Qwen3.8-Flash-Next) only", file.path(),
        architecture, kArchitecture);
  }
  Config c;
  int blocks = 0;
  STRATA_RETURN_IF_ERROR(read_int(file, "block_count", 1, 4096, blocks));
  STRATA_RETURN_IF_ERROR(
      read_int_or(file, "nextn_predict_layers", 0, blocks, 0, c.draft_layers));
  c.layers = blocks - c.draft_layers;
  if (c.layers == 0) {
    return failed_precondition(
        "{}: the file holds a draft layer and no trunk; open the model file it belongs to",
        file.path());
  }
  STRATA_RETURN_IF_ERROR(read_int(file, "context_length", 1, 1 << 30, c.context));
  STRATA_RETURN_IF_ERROR(read_int(file, "embedding_length", 1, kMaxWidth, c.width));
  STRATA_ASSIGN_OR_RETURN(c.eps,
                          file.require<float>(full_key("attention.layer_norm_rms_epsilon")));
  if (!(c.eps > 0)) return bad(file, "attention.layer_norm_rms_epsilon", "must be positive");
  STRATA_RETURN_IF_ERROR(read_int(file, "hyper_connection.count", 2, 64, c.streams));
  STRATA_RETURN_IF_ERROR(read_int(file, "hyper_connection.low_rank", 1, kMaxWidth, c.hc_rank));
  STRATA_RETURN_IF_ERROR(read_attention(file, c));
  STRATA_RETURN_IF_ERROR(read_layer_kinds(file, blocks, c));
  STRATA_RETURN_IF_ERROR(read_gdn(file, c));
  STRATA_RETURN_IF_ERROR(read_moe(file, c));
  STRATA_RETURN_IF_ERROR(read_ple(file, c));

  const TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2 ||
      embedding->shape[1] > (int64_t{1} << 30)) {
    return failed_precondition("{}: no usable matrix token_embd.weight", file.path());
  }
  c.vocabulary = static_cast<int>(embedding->shape[1]);
  return c;
}

memory::StateShape Config::state_shape() const {
  memory::StateShape shape;
  shape.layers = layer_kinds;
  shape.value_heads = value_heads;
  shape.gdn_head_dim = gdn_head_dim;
  shape.conv_channels = conv_channels();
  shape.conv_width = conv_width;
  shape.ratios = ratios;
  shape.kv_width = kv_heads * head_dim;
  shape.kv_head_dim = head_dim;
  shape.index_dim = index_dim;
  shape.rot_dim = rot_dim;
  if (has_ple()) {
    shape.ple_layer = ple_layer;
    shape.ple_tail = (ple_conv_width - 1) * ple.ngram;
    shape.ple_width = wide();
  }
  return shape;
}

}  // namespace strata::model
