inline Status router(CpuStream& stream, const RouterArgs& a) {
  const int64_t experts = a.w.n;
  product(stream, a.w, activations_for(stream, a.w, a.x, a.rows), a.rows, a.scratch);
  stream.reserve_scratch(sizeof(int32_t) * static_cast<size_t>(experts));
  stream.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    float* p = a.scratch + r * experts;
    float top = p[0];
    for (int64_t e = 1; e < experts; ++e) top = numeric::max(top, p[e]);
    // The softmax denominator cancels in the renormalised weights.
    float poison = 0.0f;  // NaN when any probability is: an expert not chosen must not hide it
    for (int64_t e = 0; e < experts; ++e) {
      p[e] = numeric::exp(p[e] - top);
      poison += p[e] * 0.0f;
    }
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
      a.weights[r * a.used + j] = p[order[j]] / sum + poison;
    }
  });
  return {};
}

// The (row, choice) pairs of one call, grouped by expert. All views lie in one scratch block.
struct ExpertGroups {
  int32_t* begin;   // [experts + 1] slots of expert e: [begin[e], begin[e + 1])
  int32_t* slots;   // [pairs] slot = row * used + choice
  int32_t* tokens;  // [pairs] row of the slot
  int32_t* busy;    // experts with any slot
  int64_t busy_count;

  static size_t bytes(const ExpertsArgs& a) {
    const auto experts = static_cast<size_t>(a.gate.experts);
    return sizeof(int32_t) * (2 * experts + 2 + 2 * static_cast<size_t>(a.rows * a.used));
  }

  ExpertGroups(const ExpertsArgs& a, void* memory) {
    const auto experts = static_cast<int32_t>(a.gate.experts);
    const int32_t pairs = a.rows * a.used;
    begin = static_cast<int32_t*>(memory);
    busy = begin + experts + 1;
    slots = busy + experts + 1;
    tokens = slots + pairs;
    std::fill(begin, begin + experts + 1, 0);
    for (int32_t i = 0; i < pairs; ++i) ++begin[a.ids[i] + 1];
    busy_count = 0;
    for (int32_t e = 0; e < experts; ++e) {
      if (begin[e + 1] > 0) busy[busy_count++] = e;
      begin[e + 1] += begin[e];
    }
    // Filling moves each begin to its end, which is the next one's begin.
    for (int32_t i = 0; i < pairs; ++i) {
      const int32_t at = begin[a.ids[i]]++;
      slots[at] = i;
      tokens[at] = i / a.used;
    }
    for (int32_t e = experts; e > 0; --e) begin[e] = begin[e - 1];
    begin[0] = 0;
  }
};

// One matrix per expert and where its products go: out[slot, n], `stride` floats per slot.
struct GroupedProduct {
  const WeightRef* w;
  float* out;
};

// out[slot, n] = w_e[n] . x[row of the slot] for every slot of every busy expert and every product;
// the activation row is the slot's token, or the slot itself. The products have the same k.
inline void grouped_products(CpuStream& stream, std::span<const GroupedProduct> products,
                             const ExpertGroups& groups, const Activations& x, bool by_token,
                             int64_t stride) {
  struct Task {
    const GroupedProduct* product;
    int32_t expert;
    int64_t begin;
  };
  int64_t outputs = 0;
  for (const GroupedProduct& p : products) outputs += p.w->n;
  const int64_t per_task = rows_per_task(outputs, stream.pool().workers());
  const auto tasks_of = [per_task](const GroupedProduct& p) {
    return (p.w->n + per_task - 1) / per_task;
  };
  int64_t tasks_per_expert = 0;
  for (const GroupedProduct& p : products) tasks_per_expert += tasks_of(p);
  const auto task_at = [&](int64_t index) {
    int64_t part = index % tasks_per_expert;
    const GroupedProduct* p = products.data();
    for (; part >= tasks_of(*p); ++p) part -= tasks_of(*p);
    return Task{p, groups.busy[index / tasks_per_expert], part * per_task};
  };
  const int64_t tasks = groups.busy_count * tasks_per_expert;
  const size_t bytes = multiply_scratch_bytes(products[0].w->k);
  stream.reserve_scratch(bytes);
  stream.pool().parallel_for(tasks, [&](int64_t index, int worker) {
    const Task task = task_at(index);
    const Task after = task_at(std::min(index + 1, tasks - 1));
    const WeightRef& w = *task.product->w;
    const int32_t first = groups.begin[task.expert];
    const int32_t* slots = groups.slots + first;
    const int32_t* tokens = groups.tokens + first;
    multiply(w, task.expert, task.begin, std::min(w.n, task.begin + per_task), x,
             {nullptr, by_token ? tokens : slots, slots, groups.begin[task.expert + 1] - first},
             task.product->out, stride, stream.scratch(worker, bytes),
             weight_row(*after.product->w, after.expert, after.begin));
  });
}

