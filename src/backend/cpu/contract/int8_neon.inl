// Int8 products of the NEON tiers. Both forms below compute the terms of docs/ARITHMETIC.md exactly
// and add them in its order, weight rows in the lanes of the ordered sums:
//   by rows  four weight rows are unpacked segment by segment; the codes of a group stay in
//            registers while activation rows meet them
//   packed   a tile of eight weight rows is packed once, then met by four activation rows at a
//   time;
//            needs dot products by lane or products of 2x8 by 8x2

// Adds 16 products of codes to four lanes, exactly.
inline int32x4_t dot_lanes(int32x4_t acc, int8x16_t w, int8x16_t x) {
#if STRATA_TIER_DOT
  return vdotq_s32(acc, w, x);
#else
  // |w| <= 128 and |x| <= 127: two products stay below 2^15.
  const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
  return vpadalq_s16(acc, vmlal_high_s8(low, w, x));
#endif
}

inline void quantise_group(const float* x, ActivationSegment& out, int g) {
  float32x4_t v[8], amax = vdupq_n_f32(0.0f), poison = vdupq_n_f32(0.0f);
  for (int i = 0; i < 8; ++i) {
    v[i] = vld1q_f32(x + 4 * i);
    amax = max4(vabsq_f32(v[i]), amax);  // keeps amax where v is NaN
    // NaN when any value is not finite: int8 codes could not carry it on.
    poison = vfmaq_f32(poison, v[i], vdupq_n_f32(0.0f));
  }
  const float scale = vaddvq_f32(poison) == 0.0f ? vmaxvq_f32(amax) / 127.0f : NAN;
  // A scale that underflowed to zero stands for values too small to matter.
  const float32x4_t divisor = vdupq_n_f32(scale > 0.0f ? scale : 1.0f);
  const float32x4_t low = vdupq_n_f32(-127.0f), high = vdupq_n_f32(127.0f);
  int16x8_t codes[4];
  for (int i = 0; i < 4; ++i) {
    int32x4_t q[2];
    for (int j = 0; j < 2; ++j) {
      const float32x4_t rounded = vrndnq_f32(vdivq_f32(v[2 * i + j], divisor));
      q[j] = vcvtq_s32_f32(vminq_f32(vmaxq_f32(rounded, low), high));
    }
    codes[i] = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
  }
  out.scale[g] = scale;
  for (int half = 0; half < 2; ++half) {
    vst1q_s8(out.q + g * quant::kGroupElems + 16 * half,
             vcombine_s8(vmovn_s16(codes[2 * half]), vmovn_s16(codes[2 * half + 1])));
    out.sum[half][g] = vaddlvq_s16(codes[2 * half]) + vaddlvq_s16(codes[2 * half + 1]);
  }
}

template <class Type>
inline void unpack_segment(const uint8_t* block, int groups, WeightSegment& out) {
  if constexpr (HasFastUnpack<Type>) {
    unpack_fast(Type{}, block, groups, out);
  } else {
    unpack_generic<Type>(block, groups, out);
  }
}

inline void transpose4(const float32x4_t* in, float32x4_t* out) {
  const float32x4_t a = vtrn1q_f32(in[0], in[1]), b = vtrn2q_f32(in[0], in[1]);
  const float32x4_t c = vtrn1q_f32(in[2], in[3]), d = vtrn2q_f32(in[2], in[3]);
  const auto low = [](float32x4_t x, float32x4_t y) {
    return vcombine_f32(vget_low_f32(x), vget_low_f32(y));
  };
  const auto high = [](float32x4_t x, float32x4_t y) {
    return vcombine_f32(vget_high_f32(x), vget_high_f32(y));
  };
  out[0] = low(a, c);
  out[1] = low(b, d);
  out[2] = high(a, c);
  out[3] = high(b, d);
}

// The float fields of `kVectors` vectors of weight rows, lanes across rows.
template <int kVectors>
struct FieldVectors {
  float32x4_t d[kSegmentGroups][kVectors];
  float32x4_t scale[2][kSegmentGroups][kVectors];
  float32x4_t dmin[kSegmentGroups][kVectors];
  float32x4_t min[2][kSegmentGroups][kVectors];
};

