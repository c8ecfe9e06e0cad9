// 32 weights of a block as the int8 products take them: eight words of four codes, in registers.
// One specialisation of Unpack per type; types without one go through their portable decoder.
//
// Blocks are read from shared memory, where the bytes around them exist (load_words), at addresses
// that are congruent to their place in a matrix whose first byte is 16-aligned.
#pragma once

#include "backend/gpu/prim/bytes.h"
#include "format/quant/types.h"

namespace strata::gpu {

// What of `scale` and `min` a type uses.
enum class SubScales : uint8_t {
  kUnit,  // scale[0] = scale[1] = 1
  kOne,   // scale[0] = scale[1]
  kTwo,
  kWide,  // two, too wide for an int32 term: a float term for each half
};
enum class Minimums : uint8_t {
  kNone,
  kUnit,  // min[0] = min[1] = 1
  kOne,   // min[0] = min[1]
  kTwo,
};

// Types whose group() also gives its codes in the order of their nibbles, group<true>(), where that
// costs less (kNibblesInOrder).
template <class U>
constexpr bool has_order() {
  if constexpr (requires { U::kHasOrder; }) return kNibblesInOrder;
  return false;
}

// The canonical integer form (format/quant/int_group.h). Members that a type does not use are
// undefined.
struct WeightGroup {
  uint32_t q[8];  // word i: elements 4i to 4i + 3
  float d;
  float dmin;
  int scale[2];
  int min[2];
};

// The largest power of two, at most 4, that divides the address of every block.
template <class Q>
inline constexpr int kBlockAlign = Q::kBytes % 4 == 0 ? 4 : Q::kBytes % 2 == 0 ? 2 : 1;

namespace unpacking {

// Every byte of `v` less the same byte of `c`; bytes of both are at most 127.
STRATA_DEVICE uint32_t subtract(uint32_t v, uint32_t c) {
  return ((v | 0x80808080u) - c) ^ 0x80808080u;
}
// Bit i of the low four becomes bit 0 of byte i.
STRATA_DEVICE uint32_t spread_bits(uint32_t bits) {
  return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}
// Byte i of `v`, at least 1, negated where bit i of `signs` is set.
STRATA_DEVICE uint32_t negate(uint32_t v, uint32_t signs) {
  const uint32_t ones = spread_bits(signs);
  return (v ^ ones * 0xffu) + ones;
}
// Four 2-bit codes of a byte, one to a byte.
STRATA_DEVICE uint32_t spread_pairs(uint32_t byte) {
  const uint32_t nibbles = (byte | byte << 12) & 0x000f000fu;
  return (nibbles | nibbles << 6) & 0x03030303u;
}

// 16 bytes of nibbles: the low ones are elements 0 to 15, the high ones 16 to 31.
template <int kAlign>
STRATA_DEVICE void nibbles(const uint8_t* p, uint32_t* q) {
  uint32_t words[4];
  load_words<kAlign, 4>(p, words);
  STRATA_UNROLL for (int i = 0; i < 4; ++i) {
    q[i] = words[i] & 0x0f0f0f0fu;
    q[i + 4] = words[i] >> 4 & 0x0f0f0f0fu;
  }
}
// The values of format/quant/codebooks/value_tables.h as words.
struct Iq4Values {
  static constexpr uint32_t kWords[4] = {0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u};
};
struct E2m1Values {
  static constexpr uint32_t kWords[4] = {0x03020100u, 0x0C080604u, 0xFDFEFF00u, 0xF4F8FAFCu};
};
template <class Values>
STRATA_DEVICE void lookup(uint32_t codes, uint32_t& low, uint32_t& high) {
  constexpr uint32_t t0 = Values::kWords[0], t1 = Values::kWords[1], t2 = Values::kWords[2],
                     t3 = Values::kWords[3];
  lookup_nibbles(t0, t1, t2, t3, codes, low, high);
}
// 16 bytes of nibbles as 32 values. In order: words 2i and 2i + 1 hold elements 4i, 4i + 16, 4i + 1,
// 4i + 17 and so on; else natural.
template <class Values, int kAlign, bool kInOrder>
STRATA_DEVICE void lookup_group(const uint8_t* p, uint32_t* q) {
  constexpr uint32_t t0 = Values::kWords[0], t1 = Values::kWords[1], t2 = Values::kWords[2],
                     t3 = Values::kWords[3];
  uint32_t words[4];
  load_words<kAlign, 4>(p, words);
  STRATA_UNROLL for (int i = 0; i < 4; ++i) {
    if constexpr (kInOrder && kNibblesInOrder) {
      lookup_in_order(t0, t1, t2, t3, words[i], q[2 * i], q[2 * i + 1]);
    } else {
      lookup_nibbles(t0, t1, t2, t3, words[i], q[i], q[i + 4]);
    }
  }
}
STRATA_DEVICE void fifth_bits(uint32_t bits, uint32_t* q) {
  STRATA_UNROLL for (int i = 0; i < 8; ++i) q[i] |= spread_bits(bits >> 4 * i) << 4;
}
template <int kAlign>
STRATA_DEVICE uint32_t load_word(const uint8_t* p) {
  uint32_t word;
  load_words<kAlign, 1>(p, &word);
  return word;
}
// Two entries' worth: a codebook entry of eight bytes with its eight signs.
STRATA_DEVICE void signed_entry(uint64_t entry, uint32_t signs, uint32_t* q) {
  q[0] = negate(static_cast<uint32_t>(entry), signs);
  q[1] = negate(static_cast<uint32_t>(entry >> 32), signs >> 4);
}
STRATA_DEVICE void k_scales(const uint8_t* packed, int group, WeightGroup& g) {
  const int j = group & 3;
  const uint32_t low = packed[j], mid = packed[j + 4], high = packed[j + 8];
  const bool first = group < 4;
  g.scale[0] = static_cast<int>(first ? low & 63u : (high & 15u) | (low >> 6) << 4);
  g.min[0] = static_cast<int>(first ? mid & 63u : high >> 4 | (mid >> 6) << 4);
}

}  // namespace unpacking

// The portable decoder.
template <class Q>
struct Unpack {
  static constexpr SubScales kScales = SubScales::kTwo;
  static constexpr Minimums kMins = Q::kHasMin ? Minimums::kTwo : Minimums::kNone;

  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& out) {
    quant::IntGroup g;
    Q::unpack(block, index, g);
    STRATA_UNROLL for (int i = 0; i < 8; ++i) {
      out.q[i] = 0;
      STRATA_UNROLL for (int j = 0; j < 4; ++j) {
        out.q[i] |= static_cast<uint32_t>(static_cast<uint8_t>(g.q[4 * i + j])) << 8 * j;
      }
    }
    out.d = g.d;
    out.dmin = g.dmin;
    STRATA_UNROLL for (int h = 0; h < 2; ++h) {
      out.scale[h] = g.scale[h];
      out.min[h] = g.min[h];
    }
  }
};

