// Fast unpacking of the types that published files use most; the others take the generic way.
// Every specialisation writes exactly what unpack_generic would.

inline uint8x16_t load16(const uint8_t* p) { return vld1q_u8(p); }
inline uint32x4_t load_words(const uint8_t* p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
inline void store16(int8_t* q, int8x16_t v) { vst1q_s8(q, v); }
inline void store16(int8_t* q, uint8x16_t v) { vst1q_s8(q, vreinterpretq_s8_u8(v)); }

// The float fields of a segment are written as whole vectors, as they are read.
inline void put(float* field, float32x4_t first, float32x4_t second) {
  vst1q_f32(field, first);
  vst1q_f32(field + 4, second);
}
inline void put(float* field, float value) { put(field, vdupq_n_f32(value), vdupq_n_f32(value)); }
inline void put_scales(WeightSegment& out, float32x4_t first, float32x4_t second) {
  put(out.scale[0], first, second);
  put(out.scale[1], first, second);
}
inline void put_unit_scales(WeightSegment& out) {
  put_scales(out, vdupq_n_f32(1.0f), vdupq_n_f32(1.0f));
}

inline float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
}

// Eight bytes, unsigned or signed, as floats.
inline void put_bytes(float* field, uint8x8_t bytes) {
  const uint16x8_t wide = vmovl_u8(bytes);
  put(field, vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))),
      vcvtq_f32_u32(vmovl_u16(vget_high_u16(wide))));
}
inline void put_bytes(float* field, int8x8_t bytes) {
  const int16x8_t wide = vmovl_s8(bytes);
  put(field, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))),
      vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))));
}
// 2 s + 1 of eight bytes, and where s is the top four bits of each word.
inline void put_odd(float* field, uint8x8_t s) {
  put_bytes(field, vorr_u8(vshl_n_u8(s, 1), vdup_n_u8(1)));
}
inline float32x4_t odd_of_words(uint32x4_t words) {
  return vcvtq_f32_u32(vorrq_u32(vshlq_n_u32(vshrq_n_u32(words, 28), 1), vdupq_n_u32(1)));
}

// The half at the front of each block of one group, for four groups of which `groups` exist.
inline float32x4_t four_halves(const uint8_t* block, int64_t stride, int groups) {
  uint16_t bits[4] = {};
  for (int g = 0; g < std::min(groups, 4); ++g) std::memcpy(&bits[g], block + g * stride, 2);
  const uint16x4_t halves = {bits[0], bits[1], bits[2], bits[3]};
  return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}
inline void put_block_scales(const uint8_t* block, int64_t stride, int groups, WeightSegment& out) {
  put(out.d, four_halves(block, stride, groups),
      four_halves(block + 4 * stride, stride, groups - 4));
  put_unit_scales(out);
}

inline uint8x16_t low_nibbles(uint8x16_t bytes) { return vandq_u8(bytes, vdupq_n_u8(15)); }
inline uint8x16_t high_nibbles(uint8x16_t bytes) { return vshrq_n_u8(bytes, 4); }

// Negates the bytes of `values` whose bit is set: bytes 0..7 have their bits in byte 2 * pair of
// `signs`, bytes 8..15 in the next.
inline int8x16_t apply_signs(int8x16_t values, uint8x16_t signs, int pair) {
  const uint8x16_t repeat = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
  const uint8x16_t spread =
      vqtbl1q_u8(signs, vaddq_u8(repeat, vdupq_n_u8(static_cast<uint8_t>(2 * pair))));
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  const int8x16_t mask = vreinterpretq_s8_u8(vtstq_u8(spread, bit));
  return vsubq_s8(veorq_s8(values, mask), mask);
}
// The sign bytes of 7-bit indices: bit 7 evens the number of set bits.
inline uint8x16_t sign_bytes(uint8x16_t indices) {
  return vorrq_u8(indices, vshlq_n_u8(vcntq_u8(indices), 7));
}
// Those of the four indices in the low 28 bits of each word.
inline uint8x16_t word_sign_bytes(uint32x4_t words) {
  const auto part = [](uint32x4_t word, uint32_t mask) {
    return vandq_u32(word, vdupq_n_u32(mask));
  };
  const uint32x4_t low = vorrq_u32(part(words, 0x7F), part(vshlq_n_u32(words, 1), 0x7F00));
  const uint32x4_t high =
      vorrq_u32(part(vshlq_n_u32(words, 2), 0x7F0000), part(vshlq_n_u32(words, 3), 0x7F000000));
  return sign_bytes(vreinterpretq_u8_u32(vorrq_u32(low, high)));
}