// Eight values of each of four rows. kSpread 1: vector `at` has a lane per row; kSpread 2: vectors
// at and at + 1 have each row twice.
template <int kSpread, int kVectors>
inline void turn_field(const float* first, float32x4_t (*out)[kVectors], int at) {
  constexpr size_t kStride = sizeof(WeightSegment) / sizeof(float);
  for (int from = 0; from < kSegmentGroups; from += 4) {
    float32x4_t rows[4], columns[4];
    for (int i = 0; i < 4; ++i) rows[i] = vld1q_f32(first + i * kStride + from);
    transpose4(rows, columns);
    for (int i = 0; i < 4; ++i) {
      if constexpr (kSpread == 1) {
        out[from + i][at] = columns[i];
      } else {
        out[from + i][at] = vzip1q_f32(columns[i], columns[i]);
        out[from + i][at + 1] = vzip2q_f32(columns[i], columns[i]);
      }
    }
  }
}

// The fields of the four rows at w that the terms of the type use.
template <class Type, int kSpread, int kVectors>
inline void turn_fields(const WeightSegment* w, FieldVectors<kVectors>& out, int at) {
  turn_field<kSpread>(w->d, out.d, at);
  if constexpr (scaling_of<Type>() != Scaling::kNone) {
    turn_field<kSpread>(w->scale[0], out.scale[0], at);
  }
  if constexpr (scaling_of<Type>() == Scaling::kByHalf) {
    turn_field<kSpread>(w->scale[1], out.scale[1], at);
  }
  if constexpr (Type::kHasMin) {
    turn_field<kSpread>(w->dmin, out.dmin, at);
    turn_field<kSpread>(w->min[0], out.min[0], at);
    turn_field<kSpread>(w->min[1], out.min[1], at);
  }
}

// What an activation row, or a pair of them, brings to the terms of a group.
struct InputTerms {
  float32x4_t scale;
  float32x4_t sum[2];  // types with a minimum only
};

// Adds the terms of group g of the weight rows in lanes to their segment sum. `low` has the sums of
// the products of the first half, or of the whole group where the sub-scale is one.
template <TermForm kForm, Scaling kScaling, int kVectors>
[[gnu::always_inline]] inline float32x4_t add_terms(const FieldVectors<kVectors>& w, int g, int v,
                                                    const InputTerms& x, int32x4_t low,
                                                    int32x4_t high, float32x4_t segment) {
  if constexpr (kForm == TermForm::kWide) {
    const auto factor = [&](int half) {
      return vmulq_f32(vmulq_f32(w.d[g][v], w.scale[half][g][v]), x.scale);
    };
    segment = vfmaq_f32(segment, factor(0), vcvtq_f32_s32(low));
    return vfmaq_f32(segment, factor(1), vcvtq_f32_s32(high));
  }
  float32x4_t product = vcvtq_f32_s32(low);
  if constexpr (kScaling != Scaling::kNone) product = vmulq_f32(w.scale[0][g][v], product);
  if constexpr (kScaling == Scaling::kByHalf) {
    product = vfmaq_f32(product, w.scale[1][g][v], vcvtq_f32_s32(high));
  }
  segment = vfmaq_f32(segment, vmulq_f32(w.d[g][v], x.scale), product);
  if constexpr (kForm == TermForm::kMin) {
    const float32x4_t minimum =
        vfmaq_f32(vmulq_f32(w.min[0][g][v], x.sum[0]), w.min[1][g][v], x.sum[1]);
    segment = vfmsq_f32(segment, vmulq_f32(w.dmin[g][v], x.scale), minimum);
  }
  return segment;
}

template <TermForm kForm>
[[gnu::always_inline]] inline InputTerms input_terms(const ActivationSegment& x, int g) {
  InputTerms out;
  out.scale = vdupq_n_f32(x.scale[g]);
  if constexpr (kForm == TermForm::kMin) {
    for (int half = 0; half < 2; ++half) {
      out.sum[half] = vcvtq_f32_s32(vdupq_n_s32(x.sum[half][g]));
    }
  }
  return out;
}

