// Fast unpacking of the types that published files use most; the others take the generic way.
// Every specialisation writes exactly what unpack_generic would.

// 16 bytes of nibbles to 32 codes: low nibbles first.
inline __m256i nibbles(const uint8_t* p) {
  const __m128i bytes = load16(p);
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

inline __m256i four_entries(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return _mm256_setr_epi64x(static_cast<int64_t>(a), static_cast<int64_t>(b),
                            static_cast<int64_t>(c), static_cast<int64_t>(d));
}

inline __m256i lookup16(const int8_t* table, __m256i index) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(table)), index);
}

inline float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// The float fields of a segment are written as whole vectors: a vector load right after scalar stores
// to the same bytes waits for all of them to leave the store buffer.
inline void put(float* field, __m256 v) { _mm256_store_ps(field, v); }
inline void put_d(WeightSegment& out, float d) { put(out.d, _mm256_set1_ps(d)); }
inline void put_scales(WeightSegment& out, __m256 low, __m256 high) {
  put(out.scale[0], low);
  put(out.scale[1], high);
}

// Eight unsigned bytes as floats.
inline __m256 bytes_to_float(uint64_t bytes) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
}
// 2 s + 1 of eight unsigned bytes.
inline __m256 odd_scales(uint64_t bytes) {
  const __m256i s = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
  return _mm256_cvtepi32_ps(_mm256_or_si256(_mm256_slli_epi32(s, 1), _mm256_set1_epi32(1)));
}
// 2 s + 1 where s is the top four bits of each word.
inline __m256 odd_scales_of(__m256i words) {
  const __m256i twice = _mm256_slli_epi32(_mm256_srli_epi32(words, 28), 1);
  return _mm256_cvtepi32_ps(_mm256_or_si256(twice, _mm256_set1_epi32(1)));
}
constexpr uint64_t kNibbles = 0x0F0F0F0F0F0F0F0Full;

inline int half_bits(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return bits;
}

// Scales of a type without sub-scales: a half at the front of every block of one group.
inline void put_block_scales(const uint8_t* block, int64_t stride, int groups, WeightSegment& out) {
  __m128i h = _mm_setzero_si128();
  const auto at = [&](int g) { return half_bits(block + g * stride); };
  if (groups == kSegmentGroups) {
    h = _mm_cvtsi32_si128(at(0));
    h = _mm_insert_epi16(h, at(1), 1);
    h = _mm_insert_epi16(h, at(2), 2);
    h = _mm_insert_epi16(h, at(3), 3);
    h = _mm_insert_epi16(h, at(4), 4);
    h = _mm_insert_epi16(h, at(5), 5);
    h = _mm_insert_epi16(h, at(6), 6);
    h = _mm_insert_epi16(h, at(7), 7);
  } else {
    alignas(16) uint16_t some[kSegmentGroups] = {};
  #pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) some[g] = static_cast<uint16_t>(at(g));
    h = load16(some);
  }
  put(out.d, _mm256_cvtph_ps(h));
  put_scales(out, _mm256_set1_ps(1.0f), _mm256_set1_ps(1.0f));
}

// Negates the bytes of `values` whose bit in `signs` (bit i for byte i) is set.
inline __m256i apply_signs(__m256i values, uint32_t signs) {
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int32_t>(signs)),
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                       3, 3, 3, 3, 3, 3));
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
  const __m256i mask = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
  return _mm256_sub_epi8(_mm256_xor_si256(values, mask), mask);
}

// Four sign indices of 7 bits, 7 bits apart, to 32 sign bits: bit 7 of each byte evens the parity.
inline uint32_t sign_bits(uint32_t indices) {
  const uint32_t bits = _pdep_u32(indices, 0x7F7F7F7Fu);
  uint32_t parity = bits ^ (bits >> 4);
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return bits | (parity & 0x01010101u) << 7;
}

