// Int8 products of the x86 tiers. Both forms below compute the terms of docs/ARITHMETIC.md exactly
// and add them in its order, so which one runs is a matter of speed alone:
//   few activation rows   each weight row is unpacked segment by segment and met at once
//   many                  a tile of weight rows is packed once, then met by blocks of rows

// What one weight row and one activation row give before the ordered sum: per group the exact
// integer term and the factor it enters with; likewise for the minimum.
struct Terms {
  float* product;  // [groups]
  float* factor;   // [groups]
  float* minimum;  // [groups], types with a minimum only
  float* minimum_factor;
};

inline float max_lane(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
inline int32_t sum_lanes(__m128i v) {
  v = _mm_add_epi32(v, _mm_unpackhi_epi64(v, v));
  return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0x55)));
}

inline void quantise_group(const float* x, ActivationSegment& out, int g) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  __m256 v[4], amax = _mm256_setzero_ps(), poison = _mm256_setzero_ps();
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    amax = _mm256_max_ps(_mm256_and_ps(v[i], magnitude), amax);  // keeps amax where v is NaN
    // NaN when any value is not finite: int8 codes could not carry it on.
    poison = _mm256_or_ps(poison, _mm256_mul_ps(v[i], _mm256_setzero_ps()));
  }
  float scale = max_lane(amax) / 127.0f;
  if (_mm256_movemask_ps(_mm256_cmp_ps(poison, poison, _CMP_UNORD_Q)) != 0) scale = NAN;
  // A scale that underflowed to zero stands for values too small to matter.
  const __m256 divisor = _mm256_set1_ps(scale > 0.0f ? scale : 1.0f);
  const __m256 low = _mm256_set1_ps(-127.0f), high = _mm256_set1_ps(127.0f);
  __m256i codes[4];
  for (int i = 0; i < 4; ++i) {
    // The default rounding mode is to nearest even. NaN becomes a code that its scale covers.
    const __m256 rounded = _mm256_round_ps(_mm256_div_ps(v[i], divisor),
                                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    codes[i] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(rounded, low), high));
  }
  const __m128i low_sum =
      _mm_add_epi32(_mm_add_epi32(_mm256_castsi256_si128(codes[0]), _mm256_castsi256_si128(codes[1])),
                    _mm_add_epi32(_mm256_extracti128_si256(codes[0], 1),
                                  _mm256_extracti128_si256(codes[1], 1)));
  const __m128i high_sum =
      _mm_add_epi32(_mm_add_epi32(_mm256_castsi256_si128(codes[2]), _mm256_castsi256_si128(codes[3])),
                    _mm_add_epi32(_mm256_extracti128_si256(codes[2], 1),
                                  _mm256_extracti128_si256(codes[3], 1)));
  // Packing works within lanes of 16 bytes, which leaves words 0, 2, 4, 6, 1, 3, 5, 7.
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(codes[0], codes[1]),
                                            _mm256_packs_epi32(codes[2], codes[3]));
  const __m256i q =
      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m256i turn = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  store32(out.q + g * quant::kGroupElems, q);
  store32(out.turned + g * quant::kGroupElems, _mm256_shuffle_epi8(q, turn));
  out.scale[g] = scale;
  const int32_t sums[2] = {sum_lanes(low_sum), sum_lanes(high_sum)};
  for (int half = 0; half < 2; ++half) {
    out.sum[half][g] = sums[half];
    out.bias[half][g] = -128 * sums[half];
  }
  out.group_bias[g] = -128 * (sums[0] + sums[1]);
}

constexpr int kFoldRows = 8;  // weight rows whose ordered sums run side by side

template <class Type>
inline void unpack_segment(const uint8_t* block, int groups, WeightSegment& out) {
  if constexpr (HasFastUnpack<Type>) {
    // A constant count lets the compiler unroll; only short blocks can end a row early.
    if (Type::kElems == kSegment || groups == kSegmentGroups) {
      unpack_fast(Type{}, block, kSegmentGroups, out);
    } else {
      unpack_fast(Type{}, block, groups, out);
    }
  } else {
    unpack_generic<Type>(block, groups, out);
  }
}