inline void store_lanes(float32x4_t total, float factor, float* out, int64_t lanes) {
  const float32x4_t value = vmulq_f32(total, vdupq_n_f32(factor));
  if (lanes >= 4) {
    vst1q_f32(out, value);
  } else {
    float all[4];
    vst1q_f32(all, value);
    for (int64_t i = 0; i < lanes; ++i) out[i] = all[i];
  }
}

constexpr int kRowsTogether = 4;

struct RowsScratch {
  WeightSegment w[kRowsTogether];
  FieldVectors<1> fields;
};

// The codes of one group of four weight rows: halves of row i at 2 i and 2 i + 1.
struct GroupCodes {
  int8x16_t half[2 * kRowsTogether];
};

// Sums of the products of a half group, or of a whole one, for the four rows.
template <bool kLow, bool kHigh>
[[gnu::always_inline]] inline int32x4_t row_dots(const GroupCodes& w, const int8_t* q) {
  int32x4_t sum[kRowsTogether];
#pragma GCC unroll 4
  for (int i = 0; i < kRowsTogether; ++i) {
    sum[i] = vdupq_n_s32(0);
    if constexpr (kLow) sum[i] = dot_lanes(sum[i], w.half[2 * i], vld1q_s8(q));
    if constexpr (kHigh) sum[i] = dot_lanes(sum[i], w.half[2 * i + 1], vld1q_s8(q + 16));
  }
  return vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]));
}

template <class Type>
[[gnu::always_inline]] inline float32x4_t add_group(const GroupCodes& codes,
                                                    const FieldVectors<1>& fields,
                                                    const ActivationSegment& x, int g,
                                                    float32x4_t segment) {
  constexpr Scaling kScaling = scaling_of<Type>();
  const int8_t* q = x.q + g * quant::kGroupElems;
  const InputTerms input = input_terms<kFormOf<Type>>(x, g);
  if constexpr (kScaling == Scaling::kByHalf) {
    return add_terms<kFormOf<Type>, kScaling>(fields, g, 0, input, row_dots<true, false>(codes, q),
                                              row_dots<false, true>(codes, q), segment);
  } else {
    const int32x4_t sum = row_dots<true, true>(codes, q);
    return add_terms<kFormOf<Type>, kScaling>(fields, g, 0, input, sum, sum, segment);
  }
}

// Weight rows [n, n + lanes), at most four, and activation rows first .. first + count - 1 of the
// set. kCount: their number, or 0 for any up to kMostRows, whose sums then wait in the first cache.
constexpr int kMostRows = 64;

template <class Type, int kCount>
void meet_rows(const WeightRows& rows, int64_t k, float factor, int64_t n, const RowSet& set,
               int64_t first, int any_count, float* y, int64_t y_stride, RowsScratch& scratch) {
  constexpr int kRoom = kCount > 0 ? kCount : kMostRows;
  constexpr int64_t kSegmentBytes = static_cast<int64_t>(kSegment) * Type::kBytes / Type::kElems;
  const int count = kCount > 0 ? kCount : any_count;
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  float32x4_t total[kRoom], segment[kRoom];
  for (int r = 0; r < count; ++r) total[r] = vdupq_n_f32(0.0f);
  for (int64_t s = 0; s < segments; ++s) {
    const auto here =
        static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
    for (int i = 0; i < kRowsTogether; ++i) {
      // Lanes beyond the matrix repeat its last row; their results are not stored.
      const uint8_t* row = rows.at(std::min(n + i, rows.end - 1));
      unpack_segment<Type>(row + s * kSegmentBytes, here, scratch.w[i]);
    }
    turn_fields<Type, 1>(scratch.w, scratch.fields, 0);
    const ActivationSegment* x[kRoom];
    for (int r = 0; r < count; ++r) {
      x[r] = set.x + set.in(first + r) * segments + s;
      segment[r] = vdupq_n_f32(0.0f);
    }
    for (int g = 0; g < here; ++g) {
      GroupCodes codes;
#pragma GCC unroll 8
      for (int i = 0; i < 2 * kRowsTogether; ++i) {
        codes.half[i] = vld1q_s8(scratch.w[i / 2].q + g * quant::kGroupElems + 16 * (i % 2));
      }
      for (int r = 0; r < count; ++r) {
        segment[r] = add_group<Type>(codes, scratch.fields, *x[r], g, segment[r]);
      }
    }
    for (int r = 0; r < count; ++r) total[r] = vaddq_f32(total[r], segment[r]);
  }
  for (int r = 0; r < count; ++r) {
    store_lanes(total[r], factor, y + set.out(first + r) * y_stride + n, rows.end - n);
  }
}

