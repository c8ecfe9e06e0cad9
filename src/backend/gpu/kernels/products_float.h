// Products with F32, F16 and BF16 weights: 16 strided sums per result (docs/ARITHMETIC.md), which
// are the lanes of half a wave.
#pragma once

#include "backend/gpu/kernels/lanes.h"
#include "backend/gpu/kernels/products.h"
#include "format/quant/types.h"

namespace strata::gpu {

// A weight of two bytes.
template <class Q>
STRATA_DEVICE float widen(uint32_t bits) {
  if constexpr (std::is_same_v<Q, quant::F16>) {
    return widen_half(bits);
  } else {
    return quant::float_from_bits(bits << 16);
  }
}

// Few activation rows: a half wave forms the results of kRows activation rows by kColumns weight rows.
template <class Arch, class Q, int kRows, int kColumns>
struct MatmulFloat {
  using Params = FloatProductParams;
  static constexpr int kThreads = 128;
  static constexpr int kHalfWaves = kThreads / kFloatLanes;
  static constexpr int kTileM = kRows;
  static constexpr int kTileN = kHalfWaves * kColumns;
  static constexpr int kAhead = kRows * kColumns > 1 ? 2 : 8;  // steps of 16 values read at once

  STRATA_DEVICE static float weight(const uint8_t* row, int64_t i) {
    if constexpr (std::is_same_v<Q, quant::F32>) {
      return load_as<float>(row + 4 * i);
    } else {
      return widen<Q>(load_as<uint16_t>(row + 2 * i));
    }
  }

  template <int kSteps>
  STRATA_DEVICE static void add(const uint8_t* const (&w)[kColumns], const float* const (&x)[kRows],
                                int i, float (&sum)[kRows][kColumns]) {
    float a[kSteps][kColumns], b[kSteps][kRows];
    STRATA_UNROLL for (int s = 0; s < kSteps; ++s) {
      STRATA_UNROLL for (int c = 0; c < kColumns; ++c) a[s][c] = weight(w[c], i + s * kFloatLanes);
      STRATA_UNROLL for (int r = 0; r < kRows; ++r) b[s][r] = x[r][i + s * kFloatLanes];
    }
    STRATA_UNROLL for (int s = 0; s < kSteps; ++s) {
      STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
        STRATA_UNROLL for (int c = 0; c < kColumns; ++c) {
          sum[r][c] = numeric::fma(a[s][c], b[s][r], sum[r][c]);
        }
      }
    }
  }

  // Grid: tiles of weight rows of all matrices, tiles of activation rows.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const RowTile tile = p.map.tile<kTileM>(t.block_y());
    if (tile.count == 0) return;  // the same for the whole block
    const MatrixRef& m = matrix_at(p.matrices, p.count, t.block_x());
    const int first = (t.block_x() - m.first_block) * kTileN + t.index() / kFloatLanes * kColumns;
    const uint8_t* data = m.data + tile.expert * m.expert_bytes;

    const uint8_t* w[kColumns];
    STRATA_UNROLL for (int c = 0; c < kColumns; ++c) {
      w[c] = data + (first + c < m.n ? first + c : m.n - 1) * p.row_bytes;
    }
    const float* x[kRows];
    int y_row[kRows];
    STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
      y_row[r] = p.map.y_row(tile.first + (r < tile.count ? r : 0));
      x[r] = p.x + p.map.x_row(y_row[r]) * p.x_stride;
    }
    float sum[kRows][kColumns];
    STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
      STRATA_UNROLL for (int c = 0; c < kColumns; ++c) sum[r][c] = 0.0f;
    }
    int i = t.lane() % kFloatLanes;
    for (; i + (kAhead - 1) * kFloatLanes < p.k; i += kAhead * kFloatLanes) {
      add<kAhead>(w, x, i, sum);
    }
    for (; i < p.k; i += kFloatLanes) add<1>(w, x, i, sum);

    const float factor = m.factor(tile.expert);
    STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
      STRATA_UNROLL for (int c = 0; c < kColumns; ++c) {
        const float total = fold_lanes(t, sum[r][c]);
        if (t.lane() % kFloatLanes == 0 && r < tile.count && first + c < m.n) {
          m.y[y_row[r] * m.y_stride + first + c] = total * factor;
        }
      }
    }
  }
};