inline int8x16_t two_entries(uint64_t a, uint64_t b) {
  return vreinterpretq_s8_u64(vcombine_u64(vcreate_u64(a), vcreate_u64(b)));
}
inline int8x16_t four_entries(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const uint32x4_t words = {a, b, c, d};
  return vreinterpretq_s8_u32(words);
}

inline void unpack_fast(quant::Q8_0, const uint8_t* block, int groups, WeightSegment& out) {
  put_block_scales(block, quant::Q8_0::kBytes, groups, out);
  for (int g = 0; g < groups; ++g, block += quant::Q8_0::kBytes) {
    store16(out.q + 32 * g, load16(block + 2));
    store16(out.q + 32 * g + 16, load16(block + 18));
  }
}

inline void unpack_fast(quant::Q4_0, const uint8_t* block, int groups, WeightSegment& out) {
  put_block_scales(block, quant::Q4_0::kBytes, groups, out);
  for (int g = 0; g < groups; ++g, block += quant::Q4_0::kBytes) {
    const uint8x16_t bytes = load16(block + 2);
    store16(out.q + 32 * g, vsubq_u8(low_nibbles(bytes), vdupq_n_u8(8)));
    store16(out.q + 32 * g + 16, vsubq_u8(high_nibbles(bytes), vdupq_n_u8(8)));
  }
}

// Sixteen bytes of nibbles that are places in a table.
inline void put_lookups(const int8_t* table, const uint8_t* p, int8_t* q) {
  const int8x16_t values = vld1q_s8(table);
  const uint8x16_t bytes = load16(p);
  store16(q, vqtbl1q_s8(values, low_nibbles(bytes)));
  store16(q + 16, vqtbl1q_s8(values, high_nibbles(bytes)));
}

inline void unpack_fast(quant::IQ4_NL, const uint8_t* block, int groups, WeightSegment& out) {
  put_block_scales(block, quant::IQ4_NL::kBytes, groups, out);
  for (int g = 0; g < groups; ++g, block += quant::IQ4_NL::kBytes) {
    put_lookups(quant::codebooks::kIq4Values, block + 2, out.q + 32 * g);
  }
}

inline void unpack_fast(quant::MXFP4, const uint8_t* block, int groups, WeightSegment& out) {
  float d[kSegmentGroups] = {};
  for (int g = 0; g < groups; ++g, block += quant::MXFP4::kBytes) {
    d[g] = quant::MXFP4::exponent_scale(block[0]);
    put_lookups(quant::codebooks::kE2m1Doubled, block + 1, out.q + 32 * g);
  }
  put(out.d, float32x4_t{d[0], d[1], d[2], d[3]}, float32x4_t{d[4], d[5], d[6], d[7]});
  put_unit_scales(out);
}

