// Sixteen weight rows side by side, a lane each: blocks are transposed as stored, which is far less
// than what they unpack to, and the ordered sums of docs/ARITHMETIC.md need no transposing at all.
// For every type that has a Sixteen<Type>, activation rows meet the codes in registers when they are
// few, and a packed tile otherwise.

// 16 bytes from each of four rows, `at` bytes into them: rows i, i + 4, i + 8, i + 12.
[[gnu::always_inline]] inline IVec four_chunks(const uint8_t* const* row, int i, int64_t at) {
  IVec v = _mm512_castsi128_si512(load16(row[i] + at));
  v = _mm512_inserti32x4(v, load16(row[i + 4] + at), 1);
  v = _mm512_inserti32x4(v, load16(row[i + 8] + at), 2);
  return _mm512_inserti32x4(v, load16(row[i + 12] + at), 3);
}

// Word w of 16 bytes of all sixteen rows, in out[w].
[[gnu::always_inline]] inline void chunk_words(const uint8_t* const* row, int64_t at, IVec* out) {
  const IVec a = four_chunks(row, 0, at), b = four_chunks(row, 1, at);
  const IVec c = four_chunks(row, 2, at), d = four_chunks(row, 3, at);
  const IVec ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
  const IVec cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
  out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

// Two bytes from each row.
[[gnu::always_inline]] inline __m256i half_words(const uint8_t* const* row, int64_t at) {
  uint64_t four[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    four[i] = static_cast<uint64_t>(half_bits(row[4 * i] + at)) |
              static_cast<uint64_t>(half_bits(row[4 * i + 1] + at)) << 16 |
              static_cast<uint64_t>(half_bits(row[4 * i + 2] + at)) << 32 |
              static_cast<uint64_t>(half_bits(row[4 * i + 3] + at)) << 48;
  }
  return four_entries(four[0], four[1], four[2], four[3]);
}
[[gnu::always_inline]] inline FVec half_floats(const uint8_t* const* row, int64_t at) {
  return _mm512_cvtph_ps(half_words(row, at));
}

// 2 s + 1.
inline FVec odd_floats(IVec s) {
  return f_from(_mm512_or_si512(_mm512_slli_epi32(s, 1), i_set(1)));
}

inline IVec bytes16(const int8_t* table) { return _mm512_broadcast_i32x4(load16(table)); }
inline IVec offset(IVec codes) { return _mm512_xor_si512(codes, _mm512_set1_epi8(-128)); }

// The sign byte of the 7-bit index in each byte: bit 7 evens the number of set bits.
[[gnu::always_inline]] inline IVec sign_bytes(IVec indices) {
  return _mm512_gf2p8affine_epi64_epi8(
      indices, _mm512_set1_epi64(static_cast<int64_t>(0x010204081020407Full)), 0);
}

// Negates codes that have 128 added: 128 + c becomes 128 - c, which is -(128 + c) in a byte. Byte i
// of word p of a half is element 4 i + p. `signs` has, per row, the byte of sign bits of elements
// 0..7 at bytes 0 and 1, that of elements 8..15 at bytes 2 and 3.
[[gnu::always_inline]] inline void negate_codes(IVec signs, IVec* codes) {
#pragma GCC unroll 4
  for (int p = 0; p < 4; ++p) {
    const int32_t even_odd = (1 << p) | (0x10 << p) << 8;
    const __mmask64 negative =
        _mm512_test_epi8_mask(signs, _mm512_set1_epi32(even_odd | even_odd << 16));
    codes[p] = _mm512_mask_sub_epi8(codes[p], negative, _mm512_setzero_si512(), codes[p]);
  }
}

template <class Type>
struct Sixteen;

// A form of Sixteen<Type>:
//   kTurned              codes come in the order of ActivationSegment::turned
//   load(row, at, groups)  takes one segment, `at` bytes into the rows
//   codes(g, out)        the eight words of group g, 128 added to each code
//   d(g), scale(half, g)
//   kLeastRows           activation rows from which it is faster than multiply_few; 1 if absent

template <>
struct Sixteen<quant::IQ3_XXS> {
  static constexpr bool kTurned = true;
  // Byte p of every codebook entry, 128 added.
  struct Planes {
    alignas(64) uint8_t byte[4][256];
  };
  static constexpr Planes kPlanes = [] {
    Planes planes = {};
    for (int i = 0; i < 256; ++i) {
      for (int p = 0; p < 4; ++p) {
        const int index = quant::codebooks::kIq3xxsPacked[i] >> 3 * p & 7;
        planes.byte[p][i] =
            static_cast<uint8_t>(128 + quant::codebooks::kIq3xxsValues[index]);
      }
    }
    return planes;
  }();

  IVec index[16];  // per half: a codebook entry for every four elements
  IVec words[8];   // per group: four sign indices and the scale
  FVec d_;

  [[gnu::always_inline]] void load(const uint8_t* const* row, int64_t at, int) {
    for (int c = 0; c < 4; ++c) chunk_words(row, at + 2 + 16 * c, index + 4 * c);
    for (int c = 0; c < 2; ++c) chunk_words(row, at + 66 + 16 * c, words + 4 * c);
    d_ = f_mul(half_floats(row, at), f_set(0.25f));
  }
  [[gnu::always_inline]] void codes(int g, IVec* out) const {
    const IVec low = index[2 * g], high = index[2 * g + 1];
    const __mmask64 low_upper = _mm512_movepi8_mask(low), high_upper = _mm512_movepi8_mask(high);
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      const uint8_t* plane = kPlanes.byte[p];
      const IVec a = i_load(plane), b = i_load(plane + 64);
      const IVec c = i_load(plane + 128), e = i_load(plane + 192);
      out[p] = _mm512_mask_blend_epi8(low_upper, _mm512_permutex2var_epi8(a, low, b),
                                      _mm512_permutex2var_epi8(c, low, e));
      out[4 + p] = _mm512_mask_blend_epi8(high_upper, _mm512_permutex2var_epi8(a, high, b),
                                          _mm512_permutex2var_epi8(c, high, e));
    }
    const IVec signs = sign_bytes(_mm512_multishift_epi64_epi8(
        _mm512_set1_epi64(static_cast<int64_t>(0x352E2720150E0700ull)), words[g]));
    negate_codes(_mm512_shuffle_epi8(signs, repeat(0x01010000)), out);
    negate_codes(_mm512_shuffle_epi8(signs, repeat(0x03030202)), out + 4);
  }
  FVec d(int) const { return d_; }
  FVec scale(int, int g) const { return odd_floats(_mm512_srli_epi32(words[g], 28)); }

  // A byte shuffle within each word.
  static IVec repeat(int32_t pattern) {
    return _mm512_add_epi32(i_set(pattern),
                            _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808,
                                                                  0x0C0C0C0C)));
  }
};

