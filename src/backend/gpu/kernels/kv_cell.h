// Cached keys and values as kernels read and write them (KvView): widened exactly, rounded as the
// contract says.
#pragma once

#include "backend/gpu/kernels/lanes.h"
#include "backend/gpu/prim/bytes.h"
#include "backend/op_args.h"
#include "format/quant/half.h"

namespace strata::gpu {

// Values beyond the range of a half are clamped: an infinity would turn the whole row into NaN.
STRATA_DEVICE uint16_t half_for_cache(float x) {
  const float low = x < -65504.0f ? -65504.0f : x;  // NaN stays NaN
  return quant::float_to_half(low > 65504.0f ? 65504.0f : low);
}

// kWidth consecutive values as they are stored, read at once; `at` and the row are multiples of
// kWidth.
template <int kWords>
struct alignas(kWords >= 4 ? 16 : 4 * kWords) CachePiece {
  uint32_t word[kWords];
};

// A cache of one type; `at` counts values.
template <backend::KvType kType>
struct KvCell;

template <>
struct KvCell<backend::KvType::kF32> {
  template <int kWidth>
  using Piece = CachePiece<kWidth>;
  const float* values;

  STRATA_DEVICE KvCell(const void* data, const float*) : values(static_cast<const float*>(data)) {}
  STRATA_DEVICE float load(int64_t at) const { return values[at]; }
  template <int kWidth>
  STRATA_DEVICE Piece<kWidth> load_piece(int64_t at) const {
    return *reinterpret_cast<const Piece<kWidth>*>(values + at);
  }
  template <int kWidth>
  STRATA_DEVICE static void widen(const Piece<kWidth>& piece, float (&out)[kWidth]) {
    STRATA_UNROLL for (int i = 0; i < kWidth; ++i) out[i] = quant::float_from_bits(piece.word[i]);
  }
};

template <>
struct KvCell<backend::KvType::kF16> {
  template <int kWidth>
  using Piece = CachePiece<kWidth / 2>;
  const uint16_t* halves;

  STRATA_DEVICE KvCell(const void* data, const float*)
      : halves(static_cast<const uint16_t*>(data)) {}
  STRATA_DEVICE float load(int64_t at) const { return widen_half(halves[at]); }
  template <int kWidth>
  STRATA_DEVICE Piece<kWidth> load_piece(int64_t at) const {
    return *reinterpret_cast<const Piece<kWidth>*>(halves + at);
  }
  template <int kWidth>
  STRATA_DEVICE static void widen(const Piece<kWidth>& piece, float (&out)[kWidth]) {
    STRATA_UNROLL for (int i = 0; i < kWidth; i += 2) {
      out[i] = widen_half(piece.word[i / 2] & 0xFFFFu);
      out[i + 1] = widen_half(piece.word[i / 2] >> 16);
    }
  }
};

template <>
struct KvCell<backend::KvType::kI8> {
  // Codes, four a word, and their scale; a piece lies inside a group.
  template <int kWidth>
  struct Piece {
    uint32_t word[(kWidth + 3) / 4];
    float scale;
  };
  const int8_t* codes;
  const float* scales;

  STRATA_DEVICE KvCell(const void* data, const float* scales)
      : codes(static_cast<const int8_t*>(data)), scales(scales) {}
  STRATA_DEVICE float load(int64_t at) const {
    return scales[at / backend::kKvGroup] * static_cast<float>(codes[at]);
  }
  template <int kWidth>
  STRATA_DEVICE Piece<kWidth> load_piece(int64_t at) const {
    Piece<kWidth> out;
    out.scale = scales[at / backend::kKvGroup];
    if constexpr (kWidth == 2) {
      out.word[0] = *reinterpret_cast<const uint16_t*>(codes + at);
    } else {
      const auto words = *reinterpret_cast<const CachePiece<kWidth / 4>*>(codes + at);
      STRATA_UNROLL for (int i = 0; i < kWidth / 4; ++i) out.word[i] = words.word[i];
    }
    return out;
  }
  template <int kWidth>
  STRATA_DEVICE static void widen(const Piece<kWidth>& piece, float (&out)[kWidth]) {
    STRATA_UNROLL for (int i = 0; i < kWidth; ++i) {
      const auto code = static_cast<int8_t>(piece.word[i / 4] >> 8 * (i % 4));
      out[i] = piece.scale * static_cast<float>(code);
    }
  }
};

// 32 values as codes, by one thread; returns their scale (op_args.h, KvView).
STRATA_DEVICE float store_codes(const float* x, int8_t* codes) {
  float amax = 0.0f;
  float poison = 0.0f;  // NaN when a value is not finite
  for (int i = 0; i < backend::kKvGroup; ++i) {
    amax = numeric::max(amax, x[i] < 0.0f ? -x[i] : x[i]);
    poison += x[i] * 0.0f;
  }
  const float scale = poison == 0.0f ? amax / 127.0f : quant::float_from_bits(0x7FC00000u);
  const float divisor = scale > 0.0f ? scale : 1.0f;
  for (int i = 0; i < backend::kKvGroup; ++i) {
    const float rounded = numeric::round_even(x[i] / divisor);
    codes[i] = static_cast<int8_t>(
        static_cast<int32_t>(numeric::min(numeric::max(rounded, -127.0f), 127.0f)));
  }
  return scale;
}

}  // namespace strata::gpu
