// Fast unpacking of the types that published files use most; the others take the generic way.
// Every specialisation writes exactly what unpack_generic would.

inline void store32(int8_t* q, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), v); }
inline __m256i load32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// 16 bytes of nibbles to 32 codes: low nibbles first.
inline __m256i nibbles(const uint8_t* p) {
  const __m128i bytes = load16(p);
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

inline __m256i lookup16(const int8_t* table, __m256i index) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(table)), index);
}

inline float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// Scales of a type without sub-scales.
inline void unit_scale(WeightSegment& out, int g, float d) {
  out.d[g] = d;
  out.scale[0][g] = out.scale[1][g] = 1.0f;
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

inline void unpack_fast(quant::Q8_0, const uint8_t* block, int groups, WeightSegment& out) {
  for (int g = 0; g < groups; ++g, block += quant::Q8_0::kBytes) {
    store32(out.q + 32 * g, load32(block + 2));
    unit_scale(out, g, half_at(block));
  }
}

inline void unpack_fast(quant::Q4_0, const uint8_t* block, int groups, WeightSegment& out) {
  for (int g = 0; g < groups; ++g, block += quant::Q4_0::kBytes) {
    store32(out.q + 32 * g, _mm256_sub_epi8(nibbles(block + 2), _mm256_set1_epi8(8)));
    unit_scale(out, g, half_at(block));
  }
}

inline void unpack_fast(quant::IQ4_NL, const uint8_t* block, int groups, WeightSegment& out) {
  for (int g = 0; g < groups; ++g, block += quant::IQ4_NL::kBytes) {
    store32(out.q + 32 * g, lookup16(quant::codebooks::kIq4Values, nibbles(block + 2)));
    unit_scale(out, g, half_at(block));
  }
}

inline void unpack_fast(quant::Q2_0, const uint8_t* block, int groups, WeightSegment& out) {
  for (int g = 0; g < groups; ++g) {
    const uint8_t* b = block + g / 2 * quant::Q2_0::kBytes;
    uint64_t codes;
    std::memcpy(&codes, b + 2 + 8 * (g % 2), 8);
    uint64_t spread[4];
    for (int i = 0; i < 4; ++i) spread[i] = _pdep_u64(codes >> 16 * i, 0x0303030303030303ull);
    store32(out.q + 32 * g, _mm256_sub_epi8(load32(spread), _mm256_set1_epi8(1)));
    unit_scale(out, g, half_at(b));
  }
}

inline void unpack_fast(quant::IQ4_XS, const uint8_t* block, int groups, WeightSegment& out) {
  const float d = half_at(block);
  uint32_t high;
  uint16_t high16;
  std::memcpy(&high16, block + 2, 2);
  high = high16;
  for (int g = 0; g < groups; ++g) {
    store32(out.q + 32 * g,
            lookup16(quant::codebooks::kIq4Values, nibbles(block + 8 + 16 * g)));
    const uint32_t low = static_cast<uint32_t>(block[4 + g / 2] >> 4 * (g % 2)) & 15u;
    const auto scale =
        static_cast<float>(static_cast<int32_t>(low | ((high >> 2 * g) & 3u) << 4) - 32);
    out.d[g] = d;
    out.scale[0][g] = out.scale[1][g] = scale;
  }
}

inline void unpack_fast(quant::Q6_K, const uint8_t* block, int groups, WeightSegment& out) {
  const float d = half_at(block + 208);
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i pair = _mm256_set1_epi8(3);
  for (int g = 0; g < groups; ++g) {
    const int part = g % 4;
    const __m256i low_bytes = load32(block + 64 * (g / 4) + 32 * (part & 1));
    const __m256i high_bytes = load32(block + 128 + 32 * (g / 4));
    const __m256i low = _mm256_and_si256(part >> 1 ? _mm256_srli_epi16(low_bytes, 4) : low_bytes, nibble);
    const __m256i high = _mm256_and_si256(_mm256_srl_epi16(high_bytes, _mm_cvtsi32_si128(2 * part)), pair);
    store32(out.q + 32 * g, _mm256_sub_epi8(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)),
                                            _mm256_set1_epi8(32)));
    out.d[g] = d;
    out.scale[0][g] = static_cast<float>(static_cast<int8_t>(block[192 + 2 * g]));
    out.scale[1][g] = static_cast<float>(static_cast<int8_t>(block[193 + 2 * g]));
  }
}