template <>
struct Sixteen<quant::IQ2_XS> {
  static constexpr bool kTurned = true;

  IVec words[16];   // per half: two indices of nine bits, each with a sign index
  FVec scales[2][8];
  FVec d_;

  [[gnu::always_inline]] void load(const uint8_t* const* row, int64_t at, int) {
    for (int c = 0; c < 4; ++c) chunk_words(row, at + 2 + 16 * c, words + 4 * c);
    uint64_t eight[16];
    for (int i = 0; i < 16; ++i) std::memcpy(&eight[i], row[i] + at + 66, 8);
    const IVec first = _mm512_setr_epi64(eight[0], eight[1], eight[2], eight[3], eight[4], eight[5],
                                         eight[6], eight[7]);
    const IVec second = _mm512_setr_epi64(eight[8], eight[9], eight[10], eight[11], eight[12],
                                          eight[13], eight[14], eight[15]);
    const IVec every_eighth = _mm512_castsi128_si512(
        _mm_setr_epi8(0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120));
    for (int g = 0; g < 8; ++g) {
      const IVec at_g = _mm512_add_epi8(every_eighth, _mm512_set1_epi8(static_cast<char>(g)));
      const IVec nibbles = _mm512_cvtepu8_epi32(
          _mm512_castsi512_si128(_mm512_permutex2var_epi8(first, at_g, second)));
      scales[0][g] = odd_floats(_mm512_and_si512(nibbles, i_set(15)));
      scales[1][g] = odd_floats(_mm512_srli_epi32(nibbles, 4));
    }
    d_ = f_mul(half_floats(row, at), f_set(0.125f));
  }
  [[gnu::always_inline]] void codes(int g, IVec* out) const {
    half_codes(words[2 * g], out);
    half_codes(words[2 * g + 1], out + 4);
  }
  FVec d(int) const { return d_; }
  FVec scale(int half, int g) const { return scales[half][g]; }

