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

// Cached values as int8 codes with a scale for every 32.
struct I8Row {
  const int8_t* p;
  const float* scale;
  float at(int64_t i) const { return scale[i / quant::kGroupElems] * static_cast<float>(p[i]); }
};

#if STRATA_TIER_WIDTH
#include "backend/cpu/contract/rows_x86.inl"
#elif STRATA_TIER_NEON
#include "backend/cpu/contract/rows_neon.inl"
#else
template <class Row>
inline FVec load_row(const Row& w, int64_t i) {
  return f_each([&](int l) { return w.at(i + l); });
}
#endif

// Adds w[i] * x[i] for i in [begin, end), a whole number of lane rounds, to the lanes of kWeights
// weight rows by kInputs activation rows. kFirst: the lanes start at zero.
template <bool kFirst, int kWeights, int kInputs, class Row>
inline void add_lanes(const Row* w, const float* const* x, int64_t begin, int64_t end,
                      float (*lanes)[kInputs][kLanes]) {
  constexpr int kParts = kLanes / kVec;
  FVec acc[kWeights][kInputs][kParts];
  for (int n = 0; n < kWeights; ++n) {
    for (int r = 0; r < kInputs; ++r) {
      for (int v = 0; v < kParts; ++v) {
        acc[n][r][v] = kFirst ? f_zero() : f_load(lanes[n][r] + v * kVec);
      }
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
}

// Adds the elements after the last whole round to the lanes.
template <class Row>
inline void add_rest(const Row& w, const float* x, int64_t count, float* lane) {
  const int64_t i = count / kLanes * kLanes;
  for (int l = 0; i + l < count; ++l) lane[l] = numeric::fma(w.at(i + l), x[i + l], lane[l]);
}

// out[n] = the folded lanes at lanes + n * stride.
inline void fold_many(float* lanes, int64_t stride, int64_t count, float* out) {
#if STRATA_TIER_WIDTH == 512
  if (count == kLanes) {
    // Folding two rows leaves both side by side in one vector, so sixteen take fifteen additions.
    FVec v[kLanes];
    for (int n = 0; n < 16; ++n) v[n] = f_load(lanes + n * stride);
    for (int n = 0; n < 8; ++n) {  // row n, then row n + 8: lanes 0..7 of each
      v[n] = f_add(_mm512_shuffle_f32x4(v[n], v[n + 8], 0x44),
                   _mm512_shuffle_f32x4(v[n], v[n + 8], 0xEE));
    }
    for (int n = 0; n < 4; ++n) {  // rows n, n + 8, n + 4, n + 12: lanes 0..3 of each
      v[n] = f_add(_mm512_shuffle_f32x4(v[n], v[n + 4], 0x88),
                   _mm512_shuffle_f32x4(v[n], v[n + 4], 0xDD));
    }
    for (int n = 0; n < 2; ++n) {  // within each 128 bits two lanes of a row, then of the row + 2
      v[n] = f_add(_mm512_shuffle_ps(v[n], v[n + 2], 0x44), _mm512_shuffle_ps(v[n], v[n + 2], 0xEE));
    }
    // Within 128 bits: row + 0, + 2, + 1, + 3.
    const FVec folded =
        f_add(_mm512_shuffle_ps(v[0], v[1], 0x88), _mm512_shuffle_ps(v[0], v[1], 0xDD));
    const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
    f_store(out, _mm512_permutexvar_ps(order, folded));
    return;
  }
#endif
  for (int64_t n = 0; n < count; ++n) out[n] = fold_lanes(lanes + n * stride);
}

inline float dot_f32(const float* a, const float* b, int64_t count) {
  const F32Row row{a};
  alignas(64) float lanes[1][1][kLanes];
  add_lanes<true, 1, 1>(&row, &b, 0, count / kLanes * kLanes, lanes);
  add_rest(row, b, count, lanes[0][0]);
  return fold_lanes(lanes[0][0]);
}

inline float sum_squares(const float* x, int64_t count) { return dot_f32(x, x, count); }

// 1 / sqrt(mean of x^2 + eps).
inline float rms_factor(const float* x, int64_t count, float eps) {
  return 1.0f / numeric::sqrt(sum_squares(x, count) / static_cast<float>(count) + eps);
}