inline void unpack_fast(quant::Q2_0, const uint8_t* block, int groups, WeightSegment& out) {
  const uint8x16_t fours = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const int8x16_t shifts = vreinterpretq_s8_u32(vdupq_n_u32(0xFAFCFE00u));  // 0, -2, -4, -6
  for (int g = 0; g < groups; ++g) {
    const uint8x8_t eight = vld1_u8(block + g / 2 * quant::Q2_0::kBytes + 2 + 8 * (g % 2));
    const uint8x16_t bytes = vcombine_u8(eight, eight);
    for (int half = 0; half < 2; ++half) {
      const uint8x16_t index = vaddq_u8(fours, vdupq_n_u8(static_cast<uint8_t>(4 * half)));
      const uint8x16_t pairs = vshlq_u8(vqtbl1q_u8(bytes, index), shifts);
      store16(out.q + 32 * g + 16 * half, vsubq_u8(vandq_u8(pairs, vdupq_n_u8(3)), vdupq_n_u8(1)));
    }
  }
  // Two groups share a block.
  const float32x4_t d = four_halves(block, quant::Q2_0::kBytes, groups / 2);
  put(out.d, vzip1q_f32(d, d), vzip2q_f32(d, d));
  put_unit_scales(out);
}

inline void unpack_fast(quant::IQ4_XS, const uint8_t* block, int groups, WeightSegment& out) {
  uint32_t low;
  std::memcpy(&low, block + 4, 4);
  const uint32_t high = quant::load_u16(block + 2);
  const auto scales = [&](int first) {  // of groups first .. first + 3
    const int32x4_t by_four = {0, -4, -8, -12}, by_two = {0, -2, -4, -6};
    const uint32x4_t bits =
        vandq_u32(vshlq_u32(vdupq_n_u32(low >> 4 * first), by_four), vdupq_n_u32(15));
    const uint32x4_t upper =
        vandq_u32(vshlq_u32(vdupq_n_u32(high >> 2 * first), by_two), vdupq_n_u32(3));
    const uint32x4_t both = vorrq_u32(bits, vshlq_n_u32(upper, 4));
    return vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(both), vdupq_n_s32(32)));
  };
  put(out.d, half_at(block));
  put_scales(out, scales(0), scales(4));
  for (int g = 0; g < groups; ++g) {
    put_lookups(quant::codebooks::kIq4Values, block + 8 + 16 * g, out.q + 32 * g);
  }
}

inline void unpack_fast(quant::Q6_K, const uint8_t* block, int, WeightSegment& out) {
  put(out.d, half_at(block + 208));
  const int8x16_t scales = vreinterpretq_s8_u8(load16(block + 192));
  put_bytes(out.scale[0], vget_low_s8(vuzp1q_s8(scales, scales)));
  put_bytes(out.scale[1], vget_low_s8(vuzp2q_s8(scales, scales)));
  for (int part = 0; part < 4; ++part) {  // 16 bytes of upper bits serve four groups' halves
    const int at = 16 * (part % 2), side = part / 2;
    const uint8x16_t low0 = load16(block + 64 * side + at);
    const uint8x16_t low1 = load16(block + 64 * side + 32 + at);
    const uint8x16_t high = load16(block + 128 + 32 * side + at);
    const auto code = [](uint8x16_t nibble, uint8x16_t shifted) {
      return vsubq_u8(vorrq_u8(nibble, vandq_u8(shifted, vdupq_n_u8(0x30))), vdupq_n_u8(32));
    };
    int8_t* q = out.q + 128 * side + at;
    store16(q, code(low_nibbles(low0), vshlq_n_u8(high, 4)));
    store16(q + 32, code(low_nibbles(low1), vshlq_n_u8(high, 2)));
    store16(q + 64, code(high_nibbles(low0), high));
    store16(q + 96, code(high_nibbles(low1), vshrq_n_u8(high, 2)));
  }
}

