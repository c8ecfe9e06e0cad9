// Matrix products: weights stay in their blocks; what a weight row unpacks to meets every activation
// row of the call.

// Activations in the forms the weight types call for.
struct Activations {
  const float* f32 = nullptr;               // [rows, k]
  const ActivationSegment* int8 = nullptr;  // [rows, segments_of(k)]
};

inline size_t quantised_bytes(int64_t rows, int64_t k) {
  return static_cast<size_t>(rows * segments_of(k)) * sizeof(ActivationSegment);
}

inline void quantise_rows(CpuStream& stream, const float* x, int64_t rows, int64_t k,
                          ActivationSegment* out) {
  stream.pool().parallel_for(
      rows, [&](int64_t r, int) { quantise_row(x + r * k, k, out + r * segments_of(k)); });
}

// Activations for `w`, quantised into the stream's shared scratch when its type asks for it.
inline Activations activations_for(CpuStream& stream, const WeightRef& w, const float* x,
                                   int64_t rows) {
  Activations out{x, nullptr};
  if (quant_info(w.type).quantised) {
    auto* segments =
        static_cast<ActivationSegment*>(stream.shared_scratch(quantised_bytes(rows, w.k)));
    quantise_rows(stream, x, rows, w.k, segments);
    out.int8 = segments;
  }
  return out;
}

constexpr int64_t kRowsPerTask = 64;   // weight rows per task at most: whole tiles

inline size_t multiply_scratch_bytes(int64_t k) {
  return std::max({few_scratch_bytes(k), many_scratch_bytes(k), kFloatScratchBytes});
}

// Row `row` of an expert.
inline const uint8_t* weight_row(const WeightRef& w, int64_t expert, int64_t row) {
  return static_cast<const uint8_t*>(w.data) +
         static_cast<size_t>(expert * w.n + row) * row_bytes(w.type, w.k);
}

// y[out, n] = w_expert[n] . x[in] for weight rows [begin, end) and the activation rows of `set`.
// `next`: the weights that are read afterwards, where that is not row `end`.
inline void multiply(const WeightRef& w, int64_t expert, int64_t begin, int64_t end,
                     const Activations& x, RowSet set, float* y, int64_t y_stride, void* scratch,
                     [[maybe_unused]] const uint8_t* next = nullptr) {
  const size_t bytes = row_bytes(w.type, w.k);
  const uint8_t* rows = weight_row(w, expert, 0);
  const float factor = w.scale == nullptr ? 1.0f : w.scale[w.scale_count > 1 ? expert : 0];
  set.x = x.int8;
  auto* lanes = static_cast<float*>(scratch);
  visit_quant(w.type, [&](auto type) {
    using Type = decltype(type);
    if constexpr (Type::kQuantised) {
      auto* memory = static_cast<std::byte*>(scratch);
#if STRATA_TIER_VBMI
      if constexpr (HasSixteen<Type>) {
        if (set.count >= least_rows<Type>()) {
          const uint8_t* after = next != nullptr ? next : weight_row(w, expert, end);
          multiply_sixteen<Type>({rows, bytes, begin, end, after}, w.k, factor, set, y, y_stride,
                                 memory);
          return;
        }
      }
#endif
      if (set.count <= kFewRows) {
        multiply_few<Type>(rows, bytes, w.k, factor, begin, end, set, y, y_stride, memory);
      } else {
        multiply_many<Type>(rows, bytes, w.k, factor, begin, end, set, y, y_stride, memory);
      }
    } else if constexpr (std::is_same_v<Type, quant::F32>) {
      multiply_float<F32Row>(rows, bytes, w.k, factor, begin, end, x.f32, set, y, y_stride, lanes);
    } else if constexpr (std::is_same_v<Type, quant::F16>) {
      multiply_float<F16Row>(rows, bytes, w.k, factor, begin, end, x.f32, set, y, y_stride, lanes);
    } else {
      multiply_float<BF16Row>(rows, bytes, w.k, factor, begin, end, x.f32, set, y, y_stride, lanes);
    }
  });
}

// Enough rows to amortise claiming a task, few enough to balance.
inline int64_t rows_per_task(int64_t n, int workers) {
  const int64_t even = (n / (4 * workers) + 15) / 16 * 16;
  return std::min(kRowsPerTask, std::max<int64_t>(16, even));
}

// p.y[r, n] = p.w[n] . x[r] for rows [0, rows) of the activations and every product p; all weights
// have the same k.
inline void multiply_all(CpuStream& stream, std::span<const Product> products, const Activations& x,
                         int64_t rows) {
  int64_t outputs = 0;
  for (const Product& p : products) outputs += p.w.n;
  const int64_t per_task = rows_per_task(outputs, stream.pool().workers());
  const auto tasks_of = [per_task](const Product& p) { return (p.w.n + per_task - 1) / per_task; };
  int64_t tasks = 0;
  for (const Product& p : products) tasks += tasks_of(p);
  const size_t bytes = multiply_scratch_bytes(products[0].w.k);
  stream.reserve_scratch(bytes);
  stream.pool().parallel_for(tasks, [&](int64_t task, int worker) {
    const Product* p = products.data();
    for (; task >= tasks_of(*p); ++p) task -= tasks_of(*p);
    const int64_t begin = task * per_task;
    multiply(p->w, 0, begin, std::min(p->w.n, begin + per_task), x,
             {nullptr, nullptr, nullptr, rows}, p->y, p->w.n, stream.scratch(worker, bytes));
  });
}

inline void product(CpuStream& stream, const WeightRef& w, const Activations& x, int64_t rows,
                    float* y) {
  const Product one{w, y};
  multiply_all(stream, {&one, 1}, x, rows);
}

inline Status matmul(CpuStream& stream, const MatmulArgs& a) {
  multiply_all(stream, a.products, activations_for(stream, a.products[0].w, a.x, a.rows), a.rows);
  return {};
}