[[gnu::always_inline]] inline void unpack_fast(quant::Q8_0, const uint8_t* block, int groups, WeightSegment& out) {
  put_block_scales(block, quant::Q8_0::kBytes, groups, out);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g, block += quant::Q8_0::kBytes) {
    store32(out.q + 32 * g, load32(block + 2));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::Q4_0, const uint8_t* block, int groups, WeightSegment& out) {
  put_block_scales(block, quant::Q4_0::kBytes, groups, out);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g, block += quant::Q4_0::kBytes) {
    store32(out.q + 32 * g, _mm256_sub_epi8(nibbles(block + 2), _mm256_set1_epi8(8)));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::IQ4_NL, const uint8_t* block, int groups, WeightSegment& out) {
  put_block_scales(block, quant::IQ4_NL::kBytes, groups, out);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g, block += quant::IQ4_NL::kBytes) {
    store32(out.q + 32 * g, lookup16(quant::codebooks::kIq4Values, nibbles(block + 2)));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::Q2_0, const uint8_t* block, int groups, WeightSegment& out) {
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const uint8_t* b = block + g / 2 * quant::Q2_0::kBytes;
    uint64_t codes;
    std::memcpy(&codes, b + 2 + 8 * (g % 2), 8);
    uint64_t spread[4];
    for (int i = 0; i < 4; ++i) spread[i] = _pdep_u64(codes >> 16 * i, 0x0303030303030303ull);
    store32(out.q + 32 * g,
            _mm256_sub_epi8(four_entries(spread[0], spread[1], spread[2], spread[3]),
                            _mm256_set1_epi8(1)));
  }
  // Two groups share a block.
  __m128i h = _mm_cvtsi32_si128(half_bits(block));
  if (groups > 2) h = _mm_insert_epi16(h, half_bits(block + 18), 1);
  if (groups > 4) h = _mm_insert_epi16(h, half_bits(block + 36), 2);
  if (groups > 6) h = _mm_insert_epi16(h, half_bits(block + 54), 3);
  put(out.d, _mm256_cvtph_ps(_mm_unpacklo_epi16(h, h)));
  put_scales(out, _mm256_set1_ps(1.0f), _mm256_set1_ps(1.0f));
}

[[gnu::always_inline]] inline void unpack_fast(quant::IQ4_XS, const uint8_t* block, int groups, WeightSegment& out) {
  uint32_t low;
  std::memcpy(&low, block + 4, 4);
  const uint64_t bits = _pdep_u64(low, kNibbles) |
                        _pdep_u64(static_cast<uint64_t>(half_bits(block + 2)), 0x3030303030303030ull);
  const __m256 scale = _mm256_sub_ps(bytes_to_float(bits), _mm256_set1_ps(32.0f));
  put_d(out, half_at(block));
  put_scales(out, scale, scale);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    store32(out.q + 32 * g,
            lookup16(quant::codebooks::kIq4Values, nibbles(block + 8 + 16 * g)));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::Q6_K, const uint8_t* block, int groups, WeightSegment& out) {
  const __m256i pairs = _mm256_cvtepi8_epi16(load16(block + 192));
  put_d(out, half_at(block + 208));
  put_scales(out, _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16)),
             _mm256_cvtepi32_ps(_mm256_srai_epi32(pairs, 16)));
  (void)groups;
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i upper = _mm256_set1_epi8(0x30);
  const __m256i offset = _mm256_set1_epi8(32);
  for (int half = 0; half < 2; ++half) {
    const __m256i low0 = load32(block + 64 * half);
    const __m256i low1 = load32(block + 64 * half + 32);
    const __m256i high = load32(block + 128 + 32 * half);
    const auto code = [&](__m256i low, __m256i shifted) {
      return _mm256_sub_epi8(
          _mm256_or_si256(_mm256_and_si256(low, nibble), _mm256_and_si256(shifted, upper)), offset);
    };
    int8_t* q = out.q + 128 * half;
    store32(q, code(low0, _mm256_slli_epi16(high, 4)));
    store32(q + 32, code(low1, _mm256_slli_epi16(high, 2)));
    store32(q + 64, code(_mm256_srli_epi16(low0, 4), high));
    store32(q + 96, code(_mm256_srli_epi16(low1, 4), _mm256_srli_epi16(high, 2)));
  }
}

// Six-bit scales and minimums of Q4_K and Q5_K.
inline void put_k_scales(const uint8_t* block, WeightSegment& out) {
  uint32_t s[3];
  std::memcpy(s, block + 4, 12);
  constexpr uint32_t kSix = 0x3F3F3F3Fu, kFour = 0x0F0F0F0Fu, kTwo = 0x03030303u;
  const auto join = [](uint32_t low, uint32_t high) {
    return static_cast<uint64_t>(low) | static_cast<uint64_t>(high) << 32;
  };
  const __m256 scale =
      bytes_to_float(join(s[0] & kSix, (s[2] & kFour) | ((s[0] >> 6) & kTwo) << 4));
  const __m256 min =
      bytes_to_float(join(s[1] & kSix, ((s[2] >> 4) & kFour) | ((s[1] >> 6) & kTwo) << 4));
  put_d(out, half_at(block));
  put(out.dmin, _mm256_set1_ps(half_at(block + 2)));
  put_scales(out, scale, scale);
  put(out.min[0], min);
  put(out.min[1], min);
}

