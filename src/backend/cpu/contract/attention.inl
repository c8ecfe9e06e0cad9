// Softmax attention over cached cells. A segment of cells gives, for every query head of one key/value
// head, its maximum, its sum and its weighted values; segments are merged in order.

constexpr int kAttentionSegment = 256;  // cells

// What one segment gives for `heads` query heads.
struct AttentionPartial {
  float* top;     // [heads]
  float* sum;     // [heads]
  float* values;  // [heads, dim]

  static size_t floats(int heads, int dim) { return static_cast<size_t>(heads) * (2 + dim); }
  AttentionPartial(float* memory, int heads)
      : top(memory), sum(top + heads), values(sum + heads) {}
};

// The cells of one query row: all that it sees, or a list.
struct RowCells {
  int64_t count;
  const int32_t* list;  // nullptr: 0, 1, ...

  RowCells(const AttentionArgs& a, int64_t row)
      : count(a.counts[row]),
        list(count == a.start + row + 1 ? nullptr : a.cells + row * a.max_cells) {}
  int64_t at(int64_t i) const { return list == nullptr ? i : list[i]; }
  int64_t segments() const { return (count + kAttentionSegment - 1) / kAttentionSegment; }
};

// A cell's keys or values of one key/value head.
template <class Row>
struct CellRows {
  const void* cache;
  const float* scales;
  const RowCells& cells;
  int64_t begin;
  int kv_heads, kv_head, dim;

  Row operator()(int64_t i) const {
    const int64_t at = (cells.at(begin + i) * kv_heads + kv_head) * dim;
    if constexpr (std::is_same_v<Row, F16Row>) {
      return {static_cast<const uint8_t*>(cache) + 2 * at};
    } else if constexpr (std::is_same_v<Row, I8Row>) {
      return {static_cast<const int8_t*>(cache) + at, scales + at / quant::kGroupElems};
    } else {
      return {static_cast<const float*>(cache) + at};
    }
  }
};

// e^(s - top) in place of the scores; their sum in lanes.
inline void softmax_segment(float* score, int cells, float& top, float& sum) {
  const int whole = cells / kLanes * kLanes;
  top = score[0];
  if (whole > 0) {
    FVec most = f_load(score);
    for (int j = kVec; j < whole; j += kVec) most = f_max(most, f_load(score + j));
    alignas(64) float lane[kVec];
    f_store(lane, most);
    for (int l = 0; l < kVec; ++l) top = numeric::max(top, lane[l]);
  }
  for (int j = whole; j < cells; ++j) top = numeric::max(top, score[j]);
  for (int j = 0; j < cells; ++j) score[j] = numeric::exp(score[j] - top);
  FVec lanes[kLanes / kVec];
  for (FVec& v : lanes) v = f_zero();
  for (int j = 0; j < whole; j += kLanes) {
    for (int v = 0; v < kLanes / kVec; ++v) {
      lanes[v] = f_add(lanes[v], f_load(score + j + v * kVec));
    }
  }
  alignas(64) float lane[kLanes];
  for (int v = 0; v < kLanes / kVec; ++v) f_store(lane + v * kVec, lanes[v]);
  for (int j = whole; j < cells; ++j) lane[j - whole] += score[j];
  sum = fold_lanes(lane);
}