// Many activation rows: tiles in shared memory. Four threads share a result, four of its sums each
// (QuadSums), and have 4 x 4 results together.
template <class Arch, class Q>
struct MatmulFloatTile {
  using Params = FloatProductParams;
  static constexpr int kThreads = 256;
  static constexpr int kLeastBlocks = 2;
  static constexpr int kEach = 4;         // rows, and columns, of four threads
  static constexpr int kRowQuads = 4;     // of a wave
  static constexpr int kColumnQuads = 2;
  static constexpr int kRowWaves = 2;
  static constexpr int kColumnWaves = 4;
  static constexpr int kTileM = kRowWaves * kRowQuads * kEach;
  static constexpr int kTileN = kColumnWaves * kColumnQuads * kEach;
  static constexpr int kStages = Arch::kAsyncCopy ? 3 : 1;
  static constexpr int kStep = 64;  // values of k in a stage
  // Pitches that put neighbouring rows into different banks.
  static constexpr int kPitchX = kStep * 4 + 64;
  static constexpr int kPitchW = kStep * Q::kBytes + 32;
  static constexpr int kStageBytes = kTileM * kPitchX + kTileN * kPitchW;
  static constexpr int kSharedBytes = kStages * kStageBytes;

  struct Block {
    const uint8_t* w;  // of the expert's first weight row
    int n, first;      // weight rows, and the block's first
    bool x_aligned, w_aligned;
  };

  // Past the end of a row a weight is 0 and an activation -0: the sums keep even their signs.
  STRATA_DEVICE static void copy_step(const Thread& t, const Params& p, const Block& b,
                                      const RowTile& tile, int step, uint8_t* stage) {
    const int begin = step * kStep;
    constexpr int kXPieces = kStep / 4;
    for (int i = t.index(); i < kTileM * kXPieces; i += kThreads) {
      const int r = i / kXPieces;
      const int at = begin + i % kXPieces * 4;
      const float* x =
          p.x + p.map.x_row(p.map.y_row(tile.first + (r < tile.count ? r : 0))) * p.x_stride;
      uint8_t* to = stage + r * kPitchX + i % kXPieces * 16;
      if (b.x_aligned && at + 4 <= p.k) {
        t.copy_async16(to, x + at);
      } else {
        for (int e = 0; e < 4; ++e) store_as(to + 4 * e, at + e < p.k ? x[at + e] : -0.0f);
      }
    }
    constexpr int kValues = 16 / Q::kBytes;
    constexpr int kWPieces = kStep / kValues;
    for (int i = t.index(); i < kTileN * kWPieces; i += kThreads) {
      const int c = i / kWPieces;
      const int at = begin + i % kWPieces * kValues;
      const int row = b.first + c < b.n ? b.first + c : b.n - 1;
      const uint8_t* w = b.w + row * p.row_bytes;
      uint8_t* to = stage + kTileM * kPitchX + c * kPitchW + i % kWPieces * 16;
      if (b.w_aligned && at + kValues <= p.k) {
        t.copy_async16(to, w + static_cast<int64_t>(at) * Q::kBytes);
      } else {
        for (int e = 0; e < kValues * Q::kBytes; ++e) {
          const int64_t from = static_cast<int64_t>(at) * Q::kBytes + e;
          to[e] = from < p.row_bytes ? w[from] : uint8_t{0};
        }
      }
    }
  }