// y[out(i), n] for weight rows [begin, end) and every activation row of the set.
template <class Type>
void multiply_few(const uint8_t* weights, size_t row_bytes, int64_t k, float factor, int64_t begin,
                  int64_t end, const RowSet& set, float* y, int64_t y_stride, std::byte* memory) {
  auto& scratch = *reinterpret_cast<RowsScratch*>(memory);
  // A short last segment leaves the rest of its room unwritten; it is turned along, never used.
  if (k % kSegment != 0) std::memset(scratch.w, 0, sizeof scratch.w);
  const WeightRows rows{weights, row_bytes, begin, end, nullptr};
  for (int64_t n = begin; n < end; n += kRowsTogether) {
    if (set.count == 1) {
      meet_rows<Type, 1>(rows, k, factor, n, set, 0, 1, y, y_stride, scratch);
      continue;
    }
    for (int64_t first = 0; first < set.count; first += kMostRows) {
      const auto count = static_cast<int>(std::min<int64_t>(kMostRows, set.count - first));
      meet_rows<Type, 0>(rows, k, factor, n, set, first, count, y, y_stride, scratch);
    }
  }
}

inline size_t few_scratch_bytes(int64_t) { return sizeof(RowsScratch); }

#if !STRATA_TIER_DOT

constexpr int64_t kFewRows = INT64_MAX;  // packing saves nothing here

inline size_t many_scratch_bytes(int64_t) { return 0; }

template <class Type>
void multiply_many(const uint8_t*, size_t, int64_t, float, int64_t, int64_t, const RowSet&, float*,
                   int64_t, std::byte*) {}

#else

constexpr int64_t kFewRows = 6;     // activation rows up to which packing does not pay
constexpr int kTile = 8;            // weight rows of a packed tile
constexpr int kTileRows = 4;        // activation rows it meets at once, as registers allow
constexpr int64_t kPanelTiles = 4;  // tiles packed together, so activations are reused

// Lanes of a vector of sums: four weight rows by one activation row, or (with products of matrices)
// two by two: rows 0, 0, 1, 1 by activation rows 0, 1, 0, 1.
#if STRATA_TIER_MATMUL
constexpr int kTileVectors = 4;
constexpr int kRowsOfVector = 2;
#else
constexpr int kTileVectors = 2;
constexpr int kRowsOfVector = 1;
#endif

struct alignas(64) PackedSegment {
  // 128 bytes for each half of a group: four codes of each row in turn, or eight of each.
  int8_t q[2 * kSegmentGroups][16 * kTile];
  FieldVectors<kTileVectors> fields;
};

inline size_t many_scratch_bytes(int64_t k) {
  return kTile * sizeof(WeightSegment) +
         static_cast<size_t>(kPanelTiles * segments_of(k)) * sizeof(PackedSegment);
}

// Sixteen codes of each row of a tile.
inline void pack_half(const WeightSegment* w, int half, int8_t* out) {
#if STRATA_TIER_MATMUL
  for (int i = 0; i < kTile; i += 2) {
    const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(w[i].q + 16 * half));
    const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(w[i + 1].q + 16 * half));
    vst1q_s8(out + 8 * i, vreinterpretq_s8_s64(vzip1q_s64(a, b)));
    vst1q_s8(out + 8 * kTile + 8 * i, vreinterpretq_s8_s64(vzip2q_s64(a, b)));
  }
#else
  for (int i = 0; i < kTile; i += 4) {
    float32x4_t rows[4], words[4];  // moved as bits
    for (int j = 0; j < 4; ++j) {
      rows[j] = vreinterpretq_f32_s8(vld1q_s8(w[i + j].q + 16 * half));
    }
    transpose4(rows, words);
    for (int j = 0; j < 4; ++j) {
      vst1q_s8(out + 4 * kTile * j + 4 * i, vreinterpretq_s8_f32(words[j]));
    }
  }