// Half sums of the products of one segment; groups beyond the row's end give 0.
inline void segment_dots(const WeightSegment& w, const ActivationSegment& x, __m256i& low,
                         __m256i& high) {
  __m256i sums[kSegmentGroups];
#pragma GCC unroll 8
  for (int g = 0; g < kSegmentGroups; ++g) {
    __m256i codes = load32(w.q + 32 * g);
    if constexpr (kOffset) codes = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
    sums[g] = dot4_256(_mm256_setzero_si256(), codes, load32(x.q + 32 * g));
  }
  fold_groups(sums, low, high);
  if constexpr (kOffset) {
    low = _mm256_sub_epi32(low, _mm256_slli_epi32(load32(x.sum[0]), 7));
    high = _mm256_sub_epi32(high, _mm256_slli_epi32(load32(x.sum[1]), 7));
  }
}

template <TermForm kForm, bool kUnit>
inline void segment_terms(const WeightSegment& w, const ActivationSegment& x, const Terms& out,
                          int64_t at) {
  __m256i low, high;
  segment_dots(w, x, low, high);
  if constexpr (kUnit) {
    _mm256_storeu_ps(out.product + at, _mm256_cvtepi32_ps(_mm256_add_epi32(low, high)));
    _mm256_storeu_ps(out.factor + at, _mm256_mul_ps(_mm256_load_ps(w.d), _mm256_load_ps(x.scale)));
    return;
  }
  const __m256 low_f = _mm256_cvtepi32_ps(low);
  const __m256 high_f = _mm256_cvtepi32_ps(high);
  const __m256 d = _mm256_load_ps(w.d);
  const __m256 x_scale = _mm256_load_ps(x.scale);
  const __m256 scale_low = _mm256_load_ps(w.scale[0]);
  const __m256 scale_high = _mm256_load_ps(w.scale[1]);
  if constexpr (kForm == TermForm::kWide) {
    _mm256_storeu_ps(out.product + at, low_f);
    _mm256_storeu_ps(out.factor + at, _mm256_mul_ps(_mm256_mul_ps(d, scale_low), x_scale));
    _mm256_storeu_ps(out.minimum + at, high_f);
    _mm256_storeu_ps(out.minimum_factor + at,
                     _mm256_mul_ps(_mm256_mul_ps(d, scale_high), x_scale));
    return;
  }
  _mm256_storeu_ps(out.product + at,
                   _mm256_fmadd_ps(scale_high, high_f, _mm256_mul_ps(scale_low, low_f)));
  _mm256_storeu_ps(out.factor + at, _mm256_mul_ps(d, x_scale));
  if constexpr (kForm == TermForm::kMin) {
    const __m256 sum_low = _mm256_cvtepi32_ps(load32(x.sum[0]));
    const __m256 sum_high = _mm256_cvtepi32_ps(load32(x.sum[1]));
    const __m256 min_low = _mm256_load_ps(w.min[0]);
    const __m256 min_high = _mm256_load_ps(w.min[1]);
    _mm256_storeu_ps(out.minimum + at,
                     _mm256_fmadd_ps(min_high, sum_high, _mm256_mul_ps(min_low, sum_low)));
    const __m256 factor = _mm256_mul_ps(_mm256_load_ps(w.dmin), x_scale);
    _mm256_storeu_ps(out.minimum_factor + at, _mm256_xor_ps(factor, _mm256_set1_ps(-0.0f)));
  }
}

inline void transpose8(const float* in, int64_t stride, __m256* out) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(in + i * stride);
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    out[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
}

