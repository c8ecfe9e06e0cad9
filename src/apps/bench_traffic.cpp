#include "apps/bench_traffic.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace strata::apps {

namespace {

// N of "blk.N.rest"; -1 for any other name.
int layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '.';
  return whole ? layer : -1;
}

bool is_expert(std::string_view name) { return name.find("_exps.") != std::string_view::npos; }

int64_t bytes_of_row(const TensorInfo& tensor) {
  return static_cast<int64_t>(row_bytes(tensor.type, tensor.row_elems()));
}

}  // namespace

WeightTraffic weight_traffic(std::span<const TensorInfo> tensors, const model::Config& config) {
  WeightTraffic traffic;
  traffic.expert.assign(static_cast<size_t>(config.layers), 0);
  int64_t embedding = 0;
  for (const TensorInfo& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.bytes);
    const std::string_view name = tensor.name;
    if (const int layer = layer_of(name); layer >= 0) {
      if (layer >= config.layers) continue;
      if (is_expert(name)) {
        traffic.expert[static_cast<size_t>(layer)] += bytes / std::max(config.experts, 1);
      } else {
        traffic.dense += bytes;
      }
    } else if (name == "token_embd.weight") {
      embedding = bytes;
      traffic.per_token += bytes_of_row(tensor);
    } else if (name == "per_layer_token_embd.weight") {
      if (config.has_ple()) traffic.per_token += config.ple.heads() * bytes_of_row(tensor);
    } else if (name == "output.weight") {
      traffic.head = bytes;
    } else if (name.starts_with("output")) {
      traffic.dense += bytes;
    }
  }
  if (traffic.head == 0) traffic.head = embedding;  // tied: the table is the head too
  return traffic;
}

int64_t state_traffic(const model::Config& config, backend::KvType kv_type, int64_t seen) {
  const int64_t cell =
      2 * backend::kv_bytes(kv_type, static_cast<int64_t>(config.kv_heads) * config.head_dim);
  const auto floats = static_cast<int64_t>(sizeof(float));
  int64_t bytes = 0;
  for (size_t layer = 0; layer < config.layer_kinds.size(); ++layer) {
    if (config.layer_kinds[layer] == memory::LayerKind::kGdn) {
      const int64_t state =
          static_cast<int64_t>(config.value_heads) * config.gdn_head_dim * config.gdn_head_dim;
      const int64_t tail = static_cast<int64_t>(config.conv_width - 1) * config.conv_channels();
      bytes += (state + tail) * floats;
      continue;
    }
    const int ratio = config.ratios[layer];
    int64_t cells = seen;
    if (ratio > 0 && seen >= config.index_budget + ratio) {
      cells = config.index_budget / ratio * ratio + seen % ratio;
      bytes += seen / ratio * config.index_dim * floats;
    }
    bytes += cells * cell;
  }
  if (config.has_ple()) {
    const int64_t tail = static_cast<int64_t>(config.ple_conv_width - 1) * config.ple.ngram;
    bytes += tail * config.wide() * floats;
  }
  return bytes;
}

}  // namespace strata::apps
