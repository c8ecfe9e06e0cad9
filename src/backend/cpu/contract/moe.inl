inline Status router(CpuStream& stream, const RouterArgs& a) {
  const int64_t experts = a.w.n;
  product(stream, a.w, activations_for(stream, a.w, a.x, a.rows), a.rows, a.scratch, experts);
  stream.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    float* p = a.scratch + r * experts;
    float top = p[0];
    for (int64_t e = 1; e < experts; ++e) top = numeric::max(top, p[e]);
    // The softmax denominator cancels in the renormalised weights.
    for (int64_t e = 0; e < experts; ++e) p[e] = numeric::exp(p[e] - top);
    auto* order = static_cast<int32_t*>(
        stream.scratch(worker, sizeof(int32_t) * static_cast<size_t>(experts)));
    std::iota(order, order + experts, 0);
    std::partial_sort(order, order + a.used, order + experts, [p](int32_t x, int32_t y) {
      return p[x] > p[y] || (p[x] == p[y] && x < y);
    });
    float sum = 0.0f;
    for (int j = 0; j < a.used; ++j) sum += p[order[j]];
    for (int j = 0; j < a.used; ++j) {
      a.ids[r * a.used + j] = order[j];
      a.weights[r * a.used + j] = p[order[j]] / sum;
    }
  });
  return {};
}

// The (row, choice) pairs of one call, grouped by expert.
struct ExpertGroups {
  // Slots of expert e: slots[begin[e] .. begin[e + 1]); a slot is row * used + choice.
  std::vector<int32_t> begin;
  std::vector<int32_t> slots;

  void build(const ExpertsArgs& a) {
    begin.assign(static_cast<size_t>(a.gate.experts) + 1, 0);
    const int32_t pairs = a.rows * a.used;
    for (int32_t i = 0; i < pairs; ++i) ++begin[static_cast<size_t>(a.ids[i]) + 1];
    for (size_t e = 1; e < begin.size(); ++e) begin[e] += begin[e - 1];
    slots.resize(static_cast<size_t>(pairs));
    std::vector<int32_t> next(begin.begin(), begin.end() - 1);
    for (int32_t i = 0; i < pairs; ++i) slots[static_cast<size_t>(next[static_cast<size_t>(a.ids[i])]++)] = i;
  }
};

// out[slot, n] = w_e[n] . x[row_of(slot)] for every slot of every expert that has any.
template <class RowOf>
void grouped_product(CpuStream& stream, const WeightRef& w, const ExpertGroups& groups,
                     const Activations& x, const RowOf& row_of, float* out, int64_t stride) {
  const int64_t tasks_per_expert = (w.n + kRowsPerTask - 1) / kRowsPerTask;
  stream.pool().parallel_for(w.experts * tasks_per_expert, [&](int64_t task, int worker) {
    const int64_t expert = task / tasks_per_expert;
    const int32_t first = groups.begin[static_cast<size_t>(expert)];
    const int32_t last = groups.begin[static_cast<size_t>(expert) + 1];
    if (first == last) return;
    RowProduct row(w);
    void* scratch = stream.scratch(worker, row.scratch_bytes());
    const int64_t begin = task % tasks_per_expert * kRowsPerTask;
    const int64_t end = std::min(w.n, begin + kRowsPerTask);
    for (int64_t n = begin; n < end; ++n) {
      row.load(expert, n, scratch);
      for (int32_t i = first; i < last; ++i) {
        const int32_t slot = groups.slots[static_cast<size_t>(i)];
        out[slot * stride + n] = row.multiply(x, row_of(slot));
      }
    }
  });
}

inline Status experts(CpuStream& stream, const ExpertsArgs& a) {
  ExpertGroups groups;
  groups.build(a);
  const bool fused = !a.up.present();
  const int64_t pairs = static_cast<int64_t>(a.rows) * a.used;
  const int64_t stride = 2 * static_cast<int64_t>(a.hidden) + a.width;
  float* gate = a.scratch;              // [pair]: gate, up, output side by side
  float* up = gate + a.hidden;
  float* output = gate + 2 * a.hidden;
  const auto token_row = [&](int32_t slot) { return static_cast<int64_t>(slot / a.used); };

  const Activations x = activations_for(stream, a.gate, a.x, a.rows);
  grouped_product(stream, a.gate, groups, x, token_row, gate, stride);
  if (!fused) {
    const Activations for_up = quant_info(a.up.type).quantised == quant_info(a.gate.type).quantised
                                   ? x
                                   : activations_for(stream, a.up, a.x, a.rows);
    grouped_product(stream, a.up, groups, for_up, token_row, up, stride);
  }

  // The hidden rows are dense so that they can be read as one activation matrix.
  const bool int8 = quant_info(a.down.type).quantised;
  const size_t hidden_bytes = sizeof(float) * static_cast<size_t>(pairs * a.hidden);
  const size_t offset = (hidden_bytes + 63) / 64 * 64;
  auto* memory = static_cast<std::byte*>(
      stream.shared_scratch(offset + (int8 ? quantised_bytes(pairs, a.hidden) : 0)));
  auto* hidden = reinterpret_cast<float*>(memory);
  auto* hidden_int8 = reinterpret_cast<ActivationGroup*>(memory + offset);
  stream.pool().parallel_for(pairs, [&](int64_t slot, int) {
    float* h = hidden + slot * a.hidden;
    swiglu_row(gate + slot * stride, up + slot * stride, h, a.hidden);
    if (int8) quantise_row(h, a.hidden, hidden_int8 + slot * (a.hidden / quant::kGroupElems));
  });
  grouped_product(stream, a.down, groups, Activations{hidden, int8 ? hidden_int8 : nullptr, a.hidden},
                  [](int32_t slot) { return static_cast<int64_t>(slot); }, output, stride);

  stream.pool().parallel_for(a.rows, [&](int64_t r, int) {
    float* y = a.y + r * a.width;
    for (int i = 0; i < a.width; ++i) y[i] = 0.0f;
    for (int j = 0; j < a.used; ++j) {
      const int64_t slot = r * a.used + j;
      const float weight = a.weights[slot];
      const float* d = output + slot * stride;
      for (int i = 0; i < a.width; ++i) y[i] = numeric::fma(weight, d[i], y[i]);
    }
  });
  return {};
}

inline Status shared_expert_add(CpuStream& stream, const SharedExpertAddArgs& a) {
  const Activations x = activations_for(stream, a.gate, a.x, a.rows);
  stream.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    RowProduct row(a.gate);
    row.load(0, 0, stream.scratch(worker, row.scratch_bytes()));
    const float gate = numeric::sigmoid(row.multiply(x, r));
    const float* d = a.d + r * a.width;
    float* y = a.y + r * a.width;
    for (int i = 0; i < a.width; ++i) y[i] = numeric::fma(gate, d[i], y[i]);
  });
  return {};
}
