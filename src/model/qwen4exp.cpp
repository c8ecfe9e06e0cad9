// The forward pass, top to bottom as docs/MODEL.md section 3 tells it. Row-wise ops run over all
// rows of the batch at once; ops with sequence state run item by item.
#include "model/qwen4exp.h"

#include <algorithm>

#include "model/rope.h"
#include "model/workspace.h"
#include "ops/ops.h"

namespace strata::model {

using namespace backend;
using memory::LayerKind;
using memory::SequenceState;

struct Qwen4Exp::Impl {
  Device& device;
  Config config;
  Weights weights;
  Workspace ws{};
  QsaForm qsa_form = QsaForm::kHf;
  ForwardObserver observer{};

  // One call of forward(): its items and where their rows lie. Kept from call to call, as all host
  // buffers here are, so that a decode step allocates nothing.
  struct Step {
    std::span<const BatchItem> items;
    std::vector<int> first_row;  // per item
    int rows = 0;
    std::vector<int> head_rows;  // rows whose logits are wanted
  };
  Step step{};
  std::vector<float> rope_table{};
  std::vector<TokenId> ngram_window{};
  std::vector<uint64_t> ngram_rows{};
  std::vector<float> ngram_values{};

  Stream& stream() { return device.stream(); }

  Status plan(std::span<const BatchItem> batch);
  Status load_inputs();
  Status load_rope();
  Status inject_ngrams();
  Status mix(const HcWeights& hc, int rows, const float* residual, float* x, float* inject_weight);
  Status combine(int rows);
  Status run_gdn(size_t layer);
  Status run_attention(size_t layer);
  Status run_moe(int rows, size_t layer);
  Status run_layer(size_t layer);
  Status run_head(std::vector<float>& logits);
  Status project(const WeightRef& w, const float* x, int rows, float* y) {
    return ops::matmul(stream(), {.w = w, .x = x, .y = y, .rows = rows});
  }
  Status observe_residual(int layer, int rows);
};

Qwen4Exp::Qwen4Exp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Qwen4Exp::~Qwen4Exp() = default;

Result<std::unique_ptr<Qwen4Exp>> Qwen4Exp::load(std::shared_ptr<const GgufFile> file,
                                                 Device& device) {
  STRATA_ASSIGN_OR_RETURN(Config config, Config::read(*file));
  STRATA_ASSIGN_OR_RETURN(Weights weights, load_weights(std::move(file), config, device));
  auto impl = std::unique_ptr<Impl>(
      new Impl{device, std::move(config), std::move(weights)});
  return std::unique_ptr<Qwen4Exp>(new Qwen4Exp(std::move(impl)));
}

const Config& Qwen4Exp::config() const { return impl_->config; }
void Qwen4Exp::set_qsa_form(QsaForm form) { impl_->qsa_form = form; }
void Qwen4Exp::set_observer(ForwardObserver observer) { impl_->observer = std::move(observer); }

Result<SequenceState> Qwen4Exp::new_sequence(KvType kv_type, int64_t capacity) const {
  return SequenceState::create(impl_->device, impl_->config.state_shape(), kv_type, capacity);
}

Status Qwen4Exp::forward(std::span<const BatchItem> batch, std::vector<float>& logits) {
  Impl& m = *impl_;
  STRATA_RETURN_IF_ERROR(m.plan(batch));
  const Impl::Step& step = m.step;
  int64_t longest = 0;
  for (const BatchItem& item : batch) {
    longest = std::max(longest, item.sequence->length() + static_cast<int64_t>(item.tokens.size()));
  }
  STRATA_RETURN_IF_ERROR(m.ws.reserve(m.device, m.config, step.rows,
                                      static_cast<int64_t>(step.head_rows.size()), longest));

  STRATA_RETURN_IF_ERROR(m.load_inputs());
  STRATA_RETURN_IF_ERROR(m.load_rope());
  STRATA_RETURN_IF_ERROR(m.observe_residual(-1, step.rows));
  for (size_t layer = 0; layer < m.weights.layers.size(); ++layer) {
    if (const Status status = m.run_layer(layer); !status.ok()) {
      return status.with_context(fmt::format("layer {}", layer));
    }
    STRATA_RETURN_IF_ERROR(m.observe_residual(static_cast<int>(layer), step.rows));
  }
  STRATA_RETURN_IF_ERROR(m.run_head(logits).with_context("head"));
  STRATA_RETURN_IF_ERROR(m.stream().synchronize());

  for (const BatchItem& item : batch) {
    const int next = item.positions.empty()
                         ? item.sequence->next_position() + static_cast<int>(item.tokens.size())
                         : item.next_position;
    item.sequence->append(item.tokens, next);
  }
  return {};
}

Status Qwen4Exp::Impl::plan(std::span<const BatchItem> batch) {
  step.items = batch;
  step.first_row.clear();
  step.head_rows.clear();
  step.rows = 0;
  for (const BatchItem& item : batch) {
    const auto count = static_cast<int>(item.tokens.size());
    if (count == 0) return invalid_argument("a batch item without tokens");
    if (item.sequence->length() + count > item.sequence->capacity()) {
      return out_of_range("{} tokens and {} more do not fit a context of {}",
                          item.sequence->length(), count, item.sequence->capacity());
    }
    for (const TokenId id : item.tokens) {
      if (id < 0 || id >= config.vocabulary) {
        return invalid_argument("token id {} is outside the vocabulary of {}", id,
                                config.vocabulary);
      }
    }
    if (!item.positions.empty() && item.positions.size() != item.tokens.size()) {
      return invalid_argument("{} positions for {} tokens", item.positions.size(), count);
    }
    step.first_row.push_back(step.rows);
    if (item.logits == LogitsOf::kEveryToken) {
      for (int i = 0; i < count; ++i) step.head_rows.push_back(step.rows + i);
    } else if (item.logits == LogitsOf::kLastToken) {
      step.head_rows.push_back(step.rows + count - 1);
    }
    step.rows += count;
  }
  return {};
}

// Token embeddings, or picture embeddings in their place, copied to every stream.
Status Qwen4Exp::Impl::load_inputs() {
  for (size_t i = 0; i < step.items.size(); ++i) {
    const BatchItem& item = step.items[i];
    STRATA_RETURN_IF_ERROR(device.copy_to_device(ws.ids + step.first_row[i], item.tokens.data(),
                                                 item.tokens.size_bytes()));
  }
  STRATA_RETURN_IF_ERROR(ops::embed(
      stream(), {.table = weights.token_embd, .ids = ws.ids, .out = ws.x, .rows = step.rows}));
  for (size_t i = 0; i < step.items.size(); ++i) {
    for (const EmbeddingRows& rows : step.items[i].embeddings) {
      const size_t row = static_cast<size_t>(step.first_row[i]) + rows.first;
      STRATA_RETURN_IF_ERROR(
          device.copy_to_device(ws.x + row * static_cast<size_t>(config.width), rows.rows.data(),
                                rows.rows.size_bytes()));
    }
  }
  return ops::hc_broadcast(stream(), {.e = ws.x,
                                      .residual = ws.residual,
                                      .rows = step.rows,
                                      .streams = config.streams,
                                      .width = config.width});
}

Status Qwen4Exp::Impl::load_rope() {
  const auto rot = static_cast<size_t>(config.rot_dim);
  rope_table.resize(static_cast<size_t>(step.rows) * rot);
  size_t row = 0;
  for (const BatchItem& item : step.items) {
    for (size_t t = 0; t < item.tokens.size(); ++t, ++row) {
      const int text = item.sequence->next_position() + static_cast<int>(t);
      const Position position =
          item.positions.empty() ? Position{text, text, text} : item.positions[t];
      rope_row(config, position, std::span(rope_table).subspan(row * rot, rot));
    }
  }
  return device.copy_to_device(ws.rope, rope_table.data(), rope_table.size() * sizeof(float));
}

Status Qwen4Exp::Impl::observe_residual(int layer, int rows) {
  if (!observer.on_residual) return {};
  std::vector<float> host(static_cast<size_t>(rows) * static_cast<size_t>(config.wide()));
  STRATA_RETURN_IF_ERROR(stream().synchronize());
  STRATA_RETURN_IF_ERROR(
      device.copy_to_host(host.data(), ws.residual, host.size() * sizeof(float)));
  observer.on_residual(layer, host);
  return {};
}

// Hyper-connection read side (3.2).
Status Qwen4Exp::Impl::mix(const HcWeights& hc, int rows, const float* residual, float* x,
                           float* inject_weight) {
  return ops::hc_read(stream(), {.residual = residual,
                                 .norm = hc.norm,
                                 .down = hc.down,
                                 .up = hc.up,
                                 .inject = hc.inject,
                                 .eps = config.eps,
                                 .x = x,
                                 .inject_weight = inject_weight,
                                 .scratch = ws.hc_scratch,
                                 .rows = rows,
                                 .streams = config.streams,
                                 .width = config.width,
                                 .rank = config.hc_rank});
}

// R_s += w_s * y (3.2, step 6).
Status Qwen4Exp::Impl::combine(int rows) {
  return ops::hc_write(stream(), {.residual = ws.residual,
                                  .y = ws.y,
                                  .inject_weight = ws.inject_weight,
                                  .rows = rows,
                                  .streams = config.streams,
                                  .width = config.width});
}

Status Qwen4Exp::Impl::run_layer(size_t layer) {
  const LayerWeights& w = weights.layers[layer];
  if (static_cast<int>(layer) == config.ple_layer) {
    STRATA_RETURN_IF_ERROR(inject_ngrams());
  }
  STRATA_RETURN_IF_ERROR(mix(w.hc_attn, step.rows, ws.residual, ws.x, ws.inject_weight));
  STRATA_RETURN_IF_ERROR(config.layer_kinds[layer] == LayerKind::kGdn ? run_gdn(layer)
                                                                      : run_attention(layer));
  STRATA_RETURN_IF_ERROR(combine(step.rows));

  STRATA_RETURN_IF_ERROR(mix(w.hc_ffn, step.rows, ws.residual, ws.x, ws.inject_weight));
  STRATA_RETURN_IF_ERROR(run_moe(step.rows, layer));
  return combine(step.rows);
}

// Hashed n-gram embedding (3.3).
Status Qwen4Exp::Impl::inject_ngrams() {
  const PleWeights& w = weights.ple;
  const int64_t ple_width = weights.ple_table->width();
  for (size_t i = 0; i < step.items.size(); ++i) {
    const BatchItem& item = step.items[i];
    // Look-back needs only the last few tokens of the past.
    const auto& past = item.sequence->tokens();
    const size_t keep =
        std::min(past.size(), static_cast<size_t>(weights.ple_table->hash().ngram - 1));
    ngram_window.assign(past.end() - static_cast<ptrdiff_t>(keep), past.end());
    ngram_window.insert(ngram_window.end(), item.tokens.begin(), item.tokens.end());
    ngram_values.resize(item.tokens.size() * static_cast<size_t>(ple_width));
    weights.ple_table->gather(ngram_window, keep, ngram_rows, ngram_values.data());
    STRATA_RETURN_IF_ERROR(device.copy_to_device(ws.ple_rows + step.first_row[i] * ple_width,
                                                 ngram_values.data(),
                                                 ngram_values.size() * sizeof(float)));
  }
  STRATA_RETURN_IF_ERROR(project(w.key, ws.ple_rows, step.rows, ws.ple_key));
  STRATA_RETURN_IF_ERROR(project(w.value, ws.ple_rows, step.rows, ws.ple_value));
  for (size_t i = 0; i < step.items.size(); ++i) {
    const int64_t first = step.first_row[i];
    STRATA_RETURN_IF_ERROR(
        ops::ple_inject(stream(), {.key = ws.ple_key + first * config.wide(),
                                   .value = ws.ple_value + first * config.width,
                                   .norm_key = w.norm_key,
                                   .norm_query = w.norm_query,
                                   .norm_conv = w.norm_conv,
                                   .conv = w.conv,
                                   .conv_state = step.items[i].sequence->ple_conv(),
                                   .residual = ws.residual + first * config.wide(),
                                   .scratch = ws.ple_scratch,
                                   .eps = config.eps,
                                   .rows = static_cast<int>(step.items[i].tokens.size()),
                                   .streams = config.streams,
                                   .width = config.width,
                                   .conv_width = config.ple_conv_width,
                                   .dilation = config.ple.ngram}));
  }
  return {};
}

// Gated delta net (3.5).
Status Qwen4Exp::Impl::run_gdn(size_t layer) {
  const GdnWeights& w = weights.layers[layer].gdn;
  STRATA_RETURN_IF_ERROR(project(w.qkv, ws.x, step.rows, ws.qkv));
  STRATA_RETURN_IF_ERROR(project(w.gate, ws.x, step.rows, ws.z));
  STRATA_RETURN_IF_ERROR(project(w.alpha, ws.x, step.rows, ws.alpha));
  STRATA_RETURN_IF_ERROR(project(w.beta, ws.x, step.rows, ws.beta));
  const int64_t value_width = static_cast<int64_t>(config.value_heads) * config.gdn_head_dim;
  for (size_t i = 0; i < step.items.size(); ++i) {
    const int64_t first = step.first_row[i];
    const memory::GdnState& state = step.items[i].sequence->gdn(layer);
    STRATA_RETURN_IF_ERROR(ops::gdn(stream(), {.qkv = ws.qkv + first * config.conv_channels(),
                                               .z = ws.z + first * value_width,
                                               .alpha = ws.alpha + first * config.value_heads,
                                               .beta = ws.beta + first * config.value_heads,
                                               .conv = w.conv,
                                               .dt_bias = w.dt_bias,
                                               .a_log = w.a_log,
                                               .norm = w.norm,
                                               .conv_state = state.conv,
                                               .state = state.state,
                                               .out = ws.gdn_out + first * value_width,
                                               .scratch = ws.gdn_scratch,
                                               .eps = config.eps,
                                               .rows = static_cast<int>(step.items[i].tokens.size()),
                                               .key_heads = config.key_heads,
                                               .value_heads = config.value_heads,
                                               .head_dim = config.gdn_head_dim,
                                               .conv_width = config.conv_width}));
  }
  return project(w.out, ws.gdn_out, step.rows, ws.y);
}

// Attention over the cells that the indexer selects (3.6, 3.7).
Status Qwen4Exp::Impl::run_attention(size_t layer) {
  const AttentionWeights& w = weights.layers[layer].attention;
  const int ratio = config.ratios[layer];
  STRATA_RETURN_IF_ERROR(project(w.q, ws.x, step.rows, ws.q));
  STRATA_RETURN_IF_ERROR(project(w.k, ws.x, step.rows, ws.k));
  STRATA_RETURN_IF_ERROR(project(w.v, ws.x, step.rows, ws.v));
  if (ratio > 0) {
    STRATA_RETURN_IF_ERROR(project(w.index_q, ws.x, step.rows, ws.index_q));
    STRATA_RETURN_IF_ERROR(project(w.index_k, ws.x, step.rows, ws.index_k));
  }
  const int64_t q_width = 2 * static_cast<int64_t>(config.heads) * config.head_dim;
  const int64_t kv_width = static_cast<int64_t>(config.kv_heads) * config.head_dim;
  const int64_t index_width = static_cast<int64_t>(config.index_heads) * config.index_dim;
  for (size_t i = 0; i < step.items.size(); ++i) {
    const int64_t first = step.first_row[i];
    const int rows = static_cast<int>(step.items[i].tokens.size());
    const int64_t start = step.items[i].sequence->length();
    const memory::AttentionState& state = step.items[i].sequence->attention(layer);
    float* q = ws.q + first * q_width;
    float* index_q = ratio > 0 ? ws.index_q + first * index_width : nullptr;
    int32_t* cells = ws.cells + first * ws.max_cells;

    STRATA_RETURN_IF_ERROR(ops::qsa_prepare(
        stream(), {.q = q,
                   .k = ws.k + first * kv_width,
                   .v = ws.v + first * kv_width,
                   .index_q = index_q,
                   .index_k = ratio > 0 ? ws.index_k + first * config.index_dim : nullptr,
                   .q_norm = w.q_norm,
                   .k_norm = w.k_norm,
                   .index_q_norm = w.index_q_norm,
                   .index_k_norm = w.index_k_norm,
                   .rope = ws.rope + first * config.rot_dim,
                   .tail_rope = state.tail_rope,
                   .cache = state.kv,
                   .eps = config.eps,
                   .start = start,
                   .rows = rows,
                   .heads = config.heads,
                   .kv_heads = config.kv_heads,
                   .head_dim = config.head_dim,
                   .rot_dim = config.rot_dim,
                   .ratio = ratio,
                   .index_heads = config.index_heads,
                   .index_dim = config.index_dim}));
    STRATA_RETURN_IF_ERROR(ops::qsa_select(stream(), {.index_q = index_q,
                                                      .block_keys = state.kv.block_keys,
                                                      .cells = cells,
                                                      .counts = ws.counts + first,
                                                      .scratch = ws.scores,
                                                      .scratch_stride = ws.score_stride,
                                                      .start = start,
                                                      .form = qsa_form,
                                                      .total = start + rows,
                                                      .rows = rows,
                                                      .index_heads = config.index_heads,
                                                      .index_dim = config.index_dim,
                                                      .ratio = ratio,
                                                      .budget = config.index_budget,
                                                      .max_cells = ws.max_cells}));
    STRATA_RETURN_IF_ERROR(ops::attention(
        stream(), {.q = q,
                   .cache = state.kv,
                   .cells = cells,
                   .counts = ws.counts + first,
                   .out = ws.attention_out + first * config.heads * config.head_dim,
                   .scale = config.attention_scale,
                   .start = start,
                   .rows = rows,
                   .heads = config.heads,
                   .kv_heads = config.kv_heads,
                   .head_dim = config.head_dim,
                   .max_cells = ws.max_cells}));
  }
  return project(w.out, ws.attention_out, step.rows, ws.y);
}

// Mixture of experts with a gated shared expert (3.8).
Status Qwen4Exp::Impl::run_moe(int rows, size_t layer) {
  const MoeWeights& w = weights.layers[layer].moe;
  STRATA_RETURN_IF_ERROR(ops::router(stream(), {.w = w.router,
                                                .x = ws.x,
                                                .ids = ws.expert_ids,
                                                .weights = ws.expert_weights,
                                                .scratch = ws.router_scratch,
                                                .rows = rows,
                                                .used = config.experts_used}));
  if (observer.on_routes) {
    const auto count = static_cast<size_t>(rows) * static_cast<size_t>(config.experts_used);
    std::vector<int32_t> ids(count);
    std::vector<float> route_weights(count);
    STRATA_RETURN_IF_ERROR(stream().synchronize());
    STRATA_RETURN_IF_ERROR(device.copy_to_host(ids.data(), ws.expert_ids, count * sizeof(int32_t)));
    STRATA_RETURN_IF_ERROR(
        device.copy_to_host(route_weights.data(), ws.expert_weights, count * sizeof(float)));
    observer.on_routes(static_cast<int>(layer), ids, route_weights);
  }
  STRATA_RETURN_IF_ERROR(ops::experts(stream(), {.gate = w.gate,
                                                 .up = w.up,
                                                 .down = w.down,
                                                 .x = ws.x,
                                                 .ids = ws.expert_ids,
                                                 .weights = ws.expert_weights,
                                                 .y = ws.y,
                                                 .scratch = ws.expert_scratch,
                                                 .rows = rows,
                                                 .used = config.experts_used,
                                                 .width = config.width,
                                                 .hidden = config.expert_width}));

  STRATA_RETURN_IF_ERROR(project(w.shared_gate, ws.x, rows, ws.shared_gate));
  STRATA_RETURN_IF_ERROR(project(w.shared_up, ws.x, rows, ws.shared_up));
  STRATA_RETURN_IF_ERROR(ops::swiglu(stream(), {.gate = ws.shared_gate,
                                                .up = ws.shared_up,
                                                .out = ws.shared_gate,
                                                .rows = rows,
                                                .width = config.shared_expert_width}));
  STRATA_RETURN_IF_ERROR(project(w.shared_down, ws.shared_gate, rows, ws.shared_out));
  return ops::shared_expert_add(stream(), {.gate = w.shared_gate_inp,
                                           .x = ws.x,
                                           .d = ws.shared_out,
                                           .y = ws.y,
                                           .rows = rows,
                                           .width = config.width});
}

// Final mixer and vocabulary head, for the rows whose logits are wanted.
Status Qwen4Exp::Impl::run_head(std::vector<float>& logits) {
  const auto rows = static_cast<int>(step.head_rows.size());
  logits.resize(static_cast<size_t>(rows) * static_cast<size_t>(config.vocabulary));
  if (rows == 0) return {};
  const auto wide = static_cast<size_t>(config.wide());
  for (size_t i = 0; i < step.head_rows.size(); ++i) {
    STRATA_RETURN_IF_ERROR(device.copy_on_device(
        ws.head_rows + i * wide, ws.residual + static_cast<size_t>(step.head_rows[i]) * wide,
        wide * sizeof(float)));
  }
  STRATA_RETURN_IF_ERROR(mix(weights.output_hc, rows, ws.head_rows, ws.x, nullptr));
  STRATA_RETURN_IF_ERROR(project(weights.output, ws.x, rows, ws.logits));
  STRATA_RETURN_IF_ERROR(stream().synchronize());
  return device.copy_to_host(logits.data(), ws.logits, logits.size() * sizeof(float));
}

}  // namespace strata::model