  // An entry's eight elements are pairs of bits that choose a value.
  [[gnu::always_inline]] static void half_codes(IVec word, IVec* out) {
    const auto* grid = reinterpret_cast<const uint8_t*>(quant::codebooks::kIq2xsPacked);
    const auto entries = [&](int part) {  // of the 64 that start at 64 * part
      return _mm512_permutex2var_epi16(i_load(grid + 128 * part), word,
                                       i_load(grid + 128 * part + 64));
    };
    const auto choose = [&](__mmask32 bit, IVec zero, IVec one) {
      return _mm512_mask_blend_epi16(bit, zero, one);
    };
    const __mmask32 bit6 = _mm512_test_epi16_mask(word, _mm512_set1_epi16(1 << 6));
    const __mmask32 bit7 = _mm512_test_epi16_mask(word, _mm512_set1_epi16(1 << 7));
    const __mmask32 bit8 = _mm512_test_epi16_mask(word, _mm512_set1_epi16(1 << 8));
    const IVec low = choose(bit7, choose(bit6, entries(0), entries(1)),
                            choose(bit6, entries(2), entries(3)));
    const IVec high = choose(bit7, choose(bit6, entries(4), entries(5)),
                             choose(bit6, entries(6), entries(7)));
    const IVec pairs = choose(bit8, low, high);
    // Each byte has the pairs of four elements; bits above a pair do not change the value chosen.
    constexpr int32_t kValues = (128 + 8) | (128 + 25) << 8 | (128 + 43) << 16;
    const IVec values = i_set(static_cast<int32_t>(kValues | (128 + 43u) << 24));
    out[0] = _mm512_permutexvar_epi8(pairs, values);
    out[1] = _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 2), values);
    out[2] = _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 4), values);
    out[3] = _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 6), values);
    const IVec signs = sign_bytes(_mm512_srli_epi16(word, 9));
    negate_codes(_mm512_shuffle_epi8(signs, Sixteen<quant::IQ3_XXS>::repeat(0x02020000)), out);
  }
};

template <>
struct Sixteen<quant::Q2_0> {
  static constexpr bool kTurned = true;

  const uint8_t* const* row_;
  int64_t at_;

  [[gnu::always_inline]] void load(const uint8_t* const* row, int64_t at, int) {
    row_ = row;
    at_ = at;
  }
  [[gnu::always_inline]] void codes(int g, IVec* out) const {
    // A block is two groups: their words are loaded twice, from the cache.
    IVec words[4];
    chunk_words(row_, at_ + g / 2 * quant::Q2_0::kBytes + 2, words);
    const IVec values = i_set(static_cast<int32_t>(0x8281807Fu));
    for (int half = 0; half < 2; ++half) {
      const IVec pairs = g % 2 == 0 ? words[half] : words[2 + half];
      out[4 * half] = _mm512_permutexvar_epi8(pairs, values);
      out[4 * half + 1] = _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 2), values);
      out[4 * half + 2] = _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 4), values);
      out[4 * half + 3] = _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 6), values);
    }
  }
  FVec d(int g) const { return half_floats(row_, at_ + g / 2 * quant::Q2_0::kBytes); }
  FVec scale(int, int) const { return f_set(1.0f); }
};