// Six-bit scales and minimums of Q4_K and Q5_K.
inline void k_scales(const uint8_t* block, int groups, WeightSegment& out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  const uint8_t* s = block + 4;
  for (int g = 0; g < groups; ++g) {
    const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
    const int min = g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) | (s[g] >> 6) << 4;
    out.d[g] = d;
    out.dmin[g] = dmin;
    out.scale[0][g] = out.scale[1][g] = static_cast<float>(scale);
    out.min[0][g] = out.min[1][g] = static_cast<float>(min);
  }
}

inline void unpack_fast(quant::Q4_K, const uint8_t* block, int groups, WeightSegment& out) {
  k_scales(block, groups, out);
  for (int g = 0; g < groups; ++g) {
    const __m256i bytes = load32(block + 16 + 32 * (g / 2));
    store32(out.q + 32 * g,
            _mm256_and_si256(g % 2 ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15)));
  }
}

inline void unpack_fast(quant::Q5_K, const uint8_t* block, int groups, WeightSegment& out) {
  k_scales(block, groups, out);
  const __m256i fifth = load32(block + 16);
  for (int g = 0; g < groups; ++g) {
    const __m256i bytes = load32(block + 48 + 32 * (g / 2));
    const __m256i low =
        _mm256_and_si256(g % 2 ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15));
    const __m256i bit = _mm256_and_si256(_mm256_srl_epi16(fifth, _mm_cvtsi32_si128(g)),
                                         _mm256_set1_epi8(1));
    store32(out.q + 32 * g, _mm256_or_si256(low, _mm256_slli_epi16(bit, 4)));
  }
}

inline __m256i four_entries(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return _mm256_setr_epi64x(static_cast<int64_t>(a), static_cast<int64_t>(b),
                            static_cast<int64_t>(c), static_cast<int64_t>(d));
}

inline void unpack_fast(quant::IQ2_XXS, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  const float d = half_at(block) * 0.125f;
  for (int g = 0; g < groups; ++g) {
    const uint8_t* index = block + 2 + 8 * g;
    uint32_t word;
    std::memcpy(&word, index + 4, 4);
    const __m256i values = four_entries(iq2xxs_entry(index[0]), iq2xxs_entry(index[1]),
                                        iq2xxs_entry(index[2]), iq2xxs_entry(index[3]));
    store32(out.q + 32 * g, apply_signs(values, sign_bits(word)));
    out.d[g] = d;
    out.scale[0][g] = out.scale[1][g] = static_cast<float>(2 * (word >> 28) + 1);
  }
}

inline void unpack_fast(quant::IQ2_XS, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  const float d = half_at(block) * 0.125f;
  for (int g = 0; g < groups; ++g) {
    uint64_t words;
    std::memcpy(&words, block + 2 + 8 * g, 8);
    const __m256i values =
        four_entries(iq2xs_entry(words & 511), iq2xs_entry((words >> 16) & 511),
                     iq2xs_entry((words >> 32) & 511), iq2xs_entry((words >> 48) & 511));
    const auto signs = static_cast<uint32_t>(_pext_u64(words, 0xFE00FE00FE00FE00ull));
    store32(out.q + 32 * g, apply_signs(values, sign_bits(signs)));
    const int scales = block[66 + g];
    out.d[g] = d;
    out.scale[0][g] = static_cast<float>(2 * (scales & 15) + 1);
    out.scale[1][g] = static_cast<float>(2 * (scales >> 4) + 1);
  }
}

inline void unpack_fast(quant::IQ2_S, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  const float d = half_at(block) * 0.125f;
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
    const int scales = block[74 + g];
    out.d[g] = d;
    out.scale[0][g] = static_cast<float>(2 * (scales & 15) + 1);
    out.scale[1][g] = static_cast<float>(2 * (scales >> 4) + 1);
  }
}

inline void unpack_fast(quant::IQ3_XXS, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  const float d = half_at(block) * 0.25f;
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
    out.d[g] = d;
    out.scale[0][g] = out.scale[1][g] = static_cast<float>(2 * (word >> 28) + 1);
  }
}

inline void unpack_fast(quant::IQ3_S, const uint8_t* block, int groups, WeightSegment& out) {
  using namespace quant::codebooks;
  const float d = half_at(block);
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
    const int scale = (block[106 + g / 2] >> 4 * (g % 2)) & 15;
    out.d[g] = d;
    out.scale[0][g] = out.scale[1][g] = static_cast<float>(2 * scale + 1);
  }
}

template <class Type>
concept HasFastUnpack = requires(Type type, const uint8_t* block, WeightSegment& out) {
  unpack_fast(type, block, 1, out);
};
