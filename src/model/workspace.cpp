#include "model/workspace.h"

#include <algorithm>

namespace strata::model {

namespace {

// Counts or hands out aligned pieces of a block, depending on whether it has a base.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}

  template <class T>
  void cut(T*& pointer, int64_t rows, int64_t width) {
    constexpr size_t kAlign = 256;
    if (base_ != nullptr) pointer = reinterpret_cast<T*>(base_ + used_);
    const size_t bytes = static_cast<size_t>(rows * width) * sizeof(T);
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

void lay_out(Workspace& w, const Config& c, Cutter& cut, int64_t n, int64_t head_rows) {
  const int64_t value_width = static_cast<int64_t>(c.value_heads) * c.gdn_head_dim;
  cut.cut(w.x, n, c.width);
  cut.cut(w.y, n, c.width);
  cut.cut(w.inject_weight, n, c.streams);
  cut.cut(w.hc_scratch, n, 2 * static_cast<int64_t>(c.wide()) + c.hc_rank);

  const size_t inputs_at = cut.used();
  cut.cut(w.starts, n, 1);
  cut.cut(w.ids, n, 1);
  cut.cut(w.rope, n, c.rot_dim);
  w.input_bytes = cut.used() - inputs_at;

  cut.cut(w.qkv, n, c.conv_channels());
  cut.cut(w.z, n, value_width);
  cut.cut(w.alpha, n, c.value_heads);
  cut.cut(w.beta, n, c.value_heads);
  cut.cut(w.gdn_out, n, value_width);
  cut.cut(w.gdn_scratch, n, c.conv_channels());

  cut.cut(w.q, n, 2 * static_cast<int64_t>(c.heads) * c.head_dim);
  cut.cut(w.k, n, static_cast<int64_t>(c.kv_heads) * c.head_dim);
  cut.cut(w.v, n, static_cast<int64_t>(c.kv_heads) * c.head_dim);
  cut.cut(w.index_q, n, static_cast<int64_t>(c.index_heads) * c.index_dim);
  cut.cut(w.index_k, n, c.index_dim);
  cut.cut(w.attention_out, n, static_cast<int64_t>(c.heads) * c.head_dim);
  cut.cut(w.cells, n, w.max_cells);
  cut.cut(w.counts, n, 1);
  cut.cut(w.scores, n, w.score_stride);

  cut.cut(w.expert_ids, n, c.experts_used);
  cut.cut(w.expert_weights, n, c.experts_used);
  cut.cut(w.router_scratch, n, c.experts);
  cut.cut(w.expert_scratch, n,
          c.experts_used * (2 * static_cast<int64_t>(c.expert_width) + c.width));
  cut.cut(w.shared_gate, n, c.shared_expert_width);
  cut.cut(w.shared_up, n, c.shared_expert_width);
  cut.cut(w.shared_out, n, c.width);

  cut.cut(w.ple_rows, n, c.has_ple() ? c.ple.heads() * c.ple_row_width : 0);
  cut.cut(w.ple_key, n, c.has_ple() ? c.wide() : 0);
  cut.cut(w.ple_value, n, c.has_ple() ? c.width : 0);
  cut.cut(w.ple_scratch, n, c.has_ple() ? 2 * c.wide() : 0);

  cut.cut(w.head_rows, head_rows, c.wide());
  cut.cut(w.logits, head_rows, c.vocabulary);
  using TopK = backend::TopKLogitsArgs;
  cut.cut(w.top, head_rows, 2 * TopK::kMost);
  cut.cut(w.top_scratch, head_rows, TopK::groups(c.vocabulary));
}

}  // namespace

Status Workspace::reserve(backend::Device& device, const Config& config, int64_t rows,
                          int64_t head_rows, int64_t tokens, size_t which) {
  int largest_ratio = 0;
  int smallest_ratio = 0;
  for (const int ratio : config.ratios) {
    if (ratio == 0) continue;
    largest_ratio = std::max(largest_ratio, ratio);
    smallest_ratio = smallest_ratio == 0 ? ratio : std::min(smallest_ratio, ratio);
  }
  max_cells = largest_ratio > 0 ? config.index_budget + largest_ratio - 1 : 0;
  score_stride = smallest_ratio > 0 ? tokens / smallest_ratio + 1 : 0;
  Cutter count(nullptr);
  lay_out(*this, config, count, rows, head_rows);
  if (count.used() > block_.size()) {
    block_ = {};
    // A quarter more, so that a sequence that grows token by token rarely moves the block.
    STRATA_ASSIGN_OR_RETURN(block_, device.allocate(count.used() + count.used() / 4));
  }
  backend::Buffer& travelling = residuals_[which];
  const size_t bytes = static_cast<size_t>(rows * config.wide()) * sizeof(float);
  if (bytes > travelling.size()) {
    travelling = {};
    STRATA_ASSIGN_OR_RETURN(travelling, device.allocate(bytes + bytes / 4));
    // Fresh memory is cleared behind the stream's work; rows that arrive beside it must come later.
    STRATA_RETURN_IF_ERROR(device.stream().synchronize());
  }
  residual = travelling.as<float>();
  Cutter cut(block_.as<std::byte>());
  lay_out(*this, config, cut, rows, head_rows);
  return {};
}

}  // namespace strata::model