struct UnpackUnit {
  static constexpr SubScales kScales = SubScales::kUnit;
  static constexpr Minimums kMins = Minimums::kNone;
};
struct UnpackUnitMin {
  static constexpr SubScales kScales = SubScales::kUnit;
  static constexpr Minimums kMins = Minimums::kUnit;
};
struct UnpackOne {
  static constexpr SubScales kScales = SubScales::kOne;
  static constexpr Minimums kMins = Minimums::kNone;
};
struct UnpackTwo {
  static constexpr SubScales kScales = SubScales::kTwo;
  static constexpr Minimums kMins = Minimums::kNone;
};

template <>
struct Unpack<quant::Q8_0> : UnpackUnit {
  STRATA_DEVICE static void group(const uint8_t* block, int, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block));
    load_words<2, 8>(block + 2, g.q);
  }
};

template <>
struct Unpack<quant::Q4_0> : UnpackUnit {
  STRATA_DEVICE static void group(const uint8_t* block, int, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block));
    unpacking::nibbles<2>(block + 2, g.q);
    STRATA_UNROLL for (uint32_t& q : g.q) q = unpacking::subtract(q, 0x08080808u);
  }
};

template <>
struct Unpack<quant::Q4_1> : UnpackUnitMin {
  STRATA_DEVICE static void group(const uint8_t* block, int, WeightGroup& g) {
    g.d = widen_half(load_short<4>(block));
    g.dmin = -widen_half(load_short<2>(block + 2));
    unpacking::nibbles<4>(block + 4, g.q);
  }
};

