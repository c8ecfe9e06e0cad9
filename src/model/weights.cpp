#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace strata::model {

using backend::Buffer;
using backend::Device;
using backend::WeightRef;

namespace {

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Trailing extents of 1 carry no information: a vector may be stored as [n], [n, 1], ...
bool same_shape(std::span<const int64_t> a, std::span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  for (size_t i = 0; i < rank; ++i) {
    if ((i < a.size() ? a[i] : 1) != (i < b.size() ? b[i] : 1)) return false;
  }
  return true;
}

// Finds tensors and places them. Problems are collected, so that one message lists them all.
class Loader {
 public:
  Loader(const GgufFile& file, Device& device, Weights& weights, bool check_only)
      : file_(file), device_(device), weights_(weights), check_only_(check_only) {}

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  // A matrix of n rows of k, or `experts` of them.
  WeightRef matrix(const std::string& name, int64_t k, int64_t n, int64_t experts = 1) {
    const std::vector<int64_t> shape =
        experts == 1 ? std::vector<int64_t>{k, n} : std::vector<int64_t>{k, n, experts};
    const TensorInfo* tensor = find(name, shape);
    if (tensor == nullptr || check_only_) return {};
    WeightRef w{.data = place(*tensor),
                .type = tensor->type,
                .k = k,
                .n = n,
                .experts = experts,
                .scale = nullptr,
                .scale_count = 0};
    attach_scale(name, experts, w);
    return w;
  }

  // A small tensor as floats, whatever type it is stored in.
  const float* vector(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo* tensor = find(name, shape);
    if (tensor == nullptr) return nullptr;
    return check_only_ ? nullptr : floats(*tensor);
  }

  Status status() const {
    if (!failure_.ok()) return failure_;
    if (problems_.empty()) return {};
    constexpr size_t kShown = 8;
    std::string list;
    for (size_t i = 0; i < std::min(kShown, problems_.size()); ++i) {
      list += (i == 0 ? "" : "; ") + problems_[i];
    }
    if (problems_.size() > kShown) list += fmt::format("; and {} more", problems_.size() - kShown);
    return failed_precondition("{}: not a usable qwen4exp model: {}", file_.path(), list);
  }

 private:
  const TensorInfo* find(const std::string& name, std::span<const int64_t> shape) {
    const TensorInfo* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      problems_.push_back(
          fmt::format("tensor {} is missing (expected shape {})", name, shape_text(shape)));
      return nullptr;
    }
    if (!same_shape(tensor->shape, shape)) {
      problems_.push_back(fmt::format("tensor {} has shape {}, expected {}", name,
                                      tensor->shape_text(), shape_text(shape)));
      return nullptr;
    }
    return tensor;
  }

  const void* place(const TensorInfo& tensor) {
    const auto bytes = file_.data(tensor);
    if (device_.shares_host_memory()) return bytes.data();
    return upload(bytes.data(), bytes.size());
  }

  const void* upload(const void* data, size_t bytes) {
    if (!failure_.ok()) return nullptr;
    auto buffer = device_.allocate(bytes);
    if (!buffer.ok()) {
      failure_ = buffer.status();
      return nullptr;
    }
    if (Status copied = device_.copy_to_device(buffer->data(), data, bytes); !copied.ok()) {
      failure_ = copied;
      return nullptr;
    }
    weights_.owned.push_back(std::move(*buffer));
    return weights_.owned.back().data();
  }

  const float* floats(const TensorInfo& tensor) {
    const auto bytes = file_.data(tensor);
    const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) == 0;
    const auto count = static_cast<size_t>(tensor.elems());
    if (tensor.type == QuantType::kF32 && aligned) {
      check_finite(tensor, {reinterpret_cast<const float*>(bytes.data()), count});
      return static_cast<const float*>(place(tensor));
    }
    std::vector<float> values(count);
    decode_row(tensor.type, bytes.data(), values.data(), tensor.elems());
    check_finite(tensor, values);
    return static_cast<const float*>(upload(values.data(), values.size() * sizeof(float)));
  }

  // One bad norm or bias spoils every token, and later stages may hide where it came from.
  void check_finite(const TensorInfo& tensor, std::span<const float> values) {
    const auto bad = std::find_if_not(values.begin(), values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad == values.end()) return;
    problems_.push_back(
        fmt::format("value {} of tensor {} is not finite", bad - values.begin(), tensor.name));
  }

  // "X.scale" beside "X.weight": one factor, or one per expert (2.7).
  void attach_scale(const std::string& name, int64_t experts, WeightRef& w) {
    constexpr std::string_view kSuffix = ".weight";
    if (!name.ends_with(kSuffix)) return;
    const TensorInfo* scale =
        file_.find_tensor(name.substr(0, name.size() - kSuffix.size()) + ".scale");
    if (scale == nullptr) return;
    if (scale->elems() != 1 && scale->elems() != experts) {
      problems_.push_back(fmt::format("tensor {} has {} values, expected 1 or {}", scale->name,
                                      scale->elems(), experts));
      return;
    }
    w.scale = floats(*scale);
    w.scale_count = scale->elems();
  }

  const GgufFile& file_;
  Device& device_;
  Weights& weights_;
  bool check_only_;
  std::vector<std::string> problems_;
  Status failure_;
};