#endif
}

// Packs `count` weight rows from n on. `w` is room for a tile's segments.
template <class Type>
void pack_tile(const WeightRows& rows, int64_t k, int64_t n, int64_t count, WeightSegment* w,
               PackedSegment* out) {
  constexpr int64_t kSegmentBytes = static_cast<int64_t>(kSegment) * Type::kBytes / Type::kElems;
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  for (int64_t s = 0; s < segments; ++s) {
    const auto here =
        static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
    for (int i = 0; i < kTile; ++i) {
      // Lanes beyond the matrix repeat its last row; their results are not stored.
      const uint8_t* row = rows.at(n + std::min<int64_t>(i, count - 1));
      unpack_segment<Type>(row + s * kSegmentBytes, here, w[i]);
    }
    for (int half = 0; half < 2 * here; ++half) pack_half(w, half, out[s].q[half]);
    for (int i = 0; i < kTile; i += 4) {
      turn_fields<Type, kRowsOfVector>(w + i, out[s].fields, i / 4 * kRowsOfVector);
    }
  }
}

// Sums of products of a tile's rows with kVectors vectors of activation rows.
template <int kVectors>
struct TileSums {
  int32x4_t v[kTileVectors][kVectors];
};

// Adds the products of a half group: `w` as packed, `x` the sixteen codes of each activation row.
#if STRATA_TIER_MATMUL
template <int kVectors>
[[gnu::always_inline]] inline void add_half(const int8_t* w, const int8_t* const* x,
                                            TileSums<kVectors>& sums) {
  int8x16_t pairs[2][kVectors];
#pragma GCC unroll 2
  for (int r = 0; r < kVectors; ++r) {
    const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x[2 * r]));
    const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x[2 * r + 1]));
    pairs[0][r] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
    pairs[1][r] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
  }
#pragma GCC unroll 2
  for (int step = 0; step < 2; ++step) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const int8x16_t codes = vld1q_s8(w + 8 * kTile * step + 16 * v);
#pragma GCC unroll 2
      for (int r = 0; r < kVectors; ++r) {
        sums.v[v][r] = vmmlaq_s32(sums.v[v][r], codes, pairs[step][r]);
      }
    }
  }
}
#else
template <int kWord, int kVectors>
[[gnu::always_inline]] inline void add_word(const int8_t* w, const int8x16_t* x,
                                            TileSums<kVectors>& sums) {
#pragma GCC unroll 2
  for (int v = 0; v < kTileVectors; ++v) {
    const int8x16_t codes = vld1q_s8(w + 4 * kTile * kWord + 16 * v);
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      sums.v[v][r] = vdotq_laneq_s32(sums.v[v][r], codes, x[r], kWord);
    }
  }
}
template <int kVectors>
[[gnu::always_inline]] inline void add_half(const int8_t* w, const int8_t* const* x,
                                            TileSums<kVectors>& sums) {
  int8x16_t codes[kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kVectors; ++r) codes[r] = vld1q_s8(x[r]);
  add_word<0>(w, codes, sums);
  add_word<1>(w, codes, sums);
  add_word<2>(w, codes, sums);
  add_word<3>(w, codes, sums);
}
#endif

// What vector r of activation rows brings to the terms of a group.
template <TermForm kForm>
[[gnu::always_inline]] inline InputTerms tile_inputs(const ActivationSegment* const* x, int r,
                                                     int g) {
#if STRATA_TIER_MATMUL
  const InputTerms a = input_terms<kForm>(*x[2 * r], g), b = input_terms<kForm>(*x[2 * r + 1], g);
  InputTerms out;
  out.scale = vzip1q_f32(a.scale, b.scale);
  if constexpr (kForm == TermForm::kMin) {
    for (int half = 0; half < 2; ++half) out.sum[half] = vzip1q_f32(a.sum[half], b.sum[half]);
  }
  return out;
#else
  return input_terms<kForm>(*x[r], g);
#endif
}