[[gnu::always_inline]] inline void unpack_fast(quant::Q4_K, const uint8_t* block, int groups, WeightSegment& out) {
  put_k_scales(block, out);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const __m256i bytes = load32(block + 16 + 32 * (g / 2));
    store32(out.q + 32 * g,
            _mm256_and_si256(g % 2 ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15)));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::Q5_K, const uint8_t* block, int groups, WeightSegment& out) {
  put_k_scales(block, out);
  const __m256i fifth = load32(block + 16);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const __m256i bytes = load32(block + 48 + 32 * (g / 2));
    const __m256i low =
        _mm256_and_si256(g % 2 ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15));
    const __m256i bit = _mm256_and_si256(_mm256_srl_epi16(fifth, _mm_cvtsi32_si128(g)),
                                         _mm256_set1_epi8(1));
    store32(out.q + 32 * g, _mm256_or_si256(low, _mm256_slli_epi16(bit, 4)));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::IQ2_XXS, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  // The scale is in the upper four bits of every second word.
  const __m256 words = _mm256_shuffle_ps(_mm256_castsi256_ps(load32(block + 2)),
                                         _mm256_castsi256_ps(load32(block + 34)), 0xDD);
  const __m256 scale =
      odd_scales_of(_mm256_permute4x64_epi64(_mm256_castps_si256(words), 0xD8));
  put_d(out, half_at(block) * 0.125f);
  put_scales(out, scale, scale);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const uint8_t* index = block + 2 + 8 * g;
    uint32_t word;
    std::memcpy(&word, index + 4, 4);
    const __m256i values = four_entries(iq2xxs_entry(index[0]), iq2xxs_entry(index[1]),
                                        iq2xxs_entry(index[2]), iq2xxs_entry(index[3]));
    store32(out.q + 32 * g, apply_signs(values, sign_bits(word)));
  }
}

// Eight bytes of two nibbles s, one per half: scales 2 s + 1.
inline void put_nibble_scales(const uint8_t* p, WeightSegment& out) {
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  put_scales(out, odd_scales(bytes & kNibbles), odd_scales((bytes >> 4) & kNibbles));
}

[[gnu::always_inline]] inline void unpack_fast(quant::IQ2_XS, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  put_d(out, half_at(block) * 0.125f);
  put_nibble_scales(block + 66, out);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    uint64_t words;
    std::memcpy(&words, block + 2 + 8 * g, 8);
    const __m256i values =
        four_entries(iq2xs_entry(words & 511), iq2xs_entry((words >> 16) & 511),
                     iq2xs_entry((words >> 32) & 511), iq2xs_entry((words >> 48) & 511));
    const auto signs = static_cast<uint32_t>(_pext_u64(words, 0xFE00FE00FE00FE00ull));
    store32(out.q + 32 * g, apply_signs(values, sign_bits(signs)));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::IQ2_S, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  put_d(out, half_at(block) * 0.125f);
  put_nibble_scales(block + 74, out);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const uint8_t* low = block + 2 + 4 * g;
    const uint32_t high = block[66 + g];
    const auto entry = [&](int l) {
      return iq2s_entry(low[l] | ((high >> 2 * l) & 3u) << 8);
    };
    uint32_t signs;
    std::memcpy(&signs, block + 34 + 4 * g, 4);
    store32(out.q + 32 * g,
            apply_signs(four_entries(entry(0), entry(1), entry(2), entry(3)), signs));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::IQ3_XXS, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  const __m256 scale = odd_scales_of(load32(block + 66));
  put_d(out, half_at(block) * 0.25f);
  put_scales(out, scale, scale);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const uint8_t* index = block + 2 + 8 * g;
    uint32_t word;
    std::memcpy(&word, block + 66 + 4 * g, 4);
    const auto pair = [&](int i) {
      return static_cast<uint64_t>(iq3xxs_entry(index[i])) |
             static_cast<uint64_t>(iq3xxs_entry(index[i + 1])) << 32;
    };
    store32(out.q + 32 * g,
            apply_signs(four_entries(pair(0), pair(2), pair(4), pair(6)), sign_bits(word)));
  }
}

[[gnu::always_inline]] inline void unpack_fast(quant::IQ3_S, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  uint32_t nibbles4;
  std::memcpy(&nibbles4, block + 106, 4);
  const __m256 scale = odd_scales(_pdep_u64(nibbles4, kNibbles));
  put_d(out, half_at(block));
  put_scales(out, scale, scale);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const uint8_t* low = block + 2 + 8 * g;
    const uint32_t high = block[66 + g];
    const auto pair = [&](int i) {
      return static_cast<uint64_t>(iq3s_entry(low[i] | ((high >> i) & 1u) << 8)) |
             static_cast<uint64_t>(iq3s_entry(low[i + 1] | ((high >> (i + 1)) & 1u) << 8)) << 32;
    };
    uint32_t signs;
    std::memcpy(&signs, block + 74 + 4 * g, 4);
    store32(out.q + 32 * g,
            apply_signs(four_entries(pair(0), pair(2), pair(4), pair(6)), signs));
  }
}

template <class Type>
concept HasFastUnpack = requires(Type type, const uint8_t* block, WeightSegment& out) {
  unpack_fast(type, block, 1, out);
};