template <>
struct Unpack<quant::Q5_0> : UnpackUnit {
  STRATA_DEVICE static void group(const uint8_t* block, int, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block));
    unpacking::nibbles<2>(block + 6, g.q);
    unpacking::fifth_bits(unpacking::load_word<2>(block + 2), g.q);
    STRATA_UNROLL for (uint32_t& q : g.q) q = unpacking::subtract(q, 0x10101010u);
  }
};

template <>
struct Unpack<quant::Q5_1> : UnpackUnitMin {
  STRATA_DEVICE static void group(const uint8_t* block, int, WeightGroup& g) {
    g.d = widen_half(load_short<4>(block));
    g.dmin = -widen_half(load_short<2>(block + 2));
    unpacking::nibbles<4>(block + 8, g.q);
    unpacking::fifth_bits(load_as<uint32_t>(block + 4), g.q);
  }
};

template <>
struct Unpack<quant::Q1_0> : UnpackUnit {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block));
    const uint32_t bits = unpacking::load_word<2>(block + 2 + 4 * index);
    STRATA_UNROLL for (int i = 0; i < 8; ++i) {
      g.q[i] = unpacking::subtract(unpacking::spread_bits(bits >> 4 * i) << 1, 0x01010101u);
    }
  }
};

template <class Q>
struct UnpackPairs : UnpackUnit {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block));
    uint32_t words[2];
    load_words<2, 2>(block + 2 + 8 * index, words);
    STRATA_UNROLL for (int i = 0; i < 8; ++i) {
      const uint32_t codes = unpacking::spread_pairs(words[i / 4] >> 8 * (i % 4) & 0xffu);
      g.q[i] = unpacking::subtract(codes, 0x01010101u);
    }
  }
};
template <>
struct Unpack<quant::Q2_0> : UnpackPairs<quant::Q2_0> {};
template <>
struct Unpack<quant::Q2_0_G128> : UnpackPairs<quant::Q2_0_G128> {};

// Sub-scale times code is at most 45: the scaled codes are int8 themselves.
template <>
struct Unpack<quant::Q2_K> {
  static constexpr SubScales kScales = SubScales::kUnit;
  static constexpr Minimums kMins = Minimums::kTwo;
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    const uint32_t sub = load_short<2>(block + 2 * index);
    const uint32_t ends = load_as<uint32_t>(block + 80);
    g.d = widen_half(ends & 0xffffu);
    g.dmin = widen_half(ends >> 16);
    g.min[0] = static_cast<int>(sub >> 4 & 15u);
    g.min[1] = static_cast<int>(sub >> 12);
    const uint32_t scale[2] = {sub & 15u, sub >> 8 & 15u};
    load_words<4, 8>(block + 16 + 32 * (index / 4), g.q);
    STRATA_UNROLL for (int i = 0; i < 8; ++i) {
      g.q[i] = (g.q[i] >> 2 * (index % 4) & 0x03030303u) * scale[i / 4];
    }
  }
};

template <>
struct Unpack<quant::Q3_K> : UnpackTwo {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block + 108));
    STRATA_UNROLL for (int h = 0; h < 2; ++h) {
      g.scale[h] = quant::Q3_K::sub_scale(block, 2 * index + h);
    }
    uint32_t high[8];
    load_words<2, 8>(block, high);
    load_words<2, 8>(block + 32 + 32 * (index / 4), g.q);
    STRATA_UNROLL for (int i = 0; i < 8; ++i) {
      const uint32_t code = (g.q[i] >> 2 * (index % 4) & 0x03030303u) |
                            (high[i] >> index & 0x01010101u) << 2;
      g.q[i] = unpacking::subtract(code, 0x04040404u);
    }
  }
};

