// The forward pass, top to bottom as docs/MODEL.md section 3 tells it. Row-wise ops run over all
// rows of the step at once; ops with sequence state run item by item.
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "model/rope.h"
#include "model/stage.h"
#include "ops/ops.h"

namespace strata::model {

using namespace backend;
using memory::LayerKind;

namespace {

// A device names the layer of its faults itself, and knows when it is an earlier one.
Status in_context(const Status& status, std::string_view context) {
  return status.code() == StatusCode::kUnavailable ? status : status.with_context(context);
}

}  // namespace

Result<std::unique_ptr<Stage>> Stage::load(std::shared_ptr<const GgufFile> file,
                                           const Config& config, Device& device, LayerRange range) {
  STRATA_ASSIGN_OR_RETURN(Weights weights, load_weights(std::move(file), config, device, range));
  return std::unique_ptr<Stage>(new Stage(device, config, range, std::move(weights)));
}

Status Stage::begin(const Step& step, Handoff* in, Flow flow) {
  step_ = &step;
  const Status status = begin_step(in, flow);
  if (!status.ok()) stream().mark("", -1);
  return status;
}

Status Stage::finish(Handoff* out) {
  const Status status = finish_step(out);
  stream().mark("", -1);
  return status;
}

Status Stage::collect(std::vector<float>& logits) {
  if (!is_last()) return {};
  logit_rows_ = step_->head_rows.size();
  if (flow_ == Flow::kStream && logit_rows_ == 0) return {};
  stream().mark("head", -1);
  const Status status = step_->top == nullptr ? fetch_logits(logits) : fetch_top(*step_->top);
  stream().mark("", -1);
  return status;
}

void Stage::settle() {
  for (const Turn& turn : turns_) {
    if (turn.end != nullptr) (void)turn.end->synchronize();
  }
  (void)stream().synchronize();
}

Status Stage::begin_step(Handoff* in, Flow flow) {
  entry_ = nullptr;
  flow_ = flow;
  turn_ = flow == Flow::kStream ? 1 - turn_ : 0;
  tokens_ = step_->longest;
  stream().mark("layer", range_.first);
  if (flow == Flow::kStream) {
    Turn& turn = turns_[turn_];
    if (turn.end == nullptr) {
      STRATA_ASSIGN_OR_RETURN(turn.end, device_.make_copy_lane());
    }
    // The step before the last one is done: its host memory and its residual are free.
    STRATA_RETURN_IF_ERROR(turn.end->synchronize());
    if (!is_first()) STRATA_RETURN_IF_ERROR(in->check());
  }
  const bool replays = replayable();
  if (replays) tokens_ = room_of_recording(tokens_);
  const size_t which = is_first() && is_last() ? 0 : turn_;
  STRATA_RETURN_IF_ERROR(ws_.reserve(device_, config_, step_->rows, head_rows(), tokens_, which));
  if (replays) entry_ = &graphs_.find(replay_key(head_rows()));
  STRATA_RETURN_IF_ERROR(load_inputs());
  if (is_first()) return {};
  if (injects_ngrams()) STRATA_RETURN_IF_ERROR(load_ngrams());
  return in->receive(ws_.residual, flow, only_replays(entry_));
}

bool Stage::only_replays(const DecodeGraphs::Entry* entry) const {
  if (entry == nullptr || !entry->ran) return false;
  const auto ready = [](const auto& part) { return part != nullptr && part->valid(); };
  const bool split = injects_ngrams() && config_.ple_layer > range_.first;
  return ready(entry->parts[1]) && (!split || ready(entry->parts[0]));
}

bool Stage::repeats(const Step& step) {
  step_ = &step;
  if (!replayable()) return false;
  tokens_ = room_of_recording(step.longest);
  return only_replays(graphs_.known(replay_key(head_rows())));
}

Status Stage::finish_step(Handoff* out) {
  const int middle = injects_ngrams() ? config_.ple_layer : range_.first;
  // The device is at work while the host looks up n-grams.
  if (middle > range_.first) STRATA_RETURN_IF_ERROR(run_part(0, {range_.first, middle}));
  if (injects_ngrams() && is_first()) STRATA_RETURN_IF_ERROR(load_ngrams());
  STRATA_RETURN_IF_ERROR(run_part(1, {middle, range_.end}));
  if (entry_ != nullptr) entry_->ran = true;
  if (!is_last()) {
    const size_t values = static_cast<size_t>(step_->rows) * static_cast<size_t>(config_.wide());
    STRATA_RETURN_IF_ERROR(out->send(ws_.residual, values, flow_));
  }
  return flow_ == Flow::kStream ? turns_[turn_].end->follow_stream() : Status();
}

bool Stage::replayable() {
  if (refused_ || !stream().records()) return false;
  if (observer_ != nullptr && (observer_->on_residual || observer_->on_routes)) return false;
  const auto rows = static_cast<size_t>(step_->rows);
  const bool all_or_none = step_->head_rows.empty() || step_->head_rows.size() == rows;
  return step_->items.size() == rows && (!is_last() || all_or_none) &&
         std::all_of(step_->items.begin(), step_->items.end(),
                     [](const StepItem& item) { return item.embeddings.empty(); });
}

std::span<const uint64_t> Stage::replay_key(int64_t head_rows) {
  key_.clear();
  const auto number = [this](auto value) { key_.push_back(static_cast<uint64_t>(value)); };
  const auto address = [&](const void* p) { number(reinterpret_cast<uintptr_t>(p)); };
  address(ws_.base());
  address(ws_.residual);
  number(step_->rows);
  number(head_rows);
  number(tokens_);
  number(qsa_form_);
  for (const StepItem& item : step_->items) {
    number(item.sequence->capacity());
    address(item.sequence->ple_conv());
    for (int l = range_.first; l < range_.end; ++l) {
      const auto layer = static_cast<size_t>(l);
      if (config_.layer_kinds[layer] == LayerKind::kGdn) {
        const memory::GdnState& state = item.sequence->gdn(layer);
        address(state.conv);
        address(state.state);
        continue;
      }
      const memory::AttentionState& state = item.sequence->attention(layer);
      number(state.kv.type);
      for (const void* p : {state.kv.k, state.kv.v}) address(p);
      for (const float* p : {state.kv.block_keys, state.kv.tail_keys, state.kv.k_scales,
                             state.kv.v_scales, state.tail_rope}) {
        address(p);
      }
    }
  }
  return key_;
}

Status Stage::run_part(size_t part, LayerRange layers) {
  if (entry_ == nullptr || !entry_->ran) return launch_part(layers);
  std::unique_ptr<Recording>& recording = entry_->parts[part];
  if (recording == nullptr || !recording->valid()) {
    auto made = stream().record([this, layers] { return launch_part(layers); });
    if (!made.ok()) {
      // If the device itself is at fault, launching tells.
      log::info("{}: decode steps are launched kernel by kernel: {}", device_.caps().id,
                made.status().message());
      refused_ = true;
      return launch_part(layers);
    }
    recording = std::move(*made);
  }
  STRATA_RETURN_IF_ERROR(recording->replay());
  const bool head = is_last() && layers.end == range_.end;
  stream().mark(head ? "head" : "layer", head ? -1 : layers.end - 1);
  return {};
}

Status Stage::launch_part(LayerRange layers) {
  if (layers.first == 0) {
    STRATA_RETURN_IF_ERROR(launch_embeddings());
    STRATA_RETURN_IF_ERROR(observe_residual(-1));
  }
  for (int layer = layers.first; layer < layers.end; ++layer) {
    stream().mark("layer", layer);
    if (const Status status = run_layer(static_cast<size_t>(layer)); !status.ok()) {
      return in_context(status, fmt::format("layer {}", layer));
    }
    STRATA_RETURN_IF_ERROR(observe_residual(layer));
  }
  if (!is_last() || layers.end != range_.end) return {};
  stream().mark("head", -1);
  return in_context(launch_head(), "head");
}

Status Stage::project(std::initializer_list<Product> products, const float* x, int rows) {
  return ops::matmul(stream(), {.x = x, .rows = rows, .products = products});
}
Status Stage::project(const WeightRef& w, const float* x, int rows, float* y) {
  return project({{w, y}}, x, rows);
}

// Positions, token ids and rotations.
Status Stage::load_inputs() {
  STRATA_ASSIGN_OR_RETURN(const std::span<float> room,
                          turns_[turn_].inputs.room(device_, ws_.input_bytes / sizeof(float)));
  // Where the host keeps what goes to `p`.
  const auto host = [&](const auto* p) {
    const auto* first = reinterpret_cast<const std::byte*>(ws_.starts);
    return reinterpret_cast<std::byte*>(room.data()) +
           (reinterpret_cast<const std::byte*>(p) - first);
  };
  const auto rot = static_cast<size_t>(config_.rot_dim);
  auto* rope = reinterpret_cast<float*>(host(ws_.rope));
  for (size_t i = 0; i < step_->items.size(); ++i) {
    const StepItem& item = step_->items[i];
    if (entry_ != nullptr) std::memcpy(host(ws_.starts + i), &item.start, sizeof item.start);
    std::memcpy(host(ws_.ids + item.first_row), item.tokens.data(), item.tokens.size_bytes());
    for (size_t t = 0; t < item.tokens.size(); ++t, rope += rot) {
      const int text = item.first_position + static_cast<int>(t);
      const Position position =
          item.positions.empty() ? Position{text, text, text} : item.positions[t];
      rope_row(config_, position, {rope, rot});
    }
  }
  return device_.copy_to_device(ws_.starts, room.data(), ws_.input_bytes);
}

// Token embeddings, or picture embeddings in their place, copied to every stream.
Status Stage::launch_embeddings() {
  STRATA_RETURN_IF_ERROR(ops::embed(
      stream(), {.table = weights_.token_embd, .ids = ws_.ids, .out = ws_.x, .rows = step_->rows}));
  for (size_t i = 0; i < step_->items.size(); ++i) {
    for (const EmbeddingRows& rows : step_->items[i].embeddings) {
      const size_t row = static_cast<size_t>(step_->items[i].first_row) + rows.first;
      STRATA_RETURN_IF_ERROR(
          device_.copy_to_device(ws_.x + row * static_cast<size_t>(config_.width), rows.rows.data(),
                                 rows.rows.size_bytes()));
    }
  }
  return ops::hc_broadcast(stream(), {.e = ws_.x,
                                      .residual = ws_.residual,
                                      .rows = step_->rows,
                                      .streams = config_.streams,
                                      .width = config_.width});
}

Status Stage::observe_residual(int layer) {
  if (observer_ == nullptr || !observer_->on_residual) return {};
  std::vector<float> host(static_cast<size_t>(step_->rows) * static_cast<size_t>(config_.wide()));
  STRATA_RETURN_IF_ERROR(stream().synchronize());
  STRATA_RETURN_IF_ERROR(
      device_.copy_to_host(host.data(), ws_.residual, host.size() * sizeof(float)));
  observer_->on_residual(layer, host);
  return {};
}

// Hyper-connection read side (3.2).
Status Stage::mix(const HcWeights& hc, int rows, const float* residual, float* x,
                  float* inject_weight) {
  return ops::hc_read(stream(), {.residual = residual,
                                 .norm = hc.norm,
                                 .down = hc.down,
                                 .up = hc.up,
                                 .inject = hc.inject,
                                 .eps = config_.eps,
                                 .x = x,
                                 .inject_weight = inject_weight,
                                 .scratch = ws_.hc_scratch,
                                 .rows = rows,
                                 .streams = config_.streams,
                                 .width = config_.width,
                                 .rank = config_.hc_rank});
}

// R_s += w_s * y (3.2, step 6).
Status Stage::combine(int rows) {
  return ops::hc_write(stream(), {.residual = ws_.residual,
                                  .y = ws_.y,
                                  .inject_weight = ws_.inject_weight,
                                  .rows = rows,
                                  .streams = config_.streams,
                                  .width = config_.width});
}

Status Stage::run_layer(size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  if (static_cast<int>(layer) == config_.ple_layer) {
    STRATA_RETURN_IF_ERROR(inject_ngrams());
  }
  STRATA_RETURN_IF_ERROR(mix(w.hc_attn, step_->rows, ws_.residual, ws_.x, ws_.inject_weight));
  STRATA_RETURN_IF_ERROR(config_.layer_kinds[layer] == LayerKind::kGdn ? run_gdn(layer)
                                                                       : run_attention(layer));
  STRATA_RETURN_IF_ERROR(combine(step_->rows));

  STRATA_RETURN_IF_ERROR(mix(w.hc_ffn, step_->rows, ws_.residual, ws_.x, ws_.inject_weight));
  STRATA_RETURN_IF_ERROR(run_moe(step_->rows, layer));
  return combine(step_->rows);
}

// Rows of the n-gram table (3.3).
Status Stage::load_ngrams() {
  stream().mark("layer", config_.ple_layer);
  const Status status = in_context(look_up_ngrams(), fmt::format("layer {}", config_.ple_layer));
  stream().mark("layer", range_.first);
  return status;
}

Status Stage::look_up_ngrams() {
  const auto width = static_cast<size_t>(weights_.ple_table->width());
  const size_t values = static_cast<size_t>(step_->rows) * width;
  STRATA_ASSIGN_OR_RETURN(const std::span<float> rows, turns_[turn_].ngram_values.room(device_, values));
  for (const StepItem& item : step_->items) {
    const auto past = step_->past.begin() + static_cast<ptrdiff_t>(item.past);
    ngram_window_.assign(past, past + static_cast<ptrdiff_t>(item.past_count));
    ngram_window_.insert(ngram_window_.end(), item.tokens.begin(), item.tokens.end());
    weights_.ple_table->gather(ngram_window_, item.past_count, ngram_rows_,
                               rows.data() + static_cast<size_t>(item.first_row) * width);
  }
  return device_.copy_to_device(ws_.ple_rows, rows.data(), values * sizeof(float));
}

// Hashed n-gram embedding (3.3).
Status Stage::inject_ngrams() {
  const PleWeights& w = weights_.ple;
  STRATA_RETURN_IF_ERROR(
      project({{w.key, ws_.ple_key}, {w.value, ws_.ple_value}}, ws_.ple_rows, step_->rows));
  for (size_t i = 0; i < step_->items.size(); ++i) {
    const int64_t first = step_->items[i].first_row;
    STRATA_RETURN_IF_ERROR(
        ops::ple_inject(stream(), {.key = ws_.ple_key + first * config_.wide(),
                                   .value = ws_.ple_value + first * config_.width,
                                   .norm_key = w.norm_key,
                                   .norm_query = w.norm_query,
                                   .norm_conv = w.norm_conv,
                                   .conv = w.conv,
                                   .conv_state = step_->items[i].sequence->ple_conv(),
                                   .residual = ws_.residual + first * config_.wide(),
                                   .scratch = ws_.ple_scratch,
                                   .eps = config_.eps,
                                   .rows = static_cast<int>(step_->items[i].tokens.size()),
                                   .streams = config_.streams,
                                   .width = config_.width,
                                   .conv_width = config_.ple_conv_width,
                                   .dilation = config_.ple.ngram}));
  }
  return {};
}

// Gated delta net (3.5).
Status Stage::run_gdn(size_t layer) {
  const GdnWeights& w = weights_.layers[layer].gdn;
  STRATA_RETURN_IF_ERROR(
      project({{w.qkv, ws_.qkv}, {w.gate, ws_.z}, {w.alpha, ws_.alpha}, {w.beta, ws_.beta}}, ws_.x,
              step_->rows));
  const int64_t value_width = static_cast<int64_t>(config_.value_heads) * config_.gdn_head_dim;
  for (size_t i = 0; i < step_->items.size(); ++i) {
    const int64_t first = step_->items[i].first_row;
    const memory::GdnState& state = step_->items[i].sequence->gdn(layer);
    STRATA_RETURN_IF_ERROR(
        ops::gdn(stream(), {.qkv = ws_.qkv + first * config_.conv_channels(),
                            .z = ws_.z + first * value_width,
                            .alpha = ws_.alpha + first * config_.value_heads,
                            .beta = ws_.beta + first * config_.value_heads,
                            .conv = w.conv,
                            .dt_bias = w.dt_bias,
                            .a_log = w.a_log,
                            .norm = w.norm,
                            .conv_state = state.conv,
                            .state = state.state,
                            .out = ws_.gdn_out + first * value_width,
                            .scratch = ws_.gdn_scratch,
                            .eps = config_.eps,
                            .rows = static_cast<int>(step_->items[i].tokens.size()),
                            .key_heads = config_.key_heads,
                            .value_heads = config_.value_heads,
                            .head_dim = config_.gdn_head_dim,
                            .conv_width = config_.conv_width}));
  }
  return project(w.out, ws_.gdn_out, step_->rows, ws_.y);
}

// Attention over the cells that the indexer selects (3.6, 3.7).
Status Stage::run_attention(size_t layer) {
  const AttentionWeights& w = weights_.layers[layer].attention;
  const int ratio = config_.ratios[layer];
  STRATA_RETURN_IF_ERROR(
      ratio > 0 ? project({{w.q, ws_.q},
                           {w.k, ws_.k},
                           {w.v, ws_.v},
                           {w.index_q, ws_.index_q},
                           {w.index_k, ws_.index_k}},
                          ws_.x, step_->rows)
                : project({{w.q, ws_.q}, {w.k, ws_.k}, {w.v, ws_.v}}, ws_.x, step_->rows));
  const int64_t q_width = 2 * static_cast<int64_t>(config_.heads) * config_.head_dim;
  const int64_t kv_width = static_cast<int64_t>(config_.kv_heads) * config_.head_dim;
  const int64_t index_width = static_cast<int64_t>(config_.index_heads) * config_.index_dim;
  for (size_t i = 0; i < step_->items.size(); ++i) {
    const int64_t first = step_->items[i].first_row;
    const int rows = static_cast<int>(step_->items[i].tokens.size());
    const memory::SequenceState& sequence = *step_->items[i].sequence;
    const memory::AttentionState& state = sequence.attention(layer);
    // Of a step that is recorded: the largest start it will serve, and where each finds its own.
    const int64_t* start_at = entry_ != nullptr ? ws_.starts + i : nullptr;
    const int64_t start = entry_ != nullptr ? std::min(tokens_, sequence.capacity()) - 1
                                            : step_->items[i].start;
    float* q = ws_.q + first * q_width;
    float* index_q = ratio > 0 ? ws_.index_q + first * index_width : nullptr;
    int32_t* cells = ws_.cells + first * ws_.max_cells;

    STRATA_RETURN_IF_ERROR(ops::qsa_prepare(
        stream(), {.q = q,
                   .k = ws_.k + first * kv_width,
                   .v = ws_.v + first * kv_width,
                   .index_q = index_q,
                   .index_k = ratio > 0 ? ws_.index_k + first * config_.index_dim : nullptr,
                   .q_norm = w.q_norm,
                   .k_norm = w.k_norm,
                   .index_q_norm = w.index_q_norm,
                   .index_k_norm = w.index_k_norm,
                   .rope = ws_.rope + first * config_.rot_dim,
                   .tail_rope = state.tail_rope,
                   .cache = state.kv,
                   .eps = config_.eps,
                   .start = start,
                   .start_at = start_at,
                   .rows = rows,
                   .heads = config_.heads,
                   .kv_heads = config_.kv_heads,
                   .head_dim = config_.head_dim,
                   .rot_dim = config_.rot_dim,
                   .ratio = ratio,
                   .index_heads = config_.index_heads,
                   .index_dim = config_.index_dim}));
    STRATA_RETURN_IF_ERROR(ops::qsa_select(stream(), {.index_q = index_q,
                                                      .block_keys = state.kv.block_keys,
                                                      .cells = cells,
                                                      .counts = ws_.counts + first,
                                                      .scratch = ws_.scores,
                                                      .scratch_stride = ws_.score_stride,
                                                      .start = start,
                                                      .start_at = start_at,
                                                      .form = qsa_form_,
                                                      .total = start + rows,
                                                      .rows = rows,
                                                      .index_heads = config_.index_heads,
                                                      .index_dim = config_.index_dim,
                                                      .ratio = ratio,
                                                      .budget = config_.index_budget,
                                                      .max_cells = ws_.max_cells}));
    STRATA_RETURN_IF_ERROR(ops::attention(
        stream(), {.q = q,
                   .cache = state.kv,
                   .cells = cells,
                   .counts = ws_.counts + first,
                   .out = ws_.attention_out + first * config_.heads * config_.head_dim,
                   .scale = config_.attention_scale,
                   .start = start,
                   .start_at = start_at,
                   .rows = rows,
                   .heads = config_.heads,
                   .kv_heads = config_.kv_heads,
                   .head_dim = config_.head_dim,
                   .max_cells = ws_.max_cells}));
  }
  return project(w.out, ws_.attention_out, step_->rows, ws_.y);
}

// Mixture of experts with a gated shared expert (3.8).
Status Stage::run_moe(int rows, size_t layer) {
  const MoeWeights& w = weights_.layers[layer].moe;
  STRATA_RETURN_IF_ERROR(ops::router(stream(), {.w = w.router,
                                                .x = ws_.x,
                                                .ids = ws_.expert_ids,
                                                .weights = ws_.expert_weights,
                                                .scratch = ws_.router_scratch,
                                                .rows = rows,
                                                .used = config_.experts_used}));
  if (observer_ != nullptr && observer_->on_routes) {
    const auto count = static_cast<size_t>(rows) * static_cast<size_t>(config_.experts_used);
    std::vector<int32_t> ids(count);
    std::vector<float> route_weights(count);
    STRATA_RETURN_IF_ERROR(stream().synchronize());
    STRATA_RETURN_IF_ERROR(
        device_.copy_to_host(ids.data(), ws_.expert_ids, count * sizeof(int32_t)));
    STRATA_RETURN_IF_ERROR(
        device_.copy_to_host(route_weights.data(), ws_.expert_weights, count * sizeof(float)));
    observer_->on_routes(static_cast<int>(layer), ids, route_weights);
  }
  STRATA_RETURN_IF_ERROR(ops::experts(stream(), {.gate = w.gate,
                                                 .up = w.up,
                                                 .down = w.down,
                                                 .x = ws_.x,
                                                 .ids = ws_.expert_ids,
                                                 .weights = ws_.expert_weights,
                                                 .y = ws_.y,
                                                 .scratch = ws_.expert_scratch,
                                                 .rows = rows,
                                                 .used = config_.experts_used,
                                                 .width = config_.width,
                                                 .hidden = config_.expert_width}));

  STRATA_RETURN_IF_ERROR(
      project({{w.shared_gate, ws_.shared_gate}, {w.shared_up, ws_.shared_up}}, ws_.x, rows));
  STRATA_RETURN_IF_ERROR(ops::swiglu(stream(), {.gate = ws_.shared_gate,
                                                .up = ws_.shared_up,
                                                .out = ws_.shared_gate,
                                                .rows = rows,
                                                .width = config_.shared_expert_width}));
  STRATA_RETURN_IF_ERROR(project(w.shared_down, ws_.shared_gate, rows, ws_.shared_out));
  return ops::shared_expert_add(stream(), {.gate = w.shared_gate_inp,
                                           .x = ws_.x,
                                           .d = ws_.shared_out,
                                           .y = ws_.y,
                                           .rows = rows,
                                           .width = config_.width});
}

// Final mixer and vocabulary head, for the rows whose logits are wanted.
Status Stage::launch_head() {
  const auto rows = static_cast<int>(step_->head_rows.size());
  if (rows == 0) return {};
  const auto wide = static_cast<size_t>(config_.wide());
  const bool all = rows == step_->rows;
  for (size_t i = 0; i < step_->head_rows.size() && !all; ++i) {
    STRATA_RETURN_IF_ERROR(device_.copy_on_device(
        ws_.head_rows + i * wide, ws_.residual + static_cast<size_t>(step_->head_rows[i]) * wide,
        wide * sizeof(float)));
  }
  STRATA_RETURN_IF_ERROR(
      mix(weights_.output_hc, rows, all ? ws_.residual : ws_.head_rows, ws_.x, nullptr));
  return project(weights_.output, ws_.x, rows, ws_.logits);
}

Status Stage::fetch_logits(std::vector<float>& logits) {
  logits.resize(logit_rows_ * static_cast<size_t>(config_.vocabulary));
  STRATA_RETURN_IF_ERROR(stream().synchronize());
  return device_.copy_to_host(logits.data(), ws_.logits, logits.size() * sizeof(float));
}

Status Stage::fetch_top(TopLogits& top) {
  const size_t count = logit_rows_ * static_cast<size_t>(top.k);
  top.values.resize(count);
  top.tokens.resize(count);
  if (count == 0) return stream().synchronize();
  // Values, then tokens, for one copy.
  auto* tokens = reinterpret_cast<int32_t*>(ws_.top + count);
  STRATA_RETURN_IF_ERROR(in_context(
      ops::top_k_logits(stream(), {.logits = ws_.logits,
                                   .stride = config_.vocabulary,
                                   .values = ws_.top,
                                   .ids = tokens,
                                   .scratch = ws_.top_scratch,
                                   .rows = static_cast<int>(logit_rows_),
                                   .valid = top.valid,
                                   .k = top.k}),
      "head"));
  STRATA_ASSIGN_OR_RETURN(const std::span<float> host, top_.room(device_, 2 * count));
  STRATA_RETURN_IF_ERROR(device_.copy_to_host(host.data(), ws_.top, host.size_bytes()));
  std::memcpy(top.values.data(), host.data(), count * sizeof(float));
  std::memcpy(top.tokens.data(), host.data() + count, count * sizeof(TokenId));
  return {};
}

}  // namespace strata::model
