// Products with float weights and, in attention, with cached keys.

// Shape of the products: weight rows by activation rows held in registers at once.
#if STRATA_TIER_WIDTH == 512
constexpr int kFloatInputs = 6;
constexpr int float_weights(int inputs) { return inputs == kFloatInputs ? 4 : 8; }
#else
constexpr int kFloatInputs = 3;
constexpr int float_weights(int inputs) { return inputs == kFloatInputs ? 2 : 4; }
#endif
// Weight rows whose lanes are kept together, and elements taken at a time: lanes, activations and
// weights of one round share the first cache. Few activation rows stay there anyway, and then whole
// weight rows are read, as memory likes it.
constexpr int64_t kFloatRows = 16;
constexpr int64_t float_block(int inputs, int64_t k) { return inputs <= 2 ? k : 640; }
constexpr size_t kFloatScratchBytes = sizeof(float) * kFloatRows * kFloatInputs * kLanes;

template <bool kFirst, int kInputs, class Row, class RowAt>
inline void add_float_rows(const RowAt& row_at, int64_t begin, int64_t end, const float* const* x,
                           int64_t from, int64_t to, float (*lanes)[kInputs][kLanes]) {
  constexpr int kWeights = float_weights(kInputs);
  int64_t n = begin;
  for (; n + kWeights <= end; n += kWeights) {
    Row w[kWeights];
    for (int i = 0; i < kWeights; ++i) w[i] = row_at(n + i);
    add_lanes<kFirst, kWeights, kInputs>(w, x, from, to, lanes + (n - begin));
  }
  for (; n < end; ++n) {
    const Row w = row_at(n);
    add_lanes<kFirst, 1, kInputs>(&w, x, from, to, lanes + (n - begin));
  }
}

// y[r][n] = row_at(n) . x[r] * factor for n in [begin, end) and kInputs activation rows. `scratch`
// has kFloatScratchBytes.
template <int kInputs, class Row, class RowAt>
void multiply_float_rows(const RowAt& row_at, int64_t k, float factor, int64_t begin, int64_t end,
                         const float* const* x, float* const* y, float* scratch) {
  auto* lanes = reinterpret_cast<float(*)[kInputs][kLanes]>(scratch);
  const int64_t whole = k / kLanes * kLanes;
  const int64_t block = float_block(kInputs, whole);
  for (int64_t first = begin; first < end; first += kFloatRows) {
    const int64_t last = std::min(end, first + kFloatRows);
    add_float_rows<true, kInputs, Row>(row_at, first, last, x, 0, std::min(whole, block), lanes);
    for (int64_t from = block; from < whole; from += block) {
      add_float_rows<false, kInputs, Row>(row_at, first, last, x, from,
                                          std::min(whole, from + block), lanes);
    }
    if (whole != k) {
      for (int64_t n = first; n < last; ++n) {
        for (int r = 0; r < kInputs; ++r) add_rest(row_at(n), x[r], k, lanes[n - first][r]);
      }
    }
    for (int r = 0; r < kInputs; ++r) {
      fold_many(lanes[0][r], kInputs * kLanes, last - first, y[r] + first);
      for (int64_t n = first; n < last; ++n) y[r][n] *= factor;
    }
  }
}

// Calls f(the count as a constant, first row) for blocks of activation rows.
template <class F>
inline void for_float_blocks(int64_t count, const F& f) {
  int64_t first = 0;
  for (; count - first >= kFloatInputs; first += kFloatInputs) {
    f(std::integral_constant<int, kFloatInputs>{}, first);
  }
  for (; count - first >= 2; first += 2) f(std::integral_constant<int, 2>{}, first);
  if (count > first) f(std::integral_constant<int, 1>{}, first);
}

template <class Row>
inline void multiply_float(const uint8_t* rows, size_t row_bytes, int64_t k, float factor,
                           int64_t begin, int64_t end, const float* x, const RowSet& set, float* y,
                           int64_t y_stride, float* scratch) {
  const auto row_at = [&](int64_t n) {
    return Row{reinterpret_cast<decltype(Row::p)>(rows + static_cast<size_t>(n) * row_bytes)};
  };
  for_float_blocks(set.count, [&](auto count, int64_t first) {
    const float* in[count()];
    float* out[count()];
    for (int r = 0; r < count(); ++r) {
      in[r] = x + set.in(first + r) * k;
      out[r] = y + set.out(first + r) * y_stride;
    }
    multiply_float_rows<count(), Row>(row_at, k, factor, begin, end, in, out, scratch);
  });
}