// Types of 16 bytes of nibbles per group behind a scale: low nibbles are the first half.
template <class Type, int kNibblesAt>
struct SixteenNibbles {
  static constexpr bool kTurned = false;

  const uint8_t* const* row_;
  int64_t at_;

  [[gnu::always_inline]] void load(const uint8_t* const* row, int64_t at, int) {
    row_ = row;
    at_ = at;
  }
  [[gnu::always_inline]] void codes(int g, IVec* out) const {
    chunk_words(row_, at_ + g * Type::kBytes + kNibblesAt, out);
    const IVec values = offset(bytes16(Sixteen<Type>::kTable));
    const IVec low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const IVec high = _mm512_and_si512(_mm512_srli_epi16(out[c], 4), low);
      out[4 + c] = _mm512_shuffle_epi8(values, high);
      out[c] = _mm512_shuffle_epi8(values, _mm512_and_si512(out[c], low));
    }
  }
  FVec scale(int, int) const { return f_set(1.0f); }
};

constexpr int8_t kQ4Values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

template <>
struct Sixteen<quant::IQ4_NL> : SixteenNibbles<quant::IQ4_NL, 2> {
  static constexpr const int8_t* kTable = quant::codebooks::kIq4Values;
  FVec d(int g) const { return half_floats(row_, at_ + g * quant::IQ4_NL::kBytes); }
};
template <>
struct Sixteen<quant::Q4_0> : SixteenNibbles<quant::Q4_0, 2> {
  static constexpr const int8_t* kTable = kQ4Values;
  FVec d(int g) const { return half_floats(row_, at_ + g * quant::Q4_0::kBytes); }
};
template <>
struct Sixteen<quant::MXFP4> : SixteenNibbles<quant::MXFP4, 1> {
  static constexpr const int8_t* kTable = quant::codebooks::kE2m1Doubled;
  // 2^(e - 128): bytes 0 and 1 are subnormal floats.
  FVec d(int g) const {
    const int64_t at = at_ + g * quant::MXFP4::kBytes;
    const IVec e = _mm512_and_si512(_mm512_cvtepu16_epi32(half_words(row_, at)), i_set(255));
    const IVec normal = _mm512_slli_epi32(_mm512_sub_epi32(e, i_set(1)), 23);
    const __mmask16 small = _mm512_cmplt_epi32_mask(e, i_set(2));
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(normal, small, _mm512_sllv_epi32(i_set(0x00200000), e)));
  }
};

template <>
struct Sixteen<quant::IQ4_XS> {
  static constexpr bool kTurned = false;

  const uint8_t* const* row_;
  int64_t at_;
  FVec d_;
  IVec low_, high_;  // of the scales: four bits and two bits per group

  [[gnu::always_inline]] void load(const uint8_t* const* row, int64_t at, int) {
    row_ = row;
    at_ = at;
    d_ = half_floats(row, at);
    high_ = _mm512_cvtepu16_epi32(half_words(row, at + 2));
    low_ = _mm512_or_si512(_mm512_cvtepu16_epi32(half_words(row, at + 4)),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(half_words(row, at + 6)), 16));
  }
  [[gnu::always_inline]] void codes(int g, IVec* out) const {
    chunk_words(row_, at_ + 8 + 16 * g, out);
    const IVec values = offset(bytes16(quant::codebooks::kIq4Values));
    const IVec low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const IVec high = _mm512_and_si512(_mm512_srli_epi16(out[c], 4), low);
      out[4 + c] = _mm512_shuffle_epi8(values, high);
      out[c] = _mm512_shuffle_epi8(values, _mm512_and_si512(out[c], low));
    }
  }
  FVec d(int) const { return d_; }
  FVec scale(int, int g) const {
    const IVec low = _mm512_and_si512(_mm512_srl_epi32(low_, _mm_cvtsi32_si128(4 * g)), i_set(15));
    const IVec high = _mm512_and_si512(_mm512_srl_epi32(high_, _mm_cvtsi32_si128(2 * g)), i_set(3));
    return f_from(_mm512_sub_epi32(_mm512_or_si512(low, _mm512_slli_epi32(high, 4)), i_set(32)));
  }
};