// Six-bit scales and minimums of Q4_K and Q5_K.
inline void put_k_scales(const uint8_t* block, WeightSegment& out) {
  uint32_t s[3];
  std::memcpy(s, block + 4, 12);
  constexpr uint32_t kSix = 0x3F3F3F3Fu, kFour = 0x0F0F0F0Fu, kTwo = 0x03030303u;
  const auto join = [](uint32_t low, uint32_t high) {
    return vcreate_u8(static_cast<uint64_t>(low) | static_cast<uint64_t>(high) << 32);
  };
  const uint8x8_t scale = join(s[0] & kSix, (s[2] & kFour) | ((s[0] >> 6) & kTwo) << 4);
  const uint8x8_t min = join(s[1] & kSix, ((s[2] >> 4) & kFour) | ((s[1] >> 6) & kTwo) << 4);
  put(out.d, half_at(block));
  put(out.dmin, half_at(block + 2));
  put_bytes(out.scale[0], scale);
  put_bytes(out.scale[1], scale);
  put_bytes(out.min[0], min);
  put_bytes(out.min[1], min);
}

inline void unpack_fast(quant::Q4_K, const uint8_t* block, int, WeightSegment& out) {
  put_k_scales(block, out);
  for (int pair = 0; pair < 4; ++pair) {
    for (int half = 0; half < 2; ++half) {
      const uint8x16_t bytes = load16(block + 16 + 32 * pair + 16 * half);
      store16(out.q + 64 * pair + 16 * half, low_nibbles(bytes));
      store16(out.q + 64 * pair + 32 + 16 * half, high_nibbles(bytes));
    }
  }
}

inline void unpack_fast(quant::Q5_K, const uint8_t* block, int, WeightSegment& out) {
  put_k_scales(block, out);
  for (int half = 0; half < 2; ++half) {
    uint8x16_t fifth = load16(block + 16 + 16 * half);
    for (int pair = 0; pair < 4; ++pair) {
      const uint8x16_t bytes = load16(block + 48 + 32 * pair + 16 * half);
      const uint8x16_t sixteen = vdupq_n_u8(16);
      store16(out.q + 64 * pair + 16 * half,
              vorrq_u8(low_nibbles(bytes), vandq_u8(vshlq_n_u8(fifth, 4), sixteen)));
      store16(out.q + 64 * pair + 32 + 16 * half,
              vorrq_u8(high_nibbles(bytes), vandq_u8(vshlq_n_u8(fifth, 3), sixteen)));
      fifth = vshrq_n_u8(fifth, 2);
    }
  }
}

inline void unpack_fast(quant::IQ2_XXS, const uint8_t* block, int, WeightSegment& out) {
  put(out.d, half_at(block) * 0.125f);
  for (int four = 0; four < 2; ++four) {  // groups 4 * four .. 4 * four + 3
    const uint8_t* words = block + 2 + 32 * four;
    const uint32x4_t second = vuzp2q_u32(load_words(words), load_words(words + 16));
    const float32x4_t scale = odd_of_words(second);
    vst1q_f32(out.scale[0] + 4 * four, scale);
    vst1q_f32(out.scale[1] + 4 * four, scale);
    const uint8x16_t signs = word_sign_bytes(second);
    for (int pair = 0; pair < 8; ++pair) {
      const uint8_t* index = words + 8 * (pair / 2) + 2 * (pair % 2);
      const int8x16_t values = two_entries(quant::codebooks::iq2xxs_entry(index[0]),
                                           quant::codebooks::iq2xxs_entry(index[1]));
      store16(out.q + 128 * four + 16 * pair, apply_signs(values, signs, pair));
    }
  }
}

// Eight bytes of two nibbles s, one per half: scales 2 s + 1.
inline void put_nibble_scales(const uint8_t* p, WeightSegment& out) {
  const uint8x8_t bytes = vld1_u8(p);
  put_odd(out.scale[0], vand_u8(bytes, vdup_n_u8(15)));
  put_odd(out.scale[1], vshr_n_u8(bytes, 4));
}