template <>
struct Unpack<quant::Q4_K> {
  static constexpr SubScales kScales = SubScales::kOne;
  static constexpr Minimums kMins = Minimums::kOne;
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    const uint32_t ends = load_as<uint32_t>(block);
    g.d = widen_half(ends & 0xffffu);
    g.dmin = widen_half(ends >> 16);
    unpacking::k_scales(block + 4, index, g);
    load_words<4, 8>(block + 16 + 32 * (index / 2), g.q);
    STRATA_UNROLL for (uint32_t& q : g.q) q = q >> 4 * (index % 2) & 0x0f0f0f0fu;
  }
};

template <>
struct Unpack<quant::Q5_K> {
  static constexpr SubScales kScales = SubScales::kOne;
  static constexpr Minimums kMins = Minimums::kOne;
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    const uint32_t ends = load_as<uint32_t>(block);
    g.d = widen_half(ends & 0xffffu);
    g.dmin = widen_half(ends >> 16);
    unpacking::k_scales(block + 4, index, g);
    uint32_t high[8];
    load_words<4, 8>(block + 16, high);
    load_words<4, 8>(block + 48 + 32 * (index / 2), g.q);
    STRATA_UNROLL for (int i = 0; i < 8; ++i) {
      g.q[i] = (g.q[i] >> 4 * (index % 2) & 0x0f0f0f0fu) | (high[i] >> index & 0x01010101u) << 4;
    }
  }
};

template <>
struct Unpack<quant::Q6_K> : UnpackTwo {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block + 208));
    const uint32_t sub = load_short<2>(block + 192 + 2 * index);
    g.scale[0] = static_cast<int8_t>(sub & 0xffu);
    g.scale[1] = static_cast<int8_t>(sub >> 8);
    const int part = index % 4;
    uint32_t high[8];
    load_words<2, 8>(block + 64 * (index / 4) + 32 * (part & 1), g.q);
    load_words<2, 8>(block + 128 + 32 * (index / 4), high);
    STRATA_UNROLL for (int i = 0; i < 8; ++i) {
      const uint32_t code = (g.q[i] >> 4 * (part >> 1) & 0x0f0f0f0fu) |
                            (high[i] >> 2 * part & 0x03030303u) << 4;
      g.q[i] = unpacking::subtract(code, 0x20202020u);
    }
  }
};

template <>
struct Unpack<quant::IQ4_NL> : UnpackUnit {
  static constexpr bool kHasOrder = true;
  template <bool kInOrder = false>
  STRATA_DEVICE static void group(const uint8_t* block, int, WeightGroup& g) {
    g.d = widen_half(load_short<2>(block));
    unpacking::lookup_group<unpacking::Iq4Values, 2, kInOrder>(block + 2, g.q);
  }
};

template <>
struct Unpack<quant::IQ4_XS> : UnpackOne {
  static constexpr bool kHasOrder = true;
  template <bool kInOrder = false>
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    const uint32_t head = load_as<uint32_t>(block);
    g.d = widen_half(head & 0xffffu);
    const uint32_t low = load_as<uint32_t>(block + 4) >> 4 * index & 15u;
    const uint32_t high = head >> (16 + 2 * index) & 3u;
    g.scale[0] = static_cast<int>(low | high << 4) - 32;
    unpacking::lookup_group<unpacking::Iq4Values, 4, kInOrder>(block + 8 + 16 * index, g.q);
  }
};

template <>
struct Unpack<quant::MXFP4> : UnpackUnit {
  static constexpr bool kHasOrder = true;
  template <bool kInOrder = false>
  STRATA_DEVICE static void group(const uint8_t* block, int, WeightGroup& g) {
    g.d = quant::MXFP4::exponent_scale(block[0]);
    unpacking::lookup_group<unpacking::E2m1Values, 1, kInOrder>(block + 1, g.q);
  }
};

template <>
struct Unpack<quant::NVFP4> {
  static constexpr SubScales kScales = SubScales::kWide;
  static constexpr Minimums kMins = Minimums::kNone;
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    g.d = 0x1p-10f;
    uint32_t words[4];
    load_words<4, 4>(block + 4 + 16 * index, words);
    STRATA_UNROLL for (int h = 0; h < 2; ++h) {
      g.scale[h] = quant::NVFP4::scale_units(block[2 * index + h]);
      STRATA_UNROLL for (int i = 0; i < 2; ++i) {
        unpacking::lookup<unpacking::E2m1Values>(words[2 * h + i], g.q[4 * h + i], g.q[4 * h + 2 + i]);
      }
    }
  }
};