// A packed tile and kCount activation rows of the set from `first` on.
template <TermForm kForm, Scaling kScaling, int kCount>
void meet_tile(const PackedSegment* w, int64_t k, const RowSet& set, int64_t first, float factor,
               float* y, int64_t y_stride, int64_t n, int64_t lanes) {
  constexpr int kVectors = (kCount + kRowsOfVector - 1) / kRowsOfVector;
  constexpr int kInputs = kVectors * kRowsOfVector;  // an odd last row is met twice, stored once
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  float32x4_t total[kTileVectors][kVectors], segment[kTileVectors][kVectors];
  for (auto& row : total) std::fill(row, row + kVectors, vdupq_n_f32(0.0f));
  for (int64_t s = 0; s < segments; ++s, ++w) {
    const ActivationSegment* x[kInputs];
    for (int r = 0; r < kInputs; ++r) {
      x[r] = set.x + set.in(first + std::min(r, kCount - 1)) * segments + s;
    }
    for (auto& row : segment) std::fill(row, row + kVectors, vdupq_n_f32(0.0f));
    const auto here =
        static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
    for (int g = 0; g < here; ++g) {
      TileSums<kVectors> low = {}, high = {};
      const int8_t* q[kInputs];
      for (int r = 0; r < kInputs; ++r) q[r] = x[r]->q + g * quant::kGroupElems;
      add_half(w->q[2 * g], q, low);
      for (int r = 0; r < kInputs; ++r) q[r] += 16;
      add_half(w->q[2 * g + 1], q, kScaling == Scaling::kByHalf ? high : low);
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        const InputTerms input = tile_inputs<kForm>(x, r, g);
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) {
          segment[v][r] = add_terms<kForm, kScaling>(w->fields, g, v, input, low.v[v][r],
                                                     high.v[v][r], segment[v][r]);
        }
      }
    }
    for (int v = 0; v < kTileVectors; ++v) {
      for (int r = 0; r < kVectors; ++r) total[v][r] = vaddq_f32(total[v][r], segment[v][r]);
    }
  }
  for (int r = 0; r < kCount; ++r) {
    float* out = y + set.out(first + r) * y_stride + n;
    for (int four = 0; four < kTile && four < lanes; four += 4) {
#if STRATA_TIER_MATMUL
      const float32x4_t a = total[four / 2][r / 2], b = total[four / 2 + 1][r / 2];
      const float32x4_t sums = r % 2 == 0 ? vuzp1q_f32(a, b) : vuzp2q_f32(a, b);
#else
      const float32x4_t sums = total[four / 4][r];
#endif
      store_lanes(sums, factor, out + four, lanes - four);
    }
  }
}

template <class Type>
void multiply_many(const uint8_t* weights, size_t row_bytes, int64_t k, float factor, int64_t begin,
                   int64_t end, const RowSet& set, float* y, int64_t y_stride, std::byte* memory) {
  auto* w = reinterpret_cast<WeightSegment*>(memory);
  auto* packed = reinterpret_cast<PackedSegment*>(memory + kTile * sizeof(WeightSegment));
  // A short last segment leaves the rest of its room unwritten; it is copied along, never used.
  if (k % kSegment != 0) std::memset(w, 0, kTile * sizeof(WeightSegment));
  const WeightRows rows{weights, row_bytes, begin, end, nullptr};
  const int64_t segments = segments_of(k);
  for (int64_t panel = begin; panel < end; panel += kPanelTiles * kTile) {
    const int64_t panel_end = std::min(end, panel + kPanelTiles * kTile);
    for (int64_t n = panel; n < panel_end; n += kTile) {
      pack_tile<Type>(rows, k, n, std::min<int64_t>(kTile, panel_end - n), w,
                      packed + (n - panel) / kTile * segments);
    }
    int64_t first = 0;
    for_row_blocks<kTileRows>(set.count, [&](auto count) {
      for (int64_t n = panel; n < panel_end; n += kTile) {
        meet_tile<kFormOf<Type>, scaling_of<Type>(), count()>(
            packed + (n - panel) / kTile * segments, k, set, first, factor, y, y_stride, n,
            panel_end - n);
      }
      first += count();
    });
  }
}

#endif
