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

// Shape of the float products: weight rows by activation rows held in registers at once.
#if STRATA_TIER_WIDTH == 512
constexpr int kFloatWeights = 4;
constexpr int kFloatInputs = 6;
#else
constexpr int kFloatWeights = 2;
constexpr int kFloatInputs = 3;
#endif
// K is taken in blocks so that the activation rows of a block stay in the L1 cache; one or two rows
// stay there anyway, and then whole weight rows are read, as memory likes it.
constexpr int64_t float_block(int inputs, int64_t k) { return inputs <= 2 ? k : 1024; }
constexpr int64_t kRowsPerTask = 64;   // weight rows per task at most: whole tiles

inline size_t multiply_scratch_bytes(int64_t k) {
  const size_t lanes = sizeof(float) * kRowsPerTask * kFloatInputs * kLanes;
  return std::max({few_scratch_bytes(k), many_scratch_bytes(k), lanes});
}

// The lanes of weight rows [begin, begin + count) against kInputs activation rows.
template <int kInputs, class Row, class RowAt>
inline void multiply_float_rows(const RowAt& row_at, int64_t k, float factor, int64_t begin,
                                int64_t end, const float* const* x, float* const* y,
                                float* scratch) {
  auto* lanes = reinterpret_cast<float(*)[kInputs][kLanes]>(scratch);
  std::memset(scratch, 0, sizeof(float) * static_cast<size_t>((end - begin) * kInputs * kLanes));
  const int64_t whole = k / kLanes * kLanes;
  const int64_t block = std::max<int64_t>(kLanes, float_block(kInputs, whole));
  for (int64_t from = 0; from < whole; from += block) {
    const int64_t to = std::min(whole, from + block);
    int64_t n = begin;
    for (; n + kFloatWeights <= end; n += kFloatWeights) {
      Row w[kFloatWeights];
      for (int i = 0; i < kFloatWeights; ++i) w[i] = row_at(n + i);
      add_lanes<kFloatWeights, kInputs>(w, x, from, to, lanes + (n - begin));
    }
    for (; n < end; ++n) {
      const Row w = row_at(n);
      add_lanes<1, kInputs>(&w, x, from, to, lanes + (n - begin));
    }
  }
  for (int64_t n = begin; n < end; ++n) {
    const Row w = row_at(n);
    for (int r = 0; r < kInputs; ++r) {
      y[r][n] = finish_lanes(w, x[r], k, lanes[n - begin][r]) * factor;
    }
  }
}

template <class Row>
inline void multiply_float(const uint8_t* rows, size_t row_bytes, int64_t k, float factor,
                           int64_t begin, int64_t end, const float* x, const RowSet& set, float* y,
                           int64_t y_stride, float* scratch) {
  const auto row_at = [&](int64_t n) {
    return Row{reinterpret_cast<decltype(Row::p)>(rows + static_cast<size_t>(n) * row_bytes)};
  };
  int64_t first = 0;
  const auto meet = [&](auto count) {
    const float* in[count()];
    float* out[count()];
    for (int r = 0; r < count(); ++r) {
      in[r] = x + set.in(first + r) * k;
      out[r] = y + set.out(first + r) * y_stride;
    }
    multiply_float_rows<count(), Row>(row_at, k, factor, begin, end, in, out, scratch);
    first += count();
  };
  while (set.count - first >= kFloatInputs) meet(std::integral_constant<int, kFloatInputs>{});
  while (set.count - first >= 2) meet(std::integral_constant<int, 2>{});
  while (set.count - first >= 1) meet(std::integral_constant<int, 1>{});
}

// y[out, n] = w_expert[n] . x[in] for weight rows [begin, end) and the activation rows of `set`.
inline void multiply(const WeightRef& w, int64_t expert, int64_t begin, int64_t end,
                     const Activations& x, RowSet set, float* y, int64_t y_stride, void* scratch) {
  const size_t bytes = row_bytes(w.type, w.k);
  const auto* rows =
      static_cast<const uint8_t*>(w.data) + static_cast<size_t>(expert * w.n) * bytes;
  const float factor = w.scale == nullptr ? 1.0f : w.scale[w.scale_count > 1 ? expert : 0];
  set.x = x.int8;
  auto* lanes = static_cast<float*>(scratch);
  visit_quant(w.type, [&](auto type) {
    using Type = decltype(type);
    if constexpr (Type::kQuantised) {
      auto* memory = static_cast<std::byte*>(scratch);
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

// y[r, n] = w[n] . x[r] for rows [0, rows) of the activations; y has `stride` floats per row.
inline void product(CpuStream& stream, const WeightRef& w, const Activations& x, int64_t rows,
                    float* y, int64_t stride) {
  const int64_t per_task = rows_per_task(w.n, stream.pool().workers());
  stream.reserve_scratch(multiply_scratch_bytes(w.k));
  stream.pool().parallel_for((w.n + per_task - 1) / per_task, [&](int64_t task, int worker) {
    const int64_t begin = task * per_task;
    multiply(w, 0, begin, std::min(w.n, begin + per_task), x, {nullptr, nullptr, nullptr, rows}, y,
             stride, stream.scratch(worker, multiply_scratch_bytes(w.k)));
  });
}

inline Status matmul(CpuStream& stream, const MatmulArgs& a) {
  const Activations x = activations_for(stream, a.w, a.x, a.rows);
  product(stream, a.w, x, a.rows, a.y, a.w.n);
  return {};
}