// The ordered sums of eight weight rows from their terms, `stride` floats apart.
template <TermForm kForm>
inline __m256 ordered_sum(const Terms& terms, int64_t stride, int64_t groups) {
  __m256 total = _mm256_setzero_ps();
  for (int64_t begin = 0; begin < groups; begin += kSegmentGroups) {
    const auto here = static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - begin));
    __m256 product[8], factor[8];
    transpose8(terms.product + begin, stride, product);
    transpose8(terms.factor + begin, stride, factor);
    __m256 segment = _mm256_setzero_ps();
    if constexpr (kForm == TermForm::kPlain) {
      for (int g = 0; g < here; ++g) segment = _mm256_fmadd_ps(factor[g], product[g], segment);
    } else {
      __m256 minimum[8], minimum_factor[8];
      transpose8(terms.minimum + begin, stride, minimum);
      transpose8(terms.minimum_factor + begin, stride, minimum_factor);
      for (int g = 0; g < here; ++g) {
        segment = _mm256_fmadd_ps(factor[g], product[g], segment);
        segment = _mm256_fmadd_ps(minimum_factor[g], minimum[g], segment);
      }
    }
    total = _mm256_add_ps(total, segment);
  }
  return total;
}

// Asks for kBytes bytes; addresses past the end of a mapping are harmless. Always inlined: GCC 12
// takes a function that only prefetches for one without effect and drops its calls.
template <int64_t kBytes>
[[gnu::always_inline]] inline void prefetch(const uint8_t* p) {
#pragma GCC unroll 8
  for (int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(p + at);
}

constexpr int64_t kFewRows = 4;  // activation rows up to which packing does not pay

inline size_t few_scratch_bytes(int64_t k) {
  const auto terms = static_cast<size_t>(segments_of(k) * kSegmentGroups);
  return sizeof(WeightSegment) + kFewRows * 4 * kFoldRows * terms * sizeof(float);
}

// y[out(i), n] for weight rows [begin, end) and every activation row of the set, at most kFewRows.
template <class Type>
void multiply_few(const uint8_t* rows, size_t row_bytes, int64_t k, float factor, int64_t begin,
                  int64_t end, const RowSet& set, float* y, int64_t y_stride, std::byte* scratch) {
  constexpr TermForm kForm = kFormOf<Type>;
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  const int64_t stride = segments * kSegmentGroups;
  constexpr int64_t kSegmentBytes =
      static_cast<int64_t>(kSegment) * Type::kBytes / Type::kElems;
  auto& w = *reinterpret_cast<WeightSegment*>(scratch);
  if (segments * kSegmentGroups != groups) std::memset(&w, 0, sizeof w);
  auto* floats = reinterpret_cast<float*>(scratch + sizeof(WeightSegment));
  const auto terms_of = [&](int64_t i, int64_t row) {
    float* base = floats + i * 4 * kFoldRows * stride + row * stride;
    return Terms{base, base + kFoldRows * stride, base + 2 * kFoldRows * stride,
                 base + 3 * kFoldRows * stride};
  };
  for (int64_t n = begin; n < end; n += kFoldRows) {
    const int64_t here = std::min<int64_t>(kFoldRows, end - n);
    for (int64_t row = 0; row < here; ++row) {
      const uint8_t* block = rows + static_cast<size_t>(n + row) * row_bytes;
      for (int64_t s = 0; s < segments; ++s, block += kSegmentBytes) {
        const auto groups_here =
            static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
        unpack_segment<Type>(block, groups_here, w);
        for (int64_t i = 0; i < set.count; ++i) {
          segment_terms<kForm, kUnitScale<Type>>(w, set.x[set.in(i) * segments + s], terms_of(i, row),
                               s * kSegmentGroups);
        }
      }
    }
    for (int64_t i = 0; i < set.count; ++i) {
      alignas(32) float sums[kFoldRows];
      _mm256_store_ps(sums, ordered_sum<kForm>(terms_of(i, 0), stride, groups));
      float* out = y + set.out(i) * y_stride + n;
      for (int64_t row = 0; row < here; ++row) out[row] = sums[row] * factor;
    }
  }
}

// A tile of kVec weight rows, lanes across rows.
struct alignas(64) PackedSegment {
  int8_t q[kSegment / 4][kVec][4];  // four consecutive codes of each row
  float d[kSegmentGroups][kVec];
  float scale[2][kSegmentGroups][kVec];
  float dmin[kSegmentGroups][kVec];
  float min[2][kSegmentGroups][kVec];
};

// Words [word, word + 8) of eight rows' codes, transposed so that each word's eight rows adjoin.
inline void pack_words(const WeightSegment* w, int word, PackedSegment& out, int lane) {
  __m256i r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = load32(w[i].q + 4 * word);
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    __m256i low = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    __m256i high = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
    if constexpr (kOffset) {
      low = _mm256_xor_si256(low, _mm256_set1_epi8(-128));
      high = _mm256_xor_si256(high, _mm256_set1_epi8(-128));
    }
    store32(out.q[word + i][lane], low);
    store32(out.q[word + i + 4][lane], high);
  }
}

