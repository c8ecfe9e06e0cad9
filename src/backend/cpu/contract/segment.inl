// The operands of int8 products, cut into segments of 8 groups (docs/ARITHMETIC.md), as structures
// of arrays. Groups beyond the end of a row are zero and never enter a sum.

constexpr int kSegment = kSegmentGroups * quant::kGroupElems;  // elements

// One segment of an activation row.
struct alignas(64) ActivationSegment {
  int8_t q[kSegment];
  float scale[kSegmentGroups];
  int32_t sum[2][kSegmentGroups];  // of q, by halves
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

inline void quantise_group(const float* x, ActivationSegment& out, int g) {
  float amax = 0.0f;
  float poison = 0.0f;  // NaN when any value is not finite: int8 codes could not carry it on
  for (int i = 0; i < quant::kGroupElems; ++i) {
    amax = numeric::max(amax, std::fabs(x[i]));
    poison += x[i] * 0.0f;
  }
  const float scale = amax / 127.0f + poison;
  // A scale that underflowed to zero stands for values too small to matter.
  const float divisor = scale > 0.0f ? scale : 1.0f;
  int8_t* q = out.q + g * quant::kGroupElems;
  for (int i = 0; i < quant::kGroupElems; ++i) {
    const float rounded = numeric::round_even(x[i] / divisor);
    q[i] = static_cast<int8_t>(
        static_cast<int32_t>(numeric::min(numeric::max(rounded, -127.0f), 127.0f)));
  }
  out.scale[g] = scale;
  for (int half = 0; half < 2; ++half) {
    int32_t sum = 0;
    for (int i = 0; i < 16; ++i) sum += q[16 * half + i];
    out.sum[half][g] = sum;
  }
}

inline void quantise_row(const float* x, int64_t k, ActivationSegment* out) {
  const int64_t groups = k / quant::kGroupElems;
  for (int64_t s = 0; s < segments_of(k); ++s) {
    for (int g = 0; g < kSegmentGroups; ++g) {
      const int64_t group = s * kSegmentGroups + g;
      if (group < groups) {
        quantise_group(x + group * quant::kGroupElems, out[s], g);
      } else {
        std::memset(out[s].q + g * quant::kGroupElems, 0, quant::kGroupElems);
        out[s].scale[g] = 0.0f;
        out[s].sum[0][g] = out[s].sum[1][g] = 0;
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

// Activation rows that one set of weight rows meets, and where the results go.
struct RowSet {
  const ActivationSegment* x;  // rows of segments_of(k) segments
  const int32_t* x_rows;       // which of them; nullptr: 0, 1, ...
  const int32_t* y_rows;       // output row of each; nullptr: 0, 1, ...
  int64_t count;

  int64_t in(int64_t i) const { return x_rows == nullptr ? i : x_rows[i]; }
  int64_t out(int64_t i) const { return y_rows == nullptr ? i : y_rows[i]; }
};