inline void unpack_fast(quant::IQ2_XS, const uint8_t* block, int, WeightSegment& out) {
  put(out.d, half_at(block) * 0.125f);
  put_nibble_scales(block + 66, out);
  for (int four = 0; four < 2; ++four) {
    const uint8_t* words = block + 2 + 32 * four;
    const auto indices = [](const uint8_t* p) {
      return vmovn_u16(vshrq_n_u16(vreinterpretq_u16_u8(load16(p)), 9));
    };
    const uint8x16_t signs = sign_bytes(vcombine_u8(indices(words), indices(words + 16)));
    for (int pair = 0; pair < 8; ++pair) {
      const int8x16_t values =
          two_entries(quant::codebooks::iq2xs_entry(quant::load_u16(words + 4 * pair) & 511),
                      quant::codebooks::iq2xs_entry(quant::load_u16(words + 4 * pair + 2) & 511));
      store16(out.q + 128 * four + 16 * pair, apply_signs(values, signs, pair));
    }
  }
}

inline void unpack_fast(quant::IQ2_S, const uint8_t* block, int, WeightSegment& out) {
  put(out.d, half_at(block) * 0.125f);
  put_nibble_scales(block + 74, out);
  for (int four = 0; four < 2; ++four) {
    const uint8_t* low = block + 2 + 16 * four;
    const uint8x16_t signs = load16(block + 34 + 16 * four);
    for (int pair = 0; pair < 8; ++pair) {
      const uint32_t high = block[66 + 4 * four + pair / 2] >> 4 * (pair % 2);
      const int8x16_t values =
          two_entries(quant::codebooks::iq2s_entry(low[2 * pair] | (high & 3u) << 8),
                      quant::codebooks::iq2s_entry(low[2 * pair + 1] | (high >> 2 & 3u) << 8));
      store16(out.q + 128 * four + 16 * pair, apply_signs(values, signs, pair));
    }
  }
}

inline void unpack_fast(quant::IQ3_XXS, const uint8_t* block, int, WeightSegment& out) {
  put(out.d, half_at(block) * 0.25f);
  for (int four = 0; four < 2; ++four) {
    const uint32x4_t words = load_words(block + 66 + 16 * four);
    const float32x4_t scale = odd_of_words(words);
    vst1q_f32(out.scale[0] + 4 * four, scale);
    vst1q_f32(out.scale[1] + 4 * four, scale);
    const uint8x16_t signs = word_sign_bytes(words);
    for (int pair = 0; pair < 8; ++pair) {
      const uint8_t* index = block + 2 + 32 * four + 4 * pair;
      using quant::codebooks::iq3xxs_entry;
      const int8x16_t values = four_entries(iq3xxs_entry(index[0]), iq3xxs_entry(index[1]),
                                            iq3xxs_entry(index[2]), iq3xxs_entry(index[3]));
      store16(out.q + 128 * four + 16 * pair, apply_signs(values, signs, pair));
    }
  }
}

inline void unpack_fast(quant::IQ3_S, const uint8_t* block, int, WeightSegment& out) {
  put(out.d, half_at(block));
  const uint8x8_t four_bytes = vreinterpret_u8_u32(vdup_n_u32(quant::load_u32(block + 106)));
  const uint8x8_t nibbles = vzip1_u8(vand_u8(four_bytes, vdup_n_u8(15)), vshr_n_u8(four_bytes, 4));
  put_odd(out.scale[0], nibbles);
  put_odd(out.scale[1], nibbles);
  for (int four = 0; four < 2; ++four) {
    const uint8x16_t signs = load16(block + 74 + 16 * four);
    for (int pair = 0; pair < 8; ++pair) {
      const uint8_t* low = block + 2 + 32 * four + 4 * pair;
      const uint32_t high = block[66 + 4 * four + pair / 2] >> 4 * (pair % 2);
      const auto entry = [&](int i) {
        return quant::codebooks::iq3s_entry(low[i] | (high >> i & 1u) << 8);
      };
      store16(out.q + 128 * four + 16 * pair,
              apply_signs(four_entries(entry(0), entry(1), entry(2), entry(3)), signs, pair));
    }
  }
}

template <class Type>
concept HasFastUnpack = requires(Type type, const uint8_t* block, WeightSegment& out) {
  unpack_fast(type, block, 1, out);
};