// out[h][i] = sum over cells of score[h][cell] * value[cell][i], cell after cell, for kHeads heads and
// elements [i, i + kParts * kVec).
template <int kHeads, int kParts, class Rows>
inline void weigh_values(const Rows& rows, int cells, const float* score, int64_t i, float* out,
                         int64_t out_stride) {
  FVec acc[kHeads][kParts];
  for (int h = 0; h < kHeads; ++h) {
    for (int p = 0; p < kParts; ++p) acc[h][p] = f_zero();
  }
  for (int j = 0; j < cells; ++j) {
    const auto row = rows(j);
    FVec value[kParts];
    for (int p = 0; p < kParts; ++p) value[p] = load_row(row, i + p * kVec);
    for (int h = 0; h < kHeads; ++h) {
      const FVec weight = f_set(score[h * kAttentionSegment + j]);
      for (int p = 0; p < kParts; ++p) acc[h][p] = f_fma(weight, value[p], acc[h][p]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int p = 0; p < kParts; ++p) f_store(out + h * out_stride + p * kVec, acc[h][p]);
  }
}

template <int kHeads, class Rows>
inline void weigh_all_values(const Rows& rows, int cells, const float* score, int64_t dim,
                             float* out) {
  constexpr int kParts = 32 / kVec < 4 ? 4 : 32 / kVec / 2;
  int64_t i = 0;
  for (; i + kParts * kVec <= dim; i += kParts * kVec) {
    weigh_values<kHeads, kParts>(rows, cells, score, i, out + i, dim);
  }
  for (; i + kVec <= dim; i += kVec) {
    weigh_values<kHeads, 1>(rows, cells, score, i, out + i, dim);
  }
  for (; i < dim; ++i) {
    for (int h = 0; h < kHeads; ++h) {
      float sum = 0.0f;
      for (int j = 0; j < cells; ++j) {
        sum = numeric::fma(score[h * kAttentionSegment + j], rows(j).at(i), sum);
      }
      out[h * dim + i] = sum;
    }
  }
}

class AttentionTask {
 public:
  AttentionTask(const AttentionArgs& a, float* scratch)
      : a_(a), group_(a.heads / a.kv_heads), lanes_(scratch),
        scores_(scratch + kFloatScratchBytes / sizeof(float)),
        own_(scores_ + static_cast<int64_t>(group_) * kAttentionSegment, group_) {}

  static size_t scratch_bytes(const AttentionArgs& a) {
    const int group = a.heads / a.kv_heads;
    return kFloatScratchBytes +
           sizeof(float) * (static_cast<size_t>(group) * kAttentionSegment +
                            2 * AttentionPartial::floats(group, a.head_dim));
  }

  // Segment `index` of one query row, for the query heads of one key/value head.
  void segment(int64_t row, int kv_head, int64_t index, const AttentionPartial& out) {
    switch (a_.cache.type) {
      case KvType::kF32: return segment_of<F32Row>(row, kv_head, index, out);
      case KvType::kF16: return segment_of<F16Row>(row, kv_head, index, out);
      case KvType::kI8: return segment_of<I8Row>(row, kv_head, index, out);
    }
  }

  // All segments of one query row, one after another.
  void run(int64_t row, int kv_head) {
    const int64_t segments = RowCells(a_, row).segments();
    AttentionPartial total(own_.values + static_cast<int64_t>(group_) * a_.head_dim, group_);
    segment(row, kv_head, 0, total);
    for (int64_t index = 1; index < segments; ++index) {
      segment(row, kv_head, index, own_);
      merge(total, own_, group_, a_.head_dim);
    }
    finish(row, kv_head, total);
  }

  // Adds the segment `next` to those before it.
  static void merge(const AttentionPartial& total, const AttentionPartial& next, int heads,
                    int dim) {
    for (int h = 0; h < heads; ++h) {
      const float merged = numeric::max(total.top[h], next.top[h]);
      const float old_factor = numeric::exp(total.top[h] - merged);
      const float new_factor = numeric::exp(next.top[h] - merged);
      total.top[h] = merged;
      total.sum[h] = numeric::fma(total.sum[h], old_factor, next.sum[h] * new_factor);
      float* out = total.values + static_cast<int64_t>(h) * dim;
      const float* in = next.values + static_cast<int64_t>(h) * dim;
      for (int i = 0; i < dim; ++i) out[i] = numeric::fma(out[i], old_factor, in[i] * new_factor);
    }
  }

  // Divides by the sums and gates.
  void finish(int64_t row, int kv_head, const AttentionPartial& total) const {
    const int dim = a_.head_dim;
    const int64_t first_head = row * a_.heads + static_cast<int64_t>(kv_head) * group_;
    for (int h = 0; h < group_; ++h) {
      const float* gate = a_.q + (first_head + h) * 2 * dim + dim;
      const float* values = total.values + static_cast<int64_t>(h) * dim;
      float* out = a_.out + (first_head + h) * dim;
      for (int i = 0; i < dim; ++i) out[i] = values[i] / total.sum[h] * numeric::sigmoid(gate[i]);
    }
  }

 private:
  template <class Row>
  void segment_of(int64_t row, int kv_head, int64_t index, const AttentionPartial& out) {
    const int dim = a_.head_dim;
    const RowCells cells(a_, row);
    const int64_t begin = index * kAttentionSegment;
    const auto here = static_cast<int>(std::min<int64_t>(kAttentionSegment, cells.count - begin));
    const CellRows<Row> keys{a_.cache.k, a_.cache.k_scales, cells, begin, a_.kv_heads, kv_head, dim};
    const CellRows<Row> values{a_.cache.v, a_.cache.v_scales, cells, begin, a_.kv_heads, kv_head, dim};
    const float* q =
        a_.q + (row * a_.heads + static_cast<int64_t>(kv_head) * group_) * 2 * dim;
    for_float_blocks(group_, [&](auto heads, int64_t first) {
      const float* in[heads()];
      float* score[heads()];
      for (int h = 0; h < heads(); ++h) {
        in[h] = q + (first + h) * 2 * dim;
        score[h] = scores_ + (first + h) * kAttentionSegment;
      }
      multiply_float_rows<heads(), Row>(keys, dim, a_.scale, 0, here, in, score, lanes_);
    });
    for (int h = 0; h < group_; ++h) {
      softmax_segment(scores_ + static_cast<int64_t>(h) * kAttentionSegment, here, out.top[h],
                      out.sum[h]);
    }
    for_float_blocks(group_, [&](auto heads, int64_t first) {
      weigh_all_values<heads()>(values, here, scores_ + first * kAttentionSegment, dim,
                                out.values + first * dim);
    });
  }

  const AttentionArgs& a_;
  int group_;
  float* lanes_;
  float* scores_;  // [group, segment]
  AttentionPartial own_;
};

// Segments side by side, merged afterwards: for a few rows, which would leave workers idle.
inline void attention_by_segments(CpuStream& stream, const AttentionArgs& a, int64_t segments) {
  const int group = a.heads / a.kv_heads;
  const size_t floats = AttentionPartial::floats(group, a.head_dim);
  const size_t bytes = AttentionTask::scratch_bytes(a);
  const int64_t parts = static_cast<int64_t>(a.rows) * a.kv_heads;
  auto* memory =
      static_cast<float*>(stream.shared_scratch(sizeof(float) * floats * parts * segments));
  const auto partial = [&](int64_t part, int64_t index) {
    return AttentionPartial(memory + static_cast<size_t>(part * segments + index) * floats, group);
  };
  stream.pool().parallel_for(parts * segments, [&](int64_t i, int worker) {
    const int64_t part = i / segments, index = i % segments, row = part / a.kv_heads;
    if (index >= RowCells(a, row).segments()) return;
    AttentionTask task(a, static_cast<float*>(stream.scratch(worker, bytes)));
    task.segment(row, static_cast<int>(part % a.kv_heads), index, partial(part, index));
  });
  stream.pool().parallel_for(parts, [&](int64_t part, int worker) {
    const int64_t row = part / a.kv_heads;
    for (int64_t index = 1; index < RowCells(a, row).segments(); ++index) {
      AttentionTask::merge(partial(part, 0), partial(part, index), group, a.head_dim);
    }
    AttentionTask(a, static_cast<float*>(stream.scratch(worker, bytes)))
        .finish(row, static_cast<int>(part % a.kv_heads), partial(part, 0));
  });
}

inline Status attention(CpuStream& stream, const AttentionArgs& a) {
  const size_t bytes = AttentionTask::scratch_bytes(a);
  stream.reserve_scratch(bytes);
  const int64_t parts = static_cast<int64_t>(a.rows) * a.kv_heads;
  int64_t segments = 0;
  for (int64_t row = 0; row < a.rows; ++row) {
    segments = std::max(segments, RowCells(a, row).segments());
  }
  if (segments > 1 && stream.pool().workers() > 1 && parts < 4 * stream.pool().workers()) {
    attention_by_segments(stream, a, segments);
    return {};
  }
  stream.pool().parallel_for(parts, [&](int64_t i, int worker) {
    AttentionTask task(a, static_cast<float*>(stream.scratch(worker, bytes)));
    task.run(i / a.kv_heads, static_cast<int>(i % a.kv_heads));
  });
  return {};
}
