// The operands of int8 products, cut into segments of 8 groups (docs/ARITHMETIC.md), as structures
// of arrays. Groups beyond the end of a row are zero and never enter a sum.

constexpr int kSegment = kSegmentGroups * quant::kGroupElems;  // elements

// One segment of an activation row.
struct alignas(64) ActivationSegment {
  int8_t q[kSegment];
  // The same with each half of a group as four words of every fourth code: byte i of word p is code
  // 4 i + p. Codebook entries unpack in this order.
  int8_t turned[kSegment];
  float scale[kSegmentGroups];
  int32_t sum[2][kSegmentGroups];  // of q, by halves
  // What weight codes stored with 128 added put too much into a product, negated.
  int32_t bias[2][kSegmentGroups];
  int32_t group_bias[kSegmentGroups];
};

// One segment of a weight row. Sub-scales and minimums are small integers, kept as floats: their
// products with half sums stay below 2^24, so float arithmetic on them is exact.
struct alignas(64) WeightSegment {
  int8_t q[kSegment];
  float d[kSegmentGroups];
  float scale[2][kSegmentGroups];
  float dmin[kSegmentGroups];
  float min[2][kSegmentGroups];
};

inline int64_t segments_of(int64_t k) { return (k + kSegment - 1) / kSegment; }

// 32 values as int8 codes. Returns the scale: NaN when a value is not finite, because int8 codes
// could not carry it on.
inline float quantise_codes(const float* x, int8_t* q) {
  float amax = 0.0f;
  float poison = 0.0f;
  for (int i = 0; i < quant::kGroupElems; ++i) {
    amax = numeric::max(amax, std::fabs(x[i]));
    poison += x[i] * 0.0f;
  }
  const float scale = poison == 0.0f ? amax / 127.0f : NAN;
  // A scale that underflowed to zero stands for values too small to matter.
  const float divisor = scale > 0.0f ? scale : 1.0f;
  for (int i = 0; i < quant::kGroupElems; ++i) {
    const float rounded = numeric::round_even(x[i] / divisor);
    q[i] = static_cast<int8_t>(
        static_cast<int32_t>(numeric::min(numeric::max(rounded, -127.0f), 127.0f)));
  }
  return scale;
}

#if STRATA_TIER_WIDTH || STRATA_TIER_NEON
inline void quantise_group(const float* x, ActivationSegment& out, int g);  // with vectors
#else
inline void quantise_group(const float* x, ActivationSegment& out, int g) {
  int8_t* q = out.q + g * quant::kGroupElems;
  out.scale[g] = quantise_codes(x, q);
  int8_t* turned = out.turned + g * quant::kGroupElems;
  for (int half = 0; half < 2; ++half) {
    int32_t sum = 0;
    for (int i = 0; i < 16; ++i) sum += q[16 * half + i];
    for (int p = 0; p < 4; ++p) {
      for (int i = 0; i < 4; ++i) turned[16 * half + 4 * p + i] = q[16 * half + 4 * i + p];
    }
    out.sum[half][g] = sum;
    out.bias[half][g] = -128 * sum;
  }
  out.group_bias[g] = out.bias[0][g] + out.bias[1][g];
}
#endif

inline void quantise_row(const float* x, int64_t k, ActivationSegment* out) {
  const int64_t groups = k / quant::kGroupElems;
  for (int64_t s = 0; s < segments_of(k); ++s) {
    for (int g = 0; g < kSegmentGroups; ++g) {
      const int64_t group = s * kSegmentGroups + g;
      if (group < groups) {
        quantise_group(x + group * quant::kGroupElems, out[s], g);
      } else {
        std::memset(out[s].q + g * quant::kGroupElems, 0, quant::kGroupElems);
        std::memset(out[s].turned + g * quant::kGroupElems, 0, quant::kGroupElems);
        out[s].scale[g] = 0.0f;
        out[s].sum[0][g] = out[s].sum[1][g] = 0;
        out[s].bias[0][g] = out[s].bias[1][g] = out[s].group_bias[g] = 0;
      }
    }
  }
}