// Eight values of each of eight rows, transposed.
inline void pack_floats(const float* first, float (*out)[kVec], int lane) {
  __m256 columns[8];
  transpose8(first, sizeof(WeightSegment) / sizeof(float), columns);
  for (int g = 0; g < kSegmentGroups; ++g) _mm256_storeu_ps(out[g] + lane, columns[g]);
}

// Packs `count` weight rows from n on. `w` is room for eight segments.
template <class Type>
void pack_tile(const uint8_t* rows, size_t row_bytes, int64_t k, int64_t n, int64_t count,
               WeightSegment* w, PackedSegment* out) {
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  constexpr int64_t kSegmentBytes =
      static_cast<int64_t>(kSegment) * Type::kBytes / Type::kElems;
  for (int lane = 0; lane < kVec; lane += 8) {
    for (int64_t s = 0; s < segments; ++s) {
      const auto here =
          static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
      for (int i = 0; i < 8; ++i) {
        // Lanes beyond the matrix repeat its last row; their results are not stored.
        const int64_t row = n + std::min<int64_t>(lane + i, count - 1);
        const uint8_t* block = rows + static_cast<size_t>(row) * row_bytes + s * kSegmentBytes;
        // Eight rows taken side by side defeat the hardware's prefetcher.
        prefetch<kSegmentBytes>(block + 8 * row_bytes);
        unpack_segment<Type>(block, here, w[i]);
      }
      for (int word = 0; word < 8 * here; word += 8) pack_words(w, word, out[s], lane);
      pack_floats(w->d, out[s].d, lane);
      if constexpr (scaling_of<Type>() != Scaling::kNone) {
        pack_floats(w->scale[0], out[s].scale[0], lane);
      }
      if constexpr (scaling_of<Type>() == Scaling::kByHalf) {
        pack_floats(w->scale[1], out[s].scale[1], lane);
      }
      if constexpr (Type::kHasMin) {
        pack_floats(w->dmin, out[s].dmin, lane);
        pack_floats(w->min[0], out[s].min[0], lane);
        pack_floats(w->min[1], out[s].min[1], lane);
      }
    }
  }
}

// Adds to acc the products of words [at, at + 4) of a group's codes with its activations at x[r].
template <int kRows, class Codes>
[[gnu::always_inline]] inline void add_words(const Codes& codes, int at, const int8_t* const* x, IVec* acc) {
#pragma GCC unroll 4
  for (int word = at; word < at + 4; ++word) {
    const IVec w = codes(word);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, x[r] + 4 * word, 4);
      acc[r] = dot4(acc[r], w, i_set(four));
    }
  }
}