HcWeights load_hc(Loader& load, const Config& c, const std::string& prefix, bool inject) {
  HcWeights w;
  w.norm = load.vector(prefix + "_norm.weight", {c.wide()});
  w.down = load.matrix(prefix + "_down.weight", c.wide(), c.hc_rank);
  w.up = load.matrix(prefix + "_up.weight", c.hc_rank, c.wide());
  if (inject) w.inject = load.matrix(prefix + "_inject.weight", c.wide(), c.streams);
  return w;
}

GdnWeights load_gdn(Loader& load, const Config& c, const std::string& b) {
  const int64_t value_width = static_cast<int64_t>(c.value_heads) * c.gdn_head_dim;
  GdnWeights w;
  w.qkv = load.matrix(b + "attn_qkv.weight", c.width, c.conv_channels());
  w.gate = load.matrix(b + "attn_gate.weight", c.width, value_width);
  w.alpha = load.matrix(b + "ssm_alpha.weight", c.width, c.value_heads);
  w.beta = load.matrix(b + "ssm_beta.weight", c.width, c.value_heads);
  w.conv = load.vector(b + "ssm_conv1d.weight", {c.conv_width, c.conv_channels()});
  w.dt_bias = load.vector(b + "ssm_dt.bias", {c.value_heads});
  w.a_log = load.vector(b + "ssm_a", {c.value_heads});
  w.norm = load.vector(b + "ssm_norm.weight", {c.gdn_head_dim});
  w.out = load.matrix(b + "ssm_out.weight", value_width, c.width);
  return w;
}

AttentionWeights load_attention(Loader& load, const Config& c, const std::string& b, int ratio) {
  const int64_t q_width = static_cast<int64_t>(c.heads) * c.head_dim;
  const int64_t kv_width = static_cast<int64_t>(c.kv_heads) * c.head_dim;
  AttentionWeights w;
  w.q = load.matrix(b + "attn_q.weight", c.width, 2 * q_width);
  w.k = load.matrix(b + "attn_k.weight", c.width, kv_width);
  w.v = load.matrix(b + "attn_v.weight", c.width, kv_width);
  w.out = load.matrix(b + "attn_output.weight", q_width, c.width);
  w.q_norm = load.vector(b + "attn_q_norm.weight", {c.head_dim});
  w.k_norm = load.vector(b + "attn_k_norm.weight", {c.head_dim});
  if (ratio > 0) {
    w.index_q = load.matrix(b + "indexer.q_proj.weight", c.width,
                            static_cast<int64_t>(c.index_heads) * c.index_dim);
    w.index_k = load.matrix(b + "indexer.k_proj.weight", c.width, c.index_dim);
    w.index_q_norm = load.vector(b + "indexer.q_norm.weight", {c.index_dim});
    w.index_k_norm = load.vector(b + "indexer.k_norm.weight", {c.index_dim});
  }
  return w;
}