inline Status experts(CpuStream& stream, const ExpertsArgs& a) {
  const bool fused = !a.up.present();
  const int64_t pairs = static_cast<int64_t>(a.rows) * a.used;
  const int64_t stride = 2 * static_cast<int64_t>(a.hidden) + a.width;
  float* gate = a.scratch;  // [pair]: gate, up, output side by side
  float* up = gate + a.hidden;
  float* output = gate + 2 * a.hidden;

  // One block for what the workers share: groups, quantised inputs, dense hidden rows.
  const auto padded = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  const bool x_int8 = quant_info(a.gate.type).quantised ||
                      (!fused && quant_info(a.up.type).quantised);
  const bool hidden_int8 = quant_info(a.down.type).quantised;
  const size_t group_bytes = padded(ExpertGroups::bytes(a));
  const size_t x_bytes = x_int8 ? quantised_bytes(a.rows, a.width) : 0;
  const size_t hidden_bytes = padded(sizeof(float) * static_cast<size_t>(pairs * a.hidden));
  auto* memory = static_cast<std::byte*>(
      stream.shared_scratch(group_bytes + x_bytes + hidden_bytes +
                            (hidden_int8 ? quantised_bytes(pairs, a.hidden) : 0)));
  const ExpertGroups groups(a, memory);
  auto* x_segments = reinterpret_cast<ActivationSegment*>(memory + group_bytes);
  auto* hidden = reinterpret_cast<float*>(memory + group_bytes + x_bytes);
  auto* hidden_segments =
      reinterpret_cast<ActivationSegment*>(memory + group_bytes + x_bytes + hidden_bytes);

  if (x_int8) quantise_rows(stream, a.x, a.rows, a.width, x_segments);
  const Activations x{a.x, x_segments};
  const GroupedProduct inner[] = {{&a.gate, gate}, {&a.up, up}};
  grouped_products(stream, {inner, fused ? 1u : 2u}, groups, x, /*by_token=*/true, stride);
  stream.pool().parallel_for(pairs, [&](int64_t slot, int) {
    float* h = hidden + slot * a.hidden;
    swiglu_row(gate + slot * stride, up + slot * stride, h, a.hidden);
    if (hidden_int8) {
      quantise_row(h, a.hidden, hidden_segments + slot * segments_of(a.hidden));
    }
  });
  const GroupedProduct down{&a.down, output};
  grouped_products(stream, {&down, 1}, groups, Activations{hidden, hidden_segments},
                   /*by_token=*/false, stride);

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
  stream.reserve_scratch(multiply_scratch_bytes(a.gate.k));
  stream.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    const auto row = static_cast<int32_t>(r);
    const int32_t first = 0;
    float logit;
    multiply(a.gate, 0, 0, 1, x, {nullptr, &row, &first, 1}, &logit, 1,
             stream.scratch(worker, multiply_scratch_bytes(a.gate.k)));
    const float gate = numeric::sigmoid(logit);
    const float* d = a.d + r * a.width;
    float* y = a.y + r * a.width;
    for (int i = 0; i < a.width; ++i) y[i] = numeric::fma(gate, d[i], y[i]);
  });
  return {};
}