// Adds the terms of group `g` of kVec weight rows, for kRows activation rows, to their segment sums.
// `codes(word)` gives one of the group's eight words of each weight row, in the order of the
// segment's activations at q; `fields` has d, scale, dmin and min as vectors across the rows.
template <TermForm kForm, Scaling kScaling, int kRows, class Codes, class Fields>
[[gnu::always_inline]] inline void add_group(const Codes& codes, const Fields& fields,
                                             const ActivationSegment* const* x,
                                             const int8_t* const* segment_q, int g,
                                             FVec* segment) {
  const int8_t* q[kRows];
  for (int r = 0; r < kRows; ++r) q[r] = segment_q[r] + g * quant::kGroupElems;
  FVec half_sum[2][kRows];
  if constexpr (kScaling == Scaling::kByHalf) {
    for (int half = 0; half < 2; ++half) {
      IVec acc[kRows];
      for (int r = 0; r < kRows; ++r) acc[r] = i_set(kOffset ? x[r]->bias[half][g] : 0);
      add_words<kRows>(codes, 4 * half, q, acc);
      for (int r = 0; r < kRows; ++r) half_sum[half][r] = f_from(acc[r]);
    }
  } else {
    IVec acc[kRows];
    for (int r = 0; r < kRows; ++r) acc[r] = i_set(kOffset ? x[r]->group_bias[g] : 0);
    if constexpr (kRows <= 2) {  // two chains of sums hide the latency that few rows leave open
      IVec other[kRows];
      for (int r = 0; r < kRows; ++r) other[r] = i_set(0);
      add_words<kRows>(codes, 0, q, acc);
      add_words<kRows>(codes, 4, q, other);
      for (int r = 0; r < kRows; ++r) acc[r] = i_add(acc[r], other[r]);
    } else {
      add_words<kRows>(codes, 0, q, acc);
      add_words<kRows>(codes, 4, q, acc);
    }
    for (int r = 0; r < kRows; ++r) half_sum[0][r] = f_from(acc[r]);
  }
  const FVec d = fields.d(g);
  for (int r = 0; r < kRows; ++r) {
    const FVec x_scale = f_set(x[r]->scale[g]);
    if constexpr (kForm == TermForm::kWide) {
      segment[r] = f_fma(f_mul(f_mul(d, fields.scale(0, g)), x_scale), half_sum[0][r], segment[r]);
      segment[r] = f_fma(f_mul(f_mul(d, fields.scale(1, g)), x_scale), half_sum[1][r], segment[r]);
    } else {
      FVec product = half_sum[0][r];
      if constexpr (kScaling != Scaling::kNone) product = f_mul(fields.scale(0, g), product);
      if constexpr (kScaling == Scaling::kByHalf) {
        product = f_fma(fields.scale(1, g), half_sum[1][r], product);
      }
      segment[r] = f_fma(f_mul(d, x_scale), product, segment[r]);
      if constexpr (kForm == TermForm::kMin) {
        const FVec minimum =
            f_fma(fields.min(1, g), f_set(static_cast<float>(x[r]->sum[1][g])),
                  f_mul(fields.min(0, g), f_set(static_cast<float>(x[r]->sum[0][g]))));
        segment[r] = f_nfma(f_mul(fields.dmin(g), x_scale), minimum, segment[r]);
      }
    }
  }
}

struct PackedFields {
  const PackedSegment& w;
  FVec d(int g) const { return f_load(w.d[g]); }
  FVec scale(int half, int g) const { return f_load(w.scale[half][g]); }
  FVec dmin(int g) const { return f_load(w.dmin[g]); }
  FVec min(int half, int g) const { return f_load(w.min[half][g]); }
};

// Stores the products of kVec weight rows, of which `lanes` exist, with one activation row.
inline void store_products(FVec total, float factor, float* out, int64_t lanes) {
  const FVec value = f_mul(total, f_set(factor));
  if (lanes == kVec) {
    f_store(out, value);
  } else {
    alignas(64) float all[kVec];
    f_store(all, value);
    std::memcpy(out, all, static_cast<size_t>(lanes) * sizeof(float));
  }
}