template <>
struct Sixteen<quant::Q8_0> {
  static constexpr bool kTurned = false;
  static constexpr int64_t kLeastRows = 2;

  const uint8_t* const* row_;
  int64_t at_;

  [[gnu::always_inline]] void load(const uint8_t* const* row, int64_t at, int) {
    row_ = row;
    at_ = at;
  }
  [[gnu::always_inline]] void codes(int g, IVec* out) const {
    const int64_t at = at_ + g * quant::Q8_0::kBytes + 2;
    chunk_words(row_, at, out);
    chunk_words(row_, at + 16, out + 4);
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) out[w] = offset(out[w]);
  }
  FVec d(int g) const { return half_floats(row_, at_ + g * quant::Q8_0::kBytes); }
  FVec scale(int, int) const { return f_set(1.0f); }
};

template <>
struct Sixteen<quant::Q6_K> {
  static constexpr bool kTurned = false;
  static constexpr int64_t kLeastRows = 2;
  struct Values {
    alignas(64) uint8_t byte[64];
  };
  static constexpr Values kValues = [] {
    Values values = {};
    for (int i = 0; i < 64; ++i) values.byte[i] = static_cast<uint8_t>(128 + i - 32);
    return values;
  }();

  IVec low[32];   // words of nibbles: two groups each
  IVec high[16];  // words of pairs of bits: four groups each
  IVec scales[4];
  FVec d_;

  [[gnu::always_inline]] void load(const uint8_t* const* row, int64_t at, int) {
    for (int c = 0; c < 8; ++c) chunk_words(row, at + 16 * c, low + 4 * c);
    for (int c = 0; c < 4; ++c) chunk_words(row, at + 128 + 16 * c, high + 4 * c);
    chunk_words(row, at + 192, scales);
    d_ = half_floats(row, at + 208);
  }
  [[gnu::always_inline]] void codes(int g, IVec* out) const {
    const int quarter = g % 4;
    const IVec* nibbles = low + 16 * (g / 4) + 8 * (quarter % 2);
    const IVec* pairs = high + 8 * (g / 4);
    const __m128i shift = _mm_cvtsi32_si128(quarter < 2 ? 0 : 4);
    // Brings pair `quarter` of each byte to bits 4 and 5: eight bits from 2 quarter - 4 on.
    const IVec to_bit4 = _mm512_add_epi8(
        _mm512_set1_epi64(static_cast<int64_t>(0x3830282018100800ull)),
        _mm512_set1_epi8(static_cast<char>(2 * quarter - 4)));
    const IVec nibble = _mm512_set1_epi8(0x0F);
    const IVec values = _mm512_loadu_si512(kValues.byte);
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) {
      const IVec top = _mm512_multishift_epi64_epi8(to_bit4, pairs[w]);
      const IVec bottom = _mm512_srl_epi16(nibbles[w], shift);
      // nibble ? bottom : top; the lookup drops the two bits above.
      out[w] = _mm512_permutexvar_epi8(_mm512_ternarylogic_epi32(nibble, bottom, top, 0xCA), values);
    }
  }
  FVec d(int) const { return d_; }
  FVec scale(int half, int g) const {
    const int byte = 2 * g + half;
    return f_from(_mm512_srai_epi32(
        _mm512_sll_epi32(scales[byte / 4], _mm_cvtsi32_si128(24 - 8 * (byte % 4))), 24));
  }
};

template <class Type>
concept HasSixteen = requires(Sixteen<Type> rows) { rows.d(0); };

template <class Type>
constexpr int64_t least_rows() {
  if constexpr (requires { Sixteen<Type>::kLeastRows; }) return Sixteen<Type>::kLeastRows;
  return 1;
}

