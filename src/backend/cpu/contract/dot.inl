// Dot products in the canonical orders of docs/ARITHMETIC.md.

constexpr int kLanes = 32;         // strided partial sums of a float reduction
constexpr int kSegmentGroups = 8;  // groups of 32 in one segment of an int8 product

// Lane l holds the sum over elements i = l mod 32; lanes are folded in halves.
inline float fold_lanes(float* lane) {
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int l = 0; l < step; ++l) lane[l] += lane[l + step];
  }
  return lane[0];
}

inline float dot_f32(const float* a, const float* b, int64_t count) {
  alignas(64) float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lane[l] = numeric::fma(a[i + l], b[i + l], lane[l]);
  }
  for (int l = 0; i + l < count; ++l) lane[l] = numeric::fma(a[i + l], b[i + l], lane[l]);
  return fold_lanes(lane);
}

inline float sum_squares(const float* x, int64_t count) { return dot_f32(x, x, count); }

// 1 / sqrt(mean of x^2 + eps).
inline float rms_factor(const float* x, int64_t count, float eps) {
  return 1.0f / numeric::sqrt(sum_squares(x, count) / static_cast<float>(count) + eps);
}

// One activation row in int8: per 32 values, scale = amax / 127 and q = round half even(x / scale).
// Values of a group are kept together with the sums of its halves, which products with a minimum
// need.
struct ActivationGroup {
  int8_t q[quant::kGroupElems];
  int32_t half_sum[2];
  float scale;
};

inline void quantise_row(const float* x, int64_t count, ActivationGroup* out) {
  for (int64_t g = 0; g < count / quant::kGroupElems; ++g, x += quant::kGroupElems) {
    float amax = 0.0f;
    for (int i = 0; i < quant::kGroupElems; ++i) amax = numeric::max(amax, std::fabs(x[i]));
    const float scale = amax / 127.0f;
    ActivationGroup& group = out[g];
    group.scale = scale;
    // A scale that underflowed to zero stands for values too small to matter.
    const float divisor = scale > 0.0f ? scale : 1.0f;
    for (int i = 0; i < quant::kGroupElems; ++i) {
      const float q = numeric::round_even(x[i] / divisor);
      group.q[i] = static_cast<int8_t>(numeric::min(numeric::max(q, -127.0f), 127.0f));
    }
    for (int half = 0; half < 2; ++half) {
      int32_t sum = 0;
      for (int i = 0; i < 16; ++i) sum += group.q[16 * half + i];
      group.half_sum[half] = sum;
    }
  }
}

// How the terms of one group are formed.
enum class TermForm {
  kPlain,  // one product of d, the activation scale and an exact integer
  kMin,    // the same, then the minimum's integer term
  kWide,   // sub-scales too wide for int32 products: one float term per half
};

inline int32_t dot16(const int8_t* a, const int8_t* b) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
  return sum;
}

template <TermForm kForm>
inline float dot_int8(const IntGroup* w, const ActivationGroup* x, int64_t groups) {
  float total = 0.0f;
  for (int64_t begin = 0; begin < groups; begin += kSegmentGroups) {
    const int64_t end = std::min<int64_t>(groups, begin + kSegmentGroups);
    float segment = 0.0f;
    for (int64_t g = begin; g < end; ++g) {
      const int32_t low = dot16(w[g].q, x[g].q);
      const int32_t high = dot16(w[g].q + 16, x[g].q + 16);
      if constexpr (kForm == TermForm::kWide) {
        segment = numeric::fma(w[g].d * static_cast<float>(w[g].scale[0]) * x[g].scale,
                               static_cast<float>(low), segment);
        segment = numeric::fma(w[g].d * static_cast<float>(w[g].scale[1]) * x[g].scale,
                               static_cast<float>(high), segment);
      } else {
        const int32_t product = w[g].scale[0] * low + w[g].scale[1] * high;
        segment = numeric::fma(w[g].d * x[g].scale, static_cast<float>(product), segment);
        if constexpr (kForm == TermForm::kMin) {
          const int32_t minimum = w[g].min[0] * x[g].half_sum[0] + w[g].min[1] * x[g].half_sum[1];
          segment =
              numeric::fma(-(w[g].dmin * x[g].scale), static_cast<float>(minimum), segment);
        }
      }
    }
    total += segment;
  }
  return total;
}