// kTurned: codes are packed in the order of ActivationSegment::turned.
template <TermForm kForm, Scaling kScaling, bool kTurned, int kRows>
void tile_rows(const PackedSegment* w, int64_t k, const RowSet& set, int64_t first, float factor,
               float* y, int64_t y_stride, int64_t n, int64_t lanes) {
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  FVec total[kRows];
  for (int r = 0; r < kRows; ++r) total[r] = f_zero();
  for (int64_t s = 0; s < segments; ++s) {
    const ActivationSegment* x[kRows];
    const int8_t* q[kRows];
    FVec segment[kRows];
    for (int r = 0; r < kRows; ++r) {
      x[r] = set.x + set.in(first + r) * segments + s;
      q[r] = kTurned ? x[r]->turned : x[r]->q;
      segment[r] = f_zero();
    }
    const auto here =
        static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
    for (int g = 0; g < here; ++g) {
      const auto codes = [&](int word) { return i_load(w[s].q[8 * g + word]); };
      add_group<kForm, kScaling, kRows>(codes, PackedFields{w[s]}, x, q, g, segment);
    }
    for (int r = 0; r < kRows; ++r) total[r] = f_add(total[r], segment[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    store_products(total[r], factor, y + set.out(first + r) * y_stride + n, lanes);
  }
}

#if STRATA_TIER_WIDTH == 512
constexpr int kTileRows = 8;  // activation rows met at once, as registers allow
#else
constexpr int kTileRows = 3;
#endif
constexpr int64_t kPanelTiles = 4;  // weight tiles packed together, so activations are reused

inline size_t many_scratch_bytes(int64_t k) {
  return 8 * sizeof(WeightSegment) +
         static_cast<size_t>(kPanelTiles * segments_of(k)) * sizeof(PackedSegment);
}

// `pack(n, count, out)` packs the tile of `count` weight rows from n on.
template <TermForm kForm, Scaling kScaling, bool kTurned, class Pack>
inline void multiply_packed(const Pack& pack, int64_t k, float factor, int64_t begin, int64_t end,
                            const RowSet& set, float* y, int64_t y_stride, PackedSegment* packed) {
  const int64_t segments = segments_of(k);
  for (int64_t panel = begin; panel < end; panel += kPanelTiles * kVec) {
    const int64_t panel_end = std::min(end, panel + kPanelTiles * kVec);
    for (int64_t n = panel; n < panel_end; n += kVec) {
      pack(n, std::min<int64_t>(kVec, panel_end - n), packed + (n - panel) / kVec * segments);
    }
    int64_t first = 0;
    for_row_blocks<kTileRows>(set.count, [&](auto count) {
      for (int64_t n = panel; n < panel_end; n += kVec) {
        tile_rows<kForm, kScaling, kTurned, count()>(
            packed + (n - panel) / kVec * segments, k, set, first, factor, y, y_stride, n,
            std::min<int64_t>(kVec, panel_end - n));
      }
      first += count();
    });
  }
}

template <class Type>
void multiply_many(const uint8_t* rows, size_t row_bytes, int64_t k, float factor, int64_t begin,
                   int64_t end, const RowSet& set, float* y, int64_t y_stride, std::byte* scratch) {
  auto* w = reinterpret_cast<WeightSegment*>(scratch);
  // A short last segment leaves the rest of its room unwritten; it is copied along, never used.
  if (k % kSegment != 0) std::memset(w, 0, 8 * sizeof(WeightSegment));
  multiply_packed<kFormOf<Type>, scaling_of<Type>(), false>(
      [&](int64_t n, int64_t count, PackedSegment* out) {
        pack_tile<Type>(rows, row_bytes, k, n, count, w, out);
      },
      k, factor, begin, end, set, y, y_stride,
      reinterpret_cast<PackedSegment*>(scratch + 8 * sizeof(WeightSegment)));
}