template <class Type>
inline constexpr int64_t kSegmentBytesOf =
    static_cast<int64_t>(kSegment) * Type::kBytes / Type::kElems;

// Sixteen rows from n on; those beyond `end` repeat the last one and are not stored.
struct RowPointers {
  const uint8_t* row[kVec];
  size_t row_bytes;
  const uint8_t* limit;  // the end of the rows
  const uint8_t* next;   // what is read after them

  RowPointers(const WeightRows& w, int64_t n)
      : row_bytes(w.row_bytes), limit(w.at(w.end)), next(w.next) {
    for (int i = 0; i < kVec; ++i) row[i] = w.at(std::min<int64_t>(n + i, w.end - 1));
  }
  // Asks for segment s's share of the sixteen rows some 32 KiB ahead, into the second cache:
  // hardware sees no stream in rows that are read side by side. Always inlined: GCC 12 takes a
  // function that only prefetches for one without effect and drops its calls.
  [[gnu::always_inline]] void prefetch_ahead(int64_t s, int64_t segments) const {
    const auto block = static_cast<int64_t>(kVec * row_bytes);
    const uint8_t* ahead = row[0] + std::max<int64_t>(1, (32 << 10) / block) * block;
    if (ahead >= limit) ahead = next + (ahead - limit);
    const int64_t end = (s + 1) * block / segments;
    for (int64_t at = s * block / segments / 64 * 64; at < end; at += 64) {
      __builtin_prefetch(ahead + at, 0, 2);
    }
  }
};

template <class Type>
struct SixteenFields {
  const Sixteen<Type>& w;
  FVec d(int g) const { return w.d(g); }
  FVec scale(int half, int g) const { return w.scale(half, g); }
};

// Adds the terms of one segment for the activations x[0 .. kRows) to their segment sums.
template <class Type, int kRows>
[[gnu::always_inline]] inline void add_codes(const Sixteen<Type>& w, const IVec* codes,
                                             const ActivationSegment* const* x, int g,
                                             FVec* segment) {
  const int8_t* q[kRows];
  for (int r = 0; r < kRows; ++r) q[r] = Sixteen<Type>::kTurned ? x[r]->turned : x[r]->q;
  add_group<TermForm::kPlain, scaling_of<Type>(), kRows>([&](int word) { return codes[word]; },
                                                         SixteenFields<Type>{w}, x, q, g, segment);
}