// Group `g` of a segment from the canonical form of its block.
inline void put_group(const IntGroup& in, WeightSegment& out, int g) {
  std::memcpy(out.q + g * quant::kGroupElems, in.q, quant::kGroupElems);
  out.d[g] = in.d;
  out.dmin[g] = in.dmin;
  for (int half = 0; half < 2; ++half) {
    out.scale[half][g] = static_cast<float>(in.scale[half]);
    out.min[half][g] = static_cast<float>(in.min[half]);
  }
}

// Unpacks `groups` groups that start at `block`, the first block of a segment.
template <class Type>
inline void unpack_generic(const uint8_t* block, int groups, WeightSegment& out) {
  constexpr int kGroups = Type::kElems / quant::kGroupElems;
  for (int g = 0; g < groups; ++g) {
    IntGroup group;
    Type::unpack(block + g / kGroups * Type::kBytes, g % kGroups, group);
    put_group(group, out, g);
  }
}

// Weight rows [begin, end) of a matrix that one task takes, and where it or its successor reads next.
struct WeightRows {
  const uint8_t* rows;
  size_t row_bytes;
  int64_t begin, end;
  const uint8_t* next;

  const uint8_t* at(int64_t n) const { return rows + static_cast<size_t>(n) * row_bytes; }
};

// Activation rows that one set of weight rows meets, and where the results go.
struct RowSet {
  const ActivationSegment* x;  // rows of segments_of(k) segments
  const int32_t* x_rows;       // which of them; nullptr: 0, 1, ...
  const int32_t* y_rows;       // output row of each; nullptr: 0, 1, ...
  int64_t count;

  int64_t in(int64_t i) const { return x_rows == nullptr ? i : x_rows[i]; }
  int64_t out(int64_t i) const { return y_rows == nullptr ? i : y_rows[i]; }
};

template <class Type>
inline constexpr TermForm kFormOf = std::is_same_v<Type, quant::NVFP4> ? TermForm::kWide
                                    : Type::kHasMin                    ? TermForm::kMin
                                                                       : TermForm::kPlain;

// How the sub-scales of the two halves of a group differ, where a type says so for every block.
enum class Scaling { kNone, kByGroup, kByHalf };
template <class Type>
constexpr Scaling scaling_of() {
  using namespace quant;
  constexpr auto is_one_of = []<class... Types>(std::tuple<Types...>*) {
    return (std::is_same_v<Type, Types> || ...);
  };
  if (is_one_of(static_cast<std::tuple<Q8_0, Q5_0, Q4_0, IQ4_NL, Q2_0, Q2_0_G128,
                                                Q1_0, MXFP4>*>(nullptr))) {
    return Scaling::kNone;
  }
  if (is_one_of(
          static_cast<std::tuple<IQ1_S, IQ2_XXS, IQ3_XXS, IQ3_S, IQ4_XS, Q4_K, Q5_K>*>(nullptr))) {
    return Scaling::kByGroup;
  }
  return Scaling::kByHalf;
}
template <class Type>
inline constexpr bool kUnitScale = scaling_of<Type>() == Scaling::kNone;

// Calls f(count as a constant) for blocks of at most kMost of `count` rows, cut evenly.
template <int kMost, class F>
inline void for_row_blocks(int64_t count, const F& f) {
  const auto call = [&]<int... kCounts>(int64_t rows, std::integer_sequence<int, kCounts...>) {
    (void)((rows == kCounts + 1 && (f(std::integral_constant<int, kCounts + 1>{}), true)) || ...);
  };
  for (int64_t blocks = (count + kMost - 1) / kMost; blocks > 0; --blocks) {
    const int64_t rows = (count + blocks - 1) / blocks;
    call(rows, std::make_integer_sequence<int, kMost>{});
    count -= rows;
  }
}
