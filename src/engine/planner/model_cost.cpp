#include "engine/planner/model_cost.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>

#include "model/decode_graphs.h"

namespace strata::engine {

namespace {

// Kernels that the ops of one layer launch on a card, from the drivers (backend/gpu/drivers).
constexpr int kLaunchesGdn = 22;
constexpr int kLaunchesAttention = 28;

// Drivers hand out large pieces of memory in pages of this size, small ones from shared pages.
constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr uint64_t kSmallPiece = 512;

uint64_t placed(uint64_t bytes) {
  const uint64_t unit = bytes < kPage / 2 ? kSmallPiece : kPage;
  return (bytes + unit - 1) / unit * unit;
}

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

double matrix_elems(const TensorInfo& tensor) {
  return tensor.shape.size() < 2 ? 0.0 : static_cast<double>(tensor.elems());
}

void add_tensor(LayerCost& layer, const TensorInfo& tensor) {
  const int experts = std::max(layer.experts, 1);
  if (is_expert(tensor.name)) {
    // Rounded up, so that all experts together are never counted smaller than they are.
    layer.expert_bytes += (placed(tensor.bytes) + static_cast<uint64_t>(experts) - 1) /
                          static_cast<uint64_t>(experts);
    layer.expert_macs += matrix_elems(tensor) / experts;
  } else {
    layer.dense_bytes += placed(tensor.bytes);
    layer.dense_macs += matrix_elems(tensor);
  }
}

LayerCost gdn_layer(const model::Config& config) {
  LayerCost cost;
  const double state =
      static_cast<double>(config.value_heads) * config.gdn_head_dim * config.gdn_head_dim;
  const double tail = static_cast<double>(config.conv_width - 1) * config.conv_channels();
  cost.state_bytes = static_cast<uint64_t>((state + tail) * sizeof(float));
  // Decay, prediction, update and read-out of the state.
  cost.state_macs = 4 * state;
  cost.launches = kLaunchesGdn;
  return cost;
}

LayerCost attention_layer(const model::Config& config, int ratio) {
  LayerCost cost;
  cost.kv_values = 2 * config.kv_heads * config.head_dim;
  cost.attention_macs = 2.0 * config.heads * config.head_dim;
  if (ratio > 0) {
    // The tail of the last block, and the key of the block that a whole context ends in.
    cost.state_bytes =
        (static_cast<uint64_t>(ratio) * static_cast<uint64_t>(config.index_dim + config.rot_dim) +
         static_cast<uint64_t>(config.index_dim)) *
        sizeof(float);
    cost.index_bytes = static_cast<double>(config.index_dim) * sizeof(float) / ratio;
    cost.index_macs = static_cast<double>(config.index_heads) * config.index_dim / ratio;
    cost.most_cells = config.index_budget + ratio - 1;
  }
  cost.launches = kLaunchesAttention;
  return cost;
}

// The activations of model/workspace.cpp.
void add_workspace(ModelCost& cost, const model::Config& c) {
  const double value_width = static_cast<double>(c.value_heads) * c.gdn_head_dim;
  const double query_width = static_cast<double>(c.heads) * c.head_dim;
  const double kv_width = static_cast<double>(c.kv_heads) * c.head_dim;
  int largest_ratio = 0, smallest_ratio = 0;
  for (const int ratio : c.ratios) {
    if (ratio == 0) continue;
    largest_ratio = std::max(largest_ratio, ratio);
    smallest_ratio = smallest_ratio == 0 ? ratio : std::min(smallest_ratio, ratio);
  }
  double values = c.wide() + 2.0 * c.width + c.streams + 2.0 * c.wide() + c.hc_rank + 1;
  values += 2.0 * c.conv_channels() + 2 * value_width + 2.0 * c.value_heads;
  values += 3 * query_width + 2 * kv_width + static_cast<double>(c.index_heads + 1) * c.index_dim +
            c.rot_dim + 1;
  if (largest_ratio > 0) values += c.index_budget + largest_ratio - 1;
  values += 2.0 * c.experts_used + c.experts;
  values += c.experts_used * (2.0 * c.expert_width + c.width);
  values += 2.0 * c.shared_expert_width + c.width;
  if (c.has_ple())
    values += static_cast<double>(c.ple.heads()) * c.ple_row_width + 3.0 * c.wide() + c.width;
  if (smallest_ratio > 0) {
    values += 1;
    cost.row_bytes_per_token = static_cast<double>(sizeof(float)) / smallest_ratio;
  }
  cost.row_bytes = values * sizeof(float);
  using TopK = backend::TopKLogitsArgs;
  cost.head_row_bytes = (static_cast<double>(c.wide()) + c.vocabulary + 2.0 * TopK::kMost +
                         static_cast<double>(TopK::groups(c.vocabulary))) *
                        sizeof(float);
}

}  // namespace

uint64_t layer_cache_bytes(const LayerCost& layer, backend::KvType type, int64_t context) {
  // Keys and values are two pieces, indexer keys a third.
  const int64_t half = backend::kv_bytes(type, layer.kv_values / 2 * context);
  const double index = std::ceil(layer.index_bytes * static_cast<double>(context));
  return 2 * placed(static_cast<uint64_t>(half)) + placed(static_cast<uint64_t>(index));
}

uint64_t ModelCost::workspace_bytes(int64_t rows, int64_t head_rows, int64_t context) const {
  // Every piece begins at a multiple of 256 bytes, and the block is cut a quarter larger.
  constexpr double kPieces = 40.0 * 256;
  const double n = static_cast<double>(rows);
  const double bytes = n * (row_bytes + row_bytes_per_token * static_cast<double>(context)) +
                       static_cast<double>(head_rows) * head_row_bytes + kPieces;
  return placed(static_cast<uint64_t>(bytes * 1.25));
}

uint64_t ModelCost::handoff_bytes(int64_t rows) const {
  return placed(static_cast<uint64_t>(rows) * static_cast<uint64_t>(wide) * sizeof(float) * 5 / 4);
}

uint64_t ModelCost::step_bytes(int64_t chunk, int64_t window_rows, int64_t context) const {
  const uint64_t prompt = workspace_bytes(std::max(chunk, window_rows), window_rows, context);
  const uint64_t decode =
      workspace_bytes(window_rows, window_rows, model::room_of_recording(context));
  return std::max(prompt, decode) + unpacked_bytes(chunk);
}

uint64_t ModelCost::unpacked_bytes(int64_t rows) {
  constexpr int64_t kUnpackRows = 512;
  constexpr uint64_t kUnpackBytes = uint64_t{50} << 20;
  return rows >= kUnpackRows ? kUnpackBytes : 0;
}

uint64_t ModelCost::expert_bytes() const {
  uint64_t bytes = 0;
  for (const LayerCost& layer : layers)
    bytes += layer.expert_bytes * static_cast<uint64_t>(layer.experts);
  return bytes;
}

uint64_t ModelCost::weight_bytes() const {
  uint64_t bytes = embedding_bytes + head_bytes + expert_bytes();
  for (const LayerCost& layer : layers) bytes += layer.dense_bytes;
  return bytes;
}

uint64_t ModelCost::cache_bytes(backend::KvType type, int64_t context) const {
  uint64_t bytes = 0;
  for (const LayerCost& layer : layers) bytes += layer_cache_bytes(layer, type, context);
  return bytes;
}

Result<ModelCost> ModelCost::read(const GgufFile& file, const model::Config& config) {
  ModelCost cost;
  cost.name = file.path();
  cost.experts_used = config.experts_used;
  cost.wide = config.wide();
  for (int il = 0; il < config.layers; ++il) {
    const auto i = static_cast<size_t>(il);
    cost.layers.push_back(config.layer_kinds[i] == memory::LayerKind::kGdn
                              ? gdn_layer(config)
                              : attention_layer(config, config.ratios[i]));
    cost.layers.back().experts = config.experts;
  }
  if (config.has_ple()) {
    LayerCost& layer = cost.layers[static_cast<size_t>(config.ple_layer)];
    layer.state_bytes += static_cast<uint64_t>(config.ple_conv_width - 1) *
                         static_cast<uint64_t>(config.ple.ngram) *
                         static_cast<uint64_t>(config.wide()) * sizeof(float);
  }
  if (config.draft_layers > 0) {
    cost.draft = attention_layer(config, 0);
    cost.draft->experts = config.experts;
  }
  uint64_t embedding_as_head = 0;
  double embedding_elems = 0;
  bool has_output = false;
  for (const TensorInfo& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (const int layer = layer_of(name); layer >= 0) {
      if (layer < config.layers) {
        add_tensor(cost.layers[static_cast<size_t>(layer)], tensor);
      } else if (cost.draft) {
        add_tensor(*cost.draft, tensor);
      }
    } else if (name == "token_embd.weight") {
      cost.embedding_bytes = embedding_as_head = placed(tensor.bytes);
      embedding_elems = matrix_elems(tensor);
    } else if (name == "per_layer_token_embd.weight") {
      cost.table_bytes = tensor.bytes;
    } else if (name.starts_with("output")) {
      has_output = has_output || name == "output.weight";
      cost.head_bytes += placed(tensor.bytes);
      cost.head_macs += matrix_elems(tensor);
    }
  }
  if (!has_output) {
    cost.tied = true;
    cost.head_bytes += embedding_as_head;
    cost.head_macs += embedding_elems;
  }
  add_workspace(cost, config);
  return cost;
}

}  // namespace strata::engine