MoeWeights load_moe(Loader& load, const Config& c, const std::string& b) {
  MoeWeights w;
  w.router = load.matrix(b + "ffn_gate_inp.weight", c.width, c.experts);
  if (load.has(b + "ffn_gate_up_exps.weight")) {
    w.gate = load.matrix(b + "ffn_gate_up_exps.weight", c.width, 2 * c.expert_width, c.experts);
  } else {
    w.gate = load.matrix(b + "ffn_gate_exps.weight", c.width, c.expert_width, c.experts);
    w.up = load.matrix(b + "ffn_up_exps.weight", c.width, c.expert_width, c.experts);
  }
  w.down = load.matrix(b + "ffn_down_exps.weight", c.expert_width, c.width, c.experts);
  w.shared_gate_inp = load.matrix(b + "ffn_gate_inp_shexp.weight", c.width, 1);
  w.shared_gate = load.matrix(b + "ffn_gate_shexp.weight", c.width, c.shared_expert_width);
  w.shared_up = load.matrix(b + "ffn_up_shexp.weight", c.width, c.shared_expert_width);
  w.shared_down = load.matrix(b + "ffn_down_shexp.weight", c.shared_expert_width, c.width);
  return w;
}

PleWeights load_ple(Loader& load, const Config& c, const std::string& b) {
  const int64_t rows = static_cast<int64_t>(c.ple.heads()) * c.ple_row_width;
  PleWeights w;
  w.key = load.matrix(b + "ple_key.weight", rows, c.wide());
  w.value = load.matrix(b + "ple_value.weight", rows, c.width);
  w.norm_key = load.vector(b + "ple_norm_key.weight", {c.wide()});
  w.norm_query = load.vector(b + "ple_norm_query.weight", {c.wide()});
  w.norm_conv = load.vector(b + "ple_norm_conv.weight", {c.wide()});
  w.conv = load.vector(b + "ple_conv1d.weight", {c.ple_conv_width, c.wide()});
  return w;
}

Status load_all(const GgufFile& file, const Config& c, Device& device, LayerRange range,
                bool check_only, Weights& out) {
  Loader load(file, device, out, check_only);
  out.layers.assign(static_cast<size_t>(c.layers), {});
  const bool tied = !load.has("output.weight");
  const bool first = range.first == 0, last = range.end == c.layers;
  if (first || (last && tied)) {
    out.token_embd = load.matrix("token_embd.weight", c.width, c.vocabulary);
  }
  if (last) {
    out.output = tied ? out.token_embd : load.matrix("output.weight", c.width, c.vocabulary);
    out.output_hc = load_hc(load, c, "output_hc", /*inject=*/false);
  }
  for (int il = range.first; il < range.end; ++il) {
    const auto layer = static_cast<size_t>(il);
    const std::string b = fmt::format("blk.{}.", il);
    LayerWeights& w = out.layers[layer];
    w.hc_attn = load_hc(load, c, b + "hc_attn", /*inject=*/true);
    w.hc_ffn = load_hc(load, c, b + "hc_ffn", /*inject=*/true);
    if (c.layer_kinds[layer] == memory::LayerKind::kGdn) {
      w.gdn = load_gdn(load, c, b);
    } else {
      w.attention = load_attention(load, c, b, c.ratios[layer]);
    }
    w.moe = load_moe(load, c, b);
    if (il == c.ple_layer) out.ple = load_ple(load, c, b);
  }
  return load.status();
}

Status load_ple_table(const std::shared_ptr<const GgufFile>& file, const Config& c, Weights& out) {
  const TensorInfo* tensor = file->find_tensor("per_layer_token_embd.weight");
  if (tensor == nullptr || tensor->row_elems() != c.ple_row_width) {
    return failed_precondition(
        "{}: the n-gram table per_layer_token_embd.weight {}, expected rows of {}; it may lie in a "
        "shard of its own that belongs beside this file",
        file->path(), tensor == nullptr ? "is missing" : "has shape " + tensor->shape_text(),
        c.ple_row_width);
  }
  STRATA_ASSIGN_OR_RETURN(memory::PleTable table, memory::PleTable::create(file, *tensor, c.ple));
  out.ple_table = std::move(table);
  return {};
}

}  // namespace

Result<Weights> load_weights(std::shared_ptr<const GgufFile> file, const Config& config,
                             Device& device, LayerRange range) {
  Weights weights;
  const LayerRange everything{0, config.layers};
  STRATA_RETURN_IF_ERROR(load_all(*file, config, device, everything, /*check_only=*/true, weights));
  weights = {};
  if (range.first <= config.ple_layer && config.ple_layer < range.end) {
    STRATA_RETURN_IF_ERROR(load_ple_table(file, config, weights));
  }
  STRATA_RETURN_IF_ERROR(load_all(*file, config, device, range, /*check_only=*/false, weights));
  weights.file = std::move(file);
  return weights;
}

}  // namespace strata::model