  STRATA_DEVICE static Float4 load_weights(const uint8_t* p) {
    if constexpr (std::is_same_v<Q, quant::F32>) {
      return load_as<Float4>(p);
    } else {
      const auto v = load_as<Vec2>(p);
      return {{widen<Q>(v.x & 0xffffu), widen<Q>(v.x >> 16), widen<Q>(v.y & 0xffffu),
               widen<Q>(v.y >> 16)}};
    }
  }

  // Grid: tiles of weight rows of all matrices, tiles of activation rows.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const RowTile tile = p.map.tile<kTileM>(t.block_y());
    if (tile.count == 0) return;  // the same for the whole block
    const MatrixRef& m = matrix_at(p.matrices, p.count, t.block_x());
    const auto aligned = [](const void* a, int64_t stride) {
      return reinterpret_cast<uintptr_t>(a) % 16 == 0 && stride % 16 == 0;
    };
    Block b;
    b.w = m.data + tile.expert * m.expert_bytes;
    b.n = m.n;
    b.first = (t.block_x() - m.first_block) * kTileN;
    b.x_aligned = aligned(p.x, 4 * p.x_stride);
    b.w_aligned = aligned(b.w, p.row_bytes);

    const int quad = t.lane() / 4;
    const int part = t.lane() % 4;
    // Rows r, columns c of four threads are kRowQuads and kColumnQuads apart.
    const int row = t.wave() / kColumnWaves * kRowQuads * kEach + quad % kRowQuads;
    const int column = t.wave() % kColumnWaves * kColumnQuads * kEach + quad / kRowQuads;
    QuadSums<kEach, kEach> sums;
    sums.clear();

    const int steps = (p.k + kStep - 1) / kStep;
    STRATA_UNROLL for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps) copy_step(t, p, b, tile, s, t.shared<uint8_t>(s * kStageBytes));
      t.copy_async_commit();
    }
    int stage = 0;
    for (int s = 0; s < steps; ++s) {
      if constexpr (kStages == 1) {
        copy_step(t, p, b, tile, s, t.shared<uint8_t>(0));
        t.copy_async_commit();
      }
      t.template copy_async_wait<(kStages > 1 ? kStages - 2 : 0)>();
      t.sync();
      if constexpr (kStages > 1) {
        const int free = stage == 0 ? kStages - 1 : stage - 1;
        if (s + kStages - 1 < steps) {
          copy_step(t, p, b, tile, s + kStages - 1, t.shared<uint8_t>(free * kStageBytes));
        }
        t.copy_async_commit();
      }
      const uint8_t* x = t.shared<uint8_t>(stage * kStageBytes) + row * kPitchX + 16 * part;
      const uint8_t* w = t.shared<uint8_t>(stage * kStageBytes) + kTileM * kPitchX +
                         column * kPitchW + 4 * Q::kBytes * part;
      STRATA_UNROLL for (int k = 0; k < kStep / kFloatLanes; ++k) {
        Float4 weights[kEach];
        STRATA_UNROLL for (int c = 0; c < kEach; ++c) {
          weights[c] =
              load_weights(w + c * kColumnQuads * kPitchW + k * kFloatLanes * Q::kBytes);
        }
        STRATA_UNROLL for (int r = 0; r < kEach; ++r) {
          const auto values =
              load_as<Float4>(x + r * kRowQuads * kPitchX + k * kFloatLanes * 4);
          STRATA_UNROLL for (int c = 0; c < kEach; ++c) sums.add(r, c, values, weights[c].v);
        }
      }
      if constexpr (kStages == 1) t.sync();
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }

    float total[kEach];
    sums.fold(t, total);
    const int own = row + kRowQuads * part;
    if (own >= tile.count) return;
    const float factor = m.factor(tile.expert);
    float* y = m.y + p.map.y_row(tile.first + own) * m.y_stride + b.first;
    STRATA_UNROLL for (int c = 0; c < kEach; ++c) {
      const int at = column + c * kColumnQuads;
      if (b.first + at < m.n) y[at] = total[c] * factor;
    }
  }
};

}  // namespace strata::gpu
