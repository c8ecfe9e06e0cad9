// Dot products in the canonical orders of docs/ARITHMETIC.md.

constexpr int kLanes = 16;         // strided partial sums of a float reduction
constexpr int kSegmentGroups = 8;  // groups of 32 in one segment of an int8 product

// How the terms of one group of an int8 product are formed.
enum class TermForm {
  kPlain,  // one product of d, the activation scale and an exact integer
  kMin,    // the same, then the minimum's integer term
  kWide,   // sub-scales too wide for int32 products: one float term per half
};

// Lane l holds the sum over elements i = l mod 16; lanes are folded in halves.
inline float fold_lanes(float* lane) {
#if STRATA_TIER_WIDTH
  const __m256 eight = _mm256_add_ps(_mm256_loadu_ps(lane), _mm256_loadu_ps(lane + 8));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int l = 0; l < step; ++l) lane[l] += lane[l + step];
  }
  return lane[0];
#endif
}

// Weight rows as stored, widened exactly.
struct F32Row {
  const float* p;
  float at(int64_t i) const { return p[i]; }
};
struct F16Row {
  const uint8_t* p;
  float at(int64_t i) const { return quant::load_half(p + 2 * i); }
};
struct BF16Row {
  const uint8_t* p;
  float at(int64_t i) const {
    return quant::bf16_to_float(static_cast<uint16_t>(quant::load_u16(p + 2 * i)));
  }
};

// Adds w[i] * x[i] for i in [begin, end), a whole number of lane rounds, to the lanes of kWeights
// weight rows by kInputs activation rows.
template <int kWeights, int kInputs, class Row>
inline void add_lanes(const Row* w, const float* const* x, int64_t begin, int64_t end,
                      float (*lanes)[kInputs][kLanes]) {
#if STRATA_TIER_WIDTH
  constexpr int kParts = kLanes / kVec;
  FVec acc[kWeights][kInputs][kParts];
  for (int n = 0; n < kWeights; ++n) {
    for (int r = 0; r < kInputs; ++r) {
      for (int v = 0; v < kParts; ++v) acc[n][r][v] = f_load(lanes[n][r] + v * kVec);
    }
  }
  for (int64_t i = begin; i < end; i += kLanes) {
    for (int v = 0; v < kParts; ++v) {
      FVec in[kInputs];
      for (int r = 0; r < kInputs; ++r) in[r] = f_load(x[r] + i + v * kVec);
      for (int n = 0; n < kWeights; ++n) {
        const FVec weights = load_row(w[n], i + v * kVec);
        for (int r = 0; r < kInputs; ++r) acc[n][r][v] = f_fma(weights, in[r], acc[n][r][v]);
      }
    }
  }
  for (int n = 0; n < kWeights; ++n) {
    for (int r = 0; r < kInputs; ++r) {
      for (int v = 0; v < kParts; ++v) f_store(lanes[n][r] + v * kVec, acc[n][r][v]);
    }
  }
#else
  for (int n = 0; n < kWeights; ++n) {
    for (int r = 0; r < kInputs; ++r) {
      for (int64_t i = begin; i < end; i += kLanes) {
        for (int l = 0; l < kLanes; ++l) {
          lanes[n][r][l] = numeric::fma(w[n].at(i + l), x[r][i + l], lanes[n][r][l]);
        }
      }
    }
  }
#endif
}

// Adds the elements after the last whole round and folds the lanes.
template <class Row>
inline float finish_lanes(const Row& w, const float* x, int64_t count, float* lane) {
  const int64_t i = count / kLanes * kLanes;
  for (int l = 0; i + l < count; ++l) lane[l] = numeric::fma(w.at(i + l), x[i + l], lane[l]);
  return fold_lanes(lane);
}

inline float dot_f32(const float* a, const float* b, int64_t count) {
  const F32Row row{a};
  alignas(64) float lanes[1][1][kLanes] = {};
  add_lanes<1, 1>(&row, &b, 0, count / kLanes * kLanes, lanes);
  return finish_lanes(row, b, count, lanes[0][0]);
}

inline float sum_squares(const float* x, int64_t count) { return dot_f32(x, x, count); }

// 1 / sqrt(mean of x^2 + eps).
inline float rms_factor(const float* x, int64_t count, float eps) {
  return 1.0f / numeric::sqrt(sum_squares(x, count) / static_cast<float>(count) + eps);
}