template <>
struct Unpack<quant::IQ2_XXS> : UnpackOne {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    uint32_t words[2];
    load_words<2, 2>(block + 2 + 8 * index, words);
    g.d = widen_half(load_short<2>(block)) * 0.125f;
    g.scale[0] = static_cast<int>(2 * (words[1] >> 28) + 1);
    STRATA_UNROLL for (int l = 0; l < 4; ++l) {
      unpacking::signed_entry(quant::codebooks::iq2xxs_entry(words[0] >> 8 * l & 0xffu),
                              quant::codebooks::sign_byte(words[1] >> 7 * l & 127u), g.q + 2 * l);
    }
  }
};

template <>
struct Unpack<quant::IQ2_XS> : UnpackTwo {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    uint32_t words[2];
    load_words<2, 2>(block + 2 + 8 * index, words);
    g.d = widen_half(load_short<2>(block)) * 0.125f;
    const int scales = block[66 + index];
    g.scale[0] = 2 * (scales & 15) + 1;
    g.scale[1] = 2 * (scales >> 4) + 1;
    STRATA_UNROLL for (int l = 0; l < 4; ++l) {
      const uint32_t code = words[l / 2] >> 16 * (l % 2) & 0xffffu;
      unpacking::signed_entry(quant::codebooks::iq2xs_entry(code & 511u),
                              quant::codebooks::sign_byte(code >> 9), g.q + 2 * l);
    }
  }
};

template <>
struct Unpack<quant::IQ2_S> : UnpackTwo {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    const uint32_t low = unpacking::load_word<2>(block + 2 + 4 * index);
    const uint32_t signs = unpacking::load_word<2>(block + 34 + 4 * index);
    const uint32_t high = block[66 + index];
    const int scales = block[74 + index];
    g.d = widen_half(load_short<2>(block)) * 0.125f;
    g.scale[0] = 2 * (scales & 15) + 1;
    g.scale[1] = 2 * (scales >> 4) + 1;
    STRATA_UNROLL for (int l = 0; l < 4; ++l) {
      const uint32_t code = (low >> 8 * l & 0xffu) | (high >> 2 * l & 3u) << 8;
      unpacking::signed_entry(quant::codebooks::iq2s_entry(code), signs >> 8 * l, g.q + 2 * l);
    }
  }
};

template <>
struct Unpack<quant::IQ3_XXS> : UnpackOne {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    uint32_t words[2];
    load_words<2, 2>(block + 2 + 8 * index, words);
    const uint32_t word = unpacking::load_word<2>(block + 66 + 4 * index);
    g.d = widen_half(load_short<2>(block)) * 0.25f;
    g.scale[0] = static_cast<int>(2 * (word >> 28) + 1);
    STRATA_UNROLL for (int k = 0; k < 8; ++k) {
      const uint32_t signs = quant::codebooks::sign_byte(word >> 7 * (k / 2) & 127u);
      const uint32_t code = words[k / 4] >> 8 * (k % 4) & 0xffu;
      g.q[k] = unpacking::negate(quant::codebooks::iq3xxs_entry(code), signs >> 4 * (k % 2));
    }
  }
};

template <>
struct Unpack<quant::IQ3_S> : UnpackOne {
  STRATA_DEVICE static void group(const uint8_t* block, int index, WeightGroup& g) {
    uint32_t words[2];
    load_words<2, 2>(block + 2 + 8 * index, words);
    const uint32_t signs = unpacking::load_word<2>(block + 74 + 4 * index);
    const uint32_t high = block[66 + index];
    g.d = widen_half(load_short<2>(block));
    g.scale[0] = 2 * (block[106 + index / 2] >> 4 * (index % 2) & 15) + 1;
    STRATA_UNROLL for (int k = 0; k < 8; ++k) {
      const uint32_t code = (words[k / 4] >> 8 * (k % 4) & 0xffu) | (high >> k & 1u) << 8;
      g.q[k] = unpacking::negate(quant::codebooks::iq3s_entry(code), signs >> 4 * k);
    }
  }
};

}  // namespace strata::gpu