// A few activation rows, with their sums in registers.
template <class Type, int kRows>
void meet_few(const RowPointers& rows, int64_t k, const RowSet& set, float factor, float* y,
              int64_t y_stride, int64_t n, int64_t lanes) {
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  FVec total[kRows];
  for (int r = 0; r < kRows; ++r) total[r] = f_zero();
  Sixteen<Type> w;
  for (int64_t s = 0; s < segments; ++s) {
    const ActivationSegment* x[kRows];
    FVec segment[kRows];
    for (int r = 0; r < kRows; ++r) {
      x[r] = set.x + set.in(r) * segments + s;
      segment[r] = f_zero();
    }
    const auto here =
        static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
    rows.prefetch_ahead(s, segments);
    w.load(rows.row, s * kSegmentBytesOf<Type>, here);
    for (int g = 0; g < here; ++g) {
      IVec codes[8];
      w.codes(g, codes);
      add_codes<Type, kRows>(w, codes, x, g, segment);
    }
    for (int r = 0; r < kRows; ++r) total[r] = f_add(total[r], segment[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    store_products(total[r], factor, y + set.out(r) * y_stride + n, lanes);
  }
}

constexpr int kMeetRows = 4;       // activation rows whose sums are in registers at once
constexpr int kMostMeetRows = 48;  // beyond, packing a tile costs less than it saves

// More activation rows, whose sums wait in the first cache while a group's codes are in registers.
template <class Type>
void meet_some(const RowPointers& rows, int64_t k, const RowSet& set, float factor, float* y,
               int64_t y_stride, int64_t n, int64_t lanes) {
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  const auto count = static_cast<int>(set.count);
  FVec total[kMostMeetRows], segment[kMostMeetRows];
  for (int r = 0; r < count; ++r) total[r] = f_zero();
  Sixteen<Type> w;
  for (int64_t s = 0; s < segments; ++s) {
    const ActivationSegment* x[kMostMeetRows];
    for (int r = 0; r < count; ++r) {
      x[r] = set.x + set.in(r) * segments + s;
      segment[r] = f_zero();
    }
    const auto here =
        static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
    rows.prefetch_ahead(s, segments);
    w.load(rows.row, s * kSegmentBytesOf<Type>, here);
    for (int g = 0; g < here; ++g) {
      IVec codes[8];
      w.codes(g, codes);
      int r = 0;
      for (; r + kMeetRows <= count; r += kMeetRows) {
        add_codes<Type, kMeetRows>(w, codes, x + r, g, segment + r);
      }
      for (; r + 2 <= count; r += 2) add_codes<Type, 2>(w, codes, x + r, g, segment + r);
      if (r < count) add_codes<Type, 1>(w, codes, x + r, g, segment + r);
    }
    for (int r = 0; r < count; ++r) total[r] = f_add(total[r], segment[r]);
  }
  for (int r = 0; r < count; ++r) {
    store_products(total[r], factor, y + set.out(r) * y_stride + n, lanes);
  }
}

template <class Type>
void pack_sixteen(const RowPointers& rows, int64_t k, PackedSegment* out) {
  const int64_t segments = segments_of(k);
  const int64_t groups = k / quant::kGroupElems;
  Sixteen<Type> w;
  for (int64_t s = 0; s < segments; ++s, ++out) {
    const auto here =
        static_cast<int>(std::min<int64_t>(kSegmentGroups, groups - s * kSegmentGroups));
    rows.prefetch_ahead(s, segments);
    w.load(rows.row, s * kSegmentBytesOf<Type>, here);
    for (int g = 0; g < here; ++g) {
      IVec codes[8];
      w.codes(g, codes);
      for (int word = 0; word < 8; ++word) _mm512_store_si512(out->q[8 * g + word], codes[word]);
      f_store(out->d[g], w.d(g));
      if constexpr (scaling_of<Type>() != Scaling::kNone) f_store(out->scale[0][g], w.scale(0, g));
      if constexpr (scaling_of<Type>() == Scaling::kByHalf) {
        f_store(out->scale[1][g], w.scale(1, g));
      }
    }
  }
}

template <class Type>
void multiply_sixteen(const WeightRows& w, int64_t k, float factor, const RowSet& set, float* y,
                      int64_t y_stride, std::byte* scratch) {
  if (set.count > kMostMeetRows) {
    multiply_packed<TermForm::kPlain, scaling_of<Type>(), Sixteen<Type>::kTurned>(
        [&](int64_t n, int64_t, PackedSegment* out) {
          pack_sixteen<Type>(RowPointers(w, n), k, out);
        },
        k, factor, w.begin, w.end, set, y, y_stride, reinterpret_cast<PackedSegment*>(scratch));
    return;
  }
  for (int64_t n = w.begin; n < w.end; n += kVec) {
    const RowPointers rows(w, n);
    const int64_t lanes = std::min<int64_t>(kVec, w.end - n);
    switch (set.count) {
      case 1: meet_few<Type, 1>(rows, k, set, factor, y, y_stride, n, lanes); break;
      case 2: meet_few<Type, 2>(rows, k, set, factor, y, y_stride, n, lanes); break;
      case 3: meet_few<Type, 3>(rows, k, set, factor, y, y_stride, n, lanes); break;
      case 4: meet_few<Type, 4>(rows, k, set, factor, y, y_stride, n, lanes); break;
      default: meet_some<Type>(rows, k, set, factor, y, y_stride, n, lanes); break;
    }
  }
}
