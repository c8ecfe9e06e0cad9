// Int8 products of the scalar tier. Each weight row is unpacked once and meets every
// activation row.

constexpr int64_t kFewRows = 0;

inline size_t few_scratch_bytes(int64_t) { return 0; }
inline size_t many_scratch_bytes(int64_t k) {
  return static_cast<size_t>(k / quant::kGroupElems) * sizeof(IntGroup);
}

inline int32_t dot16(const int8_t* a, const int8_t* b) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
  return sum;
}

template <TermForm kForm>
inline float ordered_dot(const IntGroup* w, const ActivationSegment* x, int64_t groups) {
  float total = 0.0f;
  for (int64_t begin = 0; begin < groups; begin += kSegmentGroups, ++x) {
    const int64_t here = std::min<int64_t>(kSegmentGroups, groups - begin);
    float segment = 0.0f;
    for (int64_t g = 0; g < here; ++g, ++w) {
      const int8_t* q = x->q + g * quant::kGroupElems;
      const int32_t low = dot16(w->q, q);
      const int32_t high = dot16(w->q + 16, q + 16);
      if constexpr (kForm == TermForm::kWide) {
        segment = numeric::fma(w->d * static_cast<float>(w->scale[0]) * x->scale[g],
                               static_cast<float>(low), segment);
        segment = numeric::fma(w->d * static_cast<float>(w->scale[1]) * x->scale[g],
                               static_cast<float>(high), segment);
      } else {
        const int32_t product = w->scale[0] * low + w->scale[1] * high;
        segment = numeric::fma(w->d * x->scale[g], static_cast<float>(product), segment);
        if constexpr (kForm == TermForm::kMin) {
          const int32_t minimum = w->min[0] * x->sum[0][g] + w->min[1] * x->sum[1][g];
          segment =
              numeric::fma(-(w->dmin * x->scale[g]), static_cast<float>(minimum), segment);
        }
      }
    }
    total += segment;
  }
  return total;
}

template <class Type>
void multiply_many(const uint8_t* rows, size_t row_bytes, int64_t k, float factor, int64_t begin,
                   int64_t end, const RowSet& set, float* y, int64_t y_stride, std::byte* scratch) {
  constexpr int kGroups = Type::kElems / quant::kGroupElems;
  auto* w = reinterpret_cast<IntGroup*>(scratch);
  const int64_t groups = k / quant::kGroupElems;
  for (int64_t n = begin; n < end; ++n) {
    const uint8_t* block = rows + static_cast<size_t>(n) * row_bytes;
    for (int64_t g = 0; g < groups; ++g) {
      Type::unpack(block + g / kGroups * Type::kBytes, static_cast<int>(g % kGroups), w[g]);
    }
    for (int64_t i = 0; i < set.count; ++i) {
      y[set.out(i) * y_stride + n] =
          ordered_dot<kFormOf<Type>>(w, set.x + set.in(i) * segments_of(k), groups) * factor;
    }
  }
}

template <class Type>
void multiply_few(const uint8_t* rows, size_t row_bytes, int64_t k, float factor, int64_t begin,
                  int64_t end, const RowSet& set, float* y, int64_t y_stride, std::byte* scratch) {
  multiply_many<Type>(rows, row_bytes, k, factor, begin, end, set, y, y_stride, scratch);
}
