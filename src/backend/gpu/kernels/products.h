// What the kernels of matrix products share, and the rounding of their activations.
#pragma once

#include "backend/gpu/kernels/product_params.h"
#include "backend/gpu/prim/bytes.h"
#include "backend/numeric.h"

namespace strata::gpu {

STRATA_DEVICE int low_sum(uint32_t sums) { return static_cast<int16_t>(sums & 0xffffu); }
STRATA_DEVICE int high_sum(uint32_t sums) { return static_cast<int16_t>(sums >> 16); }

STRATA_DEVICE const MatrixRef& matrix_at(const MatrixRef (&matrices)[kMaxMatrices], int count,
                                         int block) {
  int found = 0;
  for (int i = 1; i < count; ++i) {
    if (block >= matrices[i].first_block) found = i;
  }
  return matrices[found];
}

// 16 bytes of a matrix into shared memory; what lies past the matrix is left out.
STRATA_DEVICE void copy_weights16(const Thread& t, uint8_t* to, const uint8_t* from,
                                  const uint8_t* end) {
  if (from + 16 <= end) {
    t.copy_async16(to, from);
  } else {
    for (int i = 0; from + i < end; ++i) to[i] = from[i];
  }
}

// Bytes of the blocks of a whole segment of a row.
template <class Q>
inline constexpr int kSegmentBytes = kSegmentElems / Q::kElems * Q::kBytes;

constexpr int align16(int bytes) { return (bytes + 15) / 16 * 16; }

// Rounds activation rows to int8 (docs/ARITHMETIC.md, step 1). Where `up` is given, the rows are
// silu(x) * up. Rows of the grid past `rows` become zeros.
template <class Arch>
struct QuantizeRows {
  static constexpr int kThreads = 256;
  static constexpr int kTileN = kThreads / 8;  // groups of a block
  using Params = QuantizeRowsParams;

  // Eight lanes share a group, a word each.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x() / p.pieces;
    const int group = t.block_x() % p.pieces * kTileN + t.index() / 8;
    const int word = t.lane() % 8;
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row < p.rows && group < p.groups) {
      const int64_t at = row * p.stride + group * quant::kGroupElems + 4 * word;
      STRATA_UNROLL for (int i = 0; i < 4; ++i) {
        x[i] = p.x[at + i];
        if (p.up != nullptr) x[i] = numeric::silu(x[i]) * p.up[at + i];
      }
    }
    float amax = 0.0f;
    float poison = 0.0f;  // NaN when any value is not finite
    STRATA_UNROLL for (int i = 0; i < 4; ++i) {
      amax = numeric::max(amax, x[i] < 0.0f ? -x[i] : x[i]);
      poison += x[i] * 0.0f;
    }
    STRATA_UNROLL for (int mask = 1; mask < 8; mask *= 2) {
      amax = numeric::max(amax, t.shuffle_xor(amax, mask));
      poison += t.shuffle_xor(poison, mask);
    }
    const float scale = amax / 127.0f + poison;
    const float divisor = scale > 0.0f ? scale : 1.0f;
    uint32_t codes = 0;
    int sum = 0;
    STRATA_UNROLL for (int i = 0; i < 4; ++i) {
      const float rounded = numeric::round_even(x[i] / divisor);
      const auto q = static_cast<int>(numeric::min(numeric::max(rounded, -127.0f), 127.0f));
      codes |= (static_cast<uint32_t>(q) & 0xffu) << 8 * i;
      sum += q;
    }
    sum += t.shuffle_xor(sum, 1);
    sum += t.shuffle_xor(sum, 2);
    const int other = t.shuffle_xor(sum, 4);
    if (group < p.padded) {
      int64_t at = row * p.padded + group;
      int64_t byte = at * quant::kGroupElems + 4 * word;
      if (p.tile_rows > 0) {
        const UnpackedPlace place(p.padded / kSegmentGroups, p.tile_rows, static_cast<int>(row),
                                  group);
        at = place.entry();
        byte = place.codes(place.in_tile) + word / 4 * place.piece_bytes() + word % 4 * 4;
      }
      store_as(p.out.q + byte, codes);
      if (word == 0) {
        p.out.scale[at] = scale;
        p.out.sums[at] = (static_cast<uint32_t>(sum) & 0xffffu) | static_cast<uint32_t>(other) << 16;
      }
    }
  }
};

}  // namespace strata::gpu
