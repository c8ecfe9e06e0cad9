// Products of many activation rows with quantised weights: tiles of activation rows by weight rows.
//
// K is taken a segment at a time. A segment's weight blocks come into shared memory as they lie in
// the matrix and are unpacked there once for all rows of the tile; activations come in halves of a
// segment, a half ahead. The unit (products_units.h) forms the exact sums of a group, which then
// enter float sums in the order of docs/ARITHMETIC.md. Where shared memory allows, the next segment
// is unpacked beside the products of this one.
#pragma once

#include "backend/gpu/kernels/products_terms.h"
#include "backend/gpu/kernels/products_units.h"

namespace strata::gpu {

template <class Arch, class Q, class Unit>
struct MatmulTile {
  using U = Unpack<Q>;
  using Params = ProductParams;

  static constexpr int kThreads = Unit::kThreads;
  // Small tiles hide latencies with other blocks.
  static constexpr int kLeastBlocks = kThreads < 256 ? 3 : 1;
  static constexpr int kTileM = Unit::kTileM;
  static constexpr int kTileN = Unit::kTileN;
  static constexpr int kBlockGroups = Q::kElems / quant::kGroupElems;

  using Tables = TablesOf<Q>;

  // Pitches that let the rows of an instruction's operand start 16 bytes apart modulo 128.
  static constexpr int kPitchX = kHalfElems + 16;
  static constexpr int kPitchW = kSegmentElems + 16;
  static constexpr int kPitchRaw = align16(kSegmentBytes<Q>) + 16;
  static constexpr int kPitchD = kTileN + 4;  // floats; one row per group

  static constexpr int kTableFloats = kSegmentGroups * kPitchD;

  static constexpr int kXBytes = kTileM * kPitchX;
  static constexpr int kMetaBytes = kTileM * kHalfGroups * 4;
  static constexpr int kStageBytes = kXBytes + (Tables::kMin ? 2 : 1) * kMetaBytes;
  static constexpr int kOffsetRaw = 2 * kStageBytes;
  static constexpr int kOffsetRows = kOffsetRaw + kTileN * kPitchRaw;
  static constexpr int kOffsetOut = kOffsetRows + align16(2 * kTileM * 4);

  // What is needed when all is added up, kept out of the registers until then.
  struct alignas(16) Out {
    float* y;  // of the block's first weight row
    int64_t y_stride;
    float factor;
    int rows;  // of weights that exist
  };
  // Unpacked segments: codes, then tables.
  static constexpr int kOffsetUnpacked = kOffsetOut + static_cast<int>(sizeof(Out));
  static constexpr int kCodeBytes = kTileN * kPitchW;
  static constexpr int kUnpackedBytes = kCodeBytes + Tables::kCount * kTableFloats * 4;
  static constexpr int kBuffers =
      Arch::kAsyncCopy && kOffsetUnpacked + 2 * kUnpackedBytes <= Arch::kSharedBytes / kLeastBlocks
          ? 2
          : 1;
  static constexpr int kSharedBytes = kOffsetUnpacked + kBuffers * kUnpackedBytes;

  // What a thread copies again and again: pieces of one activation row and of one weight row.
  struct Block {
    static constexpr int kXThreads = kThreads / kTileM;  // per row
    static constexpr int kWThreads = kThreads / kTileN;
    static_assert(kThreads % kTileM == 0 && kThreads % kTileN == 0);

    const uint8_t* x;    // the thread's first piece of q
    const uint8_t* w;    // its weight row
    const uint8_t* end;  // of the matrix
    int x_segment;       // index of the row's first segment
    uint32_t w_base;     // of the block's first weight row, low bits of the address
    int rows;            // of weights that exist

    // Weight rows that do not exist repeat the first one; their results are not stored.
    STRATA_DEVICE int weight_row(int row) const { return row < rows ? row : 0; }
  };

  // Half `half` of segment `segment` of all activation rows.
  STRATA_DEVICE static void copy_x(const Thread& t, const Params& p, const Block& b, int segment,
                                   int half) {
    constexpr int kStep = 16 * Block::kXThreads;
    const int row = t.index() / Block::kXThreads;
    const int first = t.index() % Block::kXThreads * 16;
    uint8_t* stage = t.shared<uint8_t>(half * kStageBytes);
    uint8_t* to = stage + row * kPitchX + first;
    const uint8_t* from = b.x + segment * kSegmentElems + half * kHalfElems;
    STRATA_UNROLL for (int at = 0; at < kHalfElems; at += kStep) {
      t.copy_async16(to + at, from + at);
    }
    if (first == 0) {
      const int64_t at = (b.x_segment + segment) * kSegmentGroups + half * kHalfGroups;
      uint8_t* meta = stage + kXBytes + row * 16;
      t.copy_async16(meta, p.x.scale + at);
      if constexpr (Tables::kMin) t.copy_async16(meta + kMetaBytes, p.x.sums + at);
    }
  }

  STRATA_DEVICE static void copy_w(const Thread& t, const Block& b, int segment) {
    constexpr int kStep = 16 * Block::kWThreads;
    const uint8_t* begin = b.w + static_cast<int64_t>(segment) * kSegmentBytes<Q>;
    const int first = t.index() % Block::kWThreads * 16;
    const uint8_t* from =
        begin - (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(begin)) & 15u) + first;
    uint8_t* to = t.shared<uint8_t>(kOffsetRaw) + t.index() / Block::kWThreads * kPitchRaw + first;
    // A whole window, also past the segment, unless the matrix ends in it.
    if (from + kPitchRaw <= b.end) {
      STRATA_UNROLL for (int at = 0; at < kPitchRaw; at += kStep) {
        if (kPitchRaw % kStep == 0 || at + first < kPitchRaw) t.copy_async16(to + at, from + at);
      }
    } else {
      for (int at = 0; at + first < kPitchRaw; at += kStep) {
        copy_weights16(t, to + at, from + at, b.end);
      }
    }
  }

  STRATA_DEVICE static void unpack_w(const Thread& t, const Params& p, const Block& b,
                                     int segment) {
    const uint8_t* raw = t.shared<uint8_t>(kOffsetRaw);
    uint8_t* codes = t.shared<uint8_t>(kOffsetUnpacked + segment % kBuffers * kUnpackedBytes);
    auto* tables = reinterpret_cast<float*>(codes + kCodeBytes);
    const uint32_t base = b.w_base + static_cast<uint32_t>(segment) * kSegmentBytes<Q>;
    static_assert(kThreads % kSegmentGroups == 0);
    const int group = t.index() % kSegmentGroups;
    const bool active = segment * kSegmentGroups + group < p.groups;
    for (int row = t.index() / kSegmentGroups; row < kTileN; row += kThreads / kSegmentGroups) {
      WeightGroup g{};
      // Past the end of a row nothing is added, so its factors are zero.
      if (active) {
        const uint32_t shift = (base + static_cast<uint32_t>(b.weight_row(row)) *
                                           static_cast<uint32_t>(p.row_bytes)) & 15u;
        U::group(raw + row * kPitchRaw + shift + group / kBlockGroups * Q::kBytes,
                 group % kBlockGroups, g);
      }
      uint8_t* to = codes + row * kPitchW + group * quant::kGroupElems;
      store_as(to, Vec4{g.q[0], g.q[1], g.q[2], g.q[3]});
      store_as(to + 16, Vec4{g.q[4], g.q[5], g.q[6], g.q[7]});
      Tables::store(g, tables + group * kPitchD + row, kTableFloats);
    }
  }

  static constexpr int kMs = Unit::kRowTiles * Unit::kRows;
  static constexpr int kNs = Unit::kColumnTiles * Unit::kColumns;

  STRATA_DEVICE static void add_half(const Thread& t, int s, int half,
                                     float (&segment)[kMs][kNs]) {
    const uint8_t* stage = t.shared<uint8_t>(half * kStageBytes);
    const uint8_t* unpacked = t.shared<uint8_t>(kOffsetUnpacked + s % kBuffers * kUnpackedBytes);
    const uint8_t* codes = unpacked + half * kHalfElems;
    const float* tables =
        reinterpret_cast<const float*>(unpacked + kCodeBytes) + half * kHalfGroups * kPitchD;
    STRATA_ROLLED for (int g = 0; g < kHalfGroups; ++g) {
      TermSink<Tables, Unit, kTableFloats> sink(t, tables + g * kPitchD, segment);
      STRATA_UNROLL for (int m = 0; m < kMs; ++m) {
        const int row = Unit::row(t, m / Unit::kRows, m % Unit::kRows);
        const uint8_t* meta = stage + kXBytes + row * 16 + g * 4;
        sink.x_scale[m] = load_as<float>(meta);
        sink.set_sums(m, meta + kMetaBytes);
      }
      Unit::template products<Tables::kHalves>(t, stage + g * quant::kGroupElems, kPitchX,
                                       codes + g * quant::kGroupElems, kPitchW, sink);
    }
  }

  // Grid: tiles of activation rows, tiles of weight rows of all matrices.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const RowTile tile = p.map.tile<kTileM>(t.block_x());
    if (tile.count == 0) return;  // the same for the whole block
    const MatrixRef& m = matrix_at(p.matrices, p.count, t.block_y());
    const int first_row = (t.block_y() - m.first_block) * kTileN;
    const uint8_t* data = m.data + tile.expert * m.expert_bytes + first_row * p.row_bytes;

    int* x_rows = t.shared<int>(kOffsetRows);
    int* y_rows = x_rows + kTileM;
    for (int i = t.index(); i < kTileM; i += kThreads) {
      // Rows that do not exist repeat one that does; their results are not stored.
      const int y_row = p.map.y_row(tile.first + (i < tile.count ? i : 0));
      x_rows[i] = p.map.x_row(y_row);
      y_rows[i] = i < tile.count ? y_row : -1;
    }
    if (t.index() == 0) {
      *t.shared<Out>(kOffsetOut) = {m.y + first_row, m.y_stride, m.factor(tile.expert),
                                    m.n - first_row};
    }
    t.sync();
    Block b;
    b.end = m.end;
    b.rows = m.n - first_row;
    b.w_base = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data));
    b.w = data + b.weight_row(t.index() / Block::kWThreads) * p.row_bytes;
    b.x_segment = x_rows[t.index() / Block::kXThreads] * p.segments;
    b.x = p.x.q + static_cast<int64_t>(b.x_segment) * kSegmentElems +
          t.index() % Block::kXThreads * 16;

    float total[kMs][kNs];
    STRATA_UNROLL for (int i = 0; i < kMs; ++i) {
      STRATA_UNROLL for (int j = 0; j < kNs; ++j) total[i][j] = 0.0f;
    }
    copy_w(t, b, 0);
    copy_x(t, p, b, 0, 0);
    t.copy_async_commit();
    t.template copy_async_wait<0>();
    t.sync();
    unpack_w(t, p, b, 0);
    for (int s = 0; s < p.segments; ++s) {
      const bool more = s + 1 < p.segments;
      float segment[kMs][kNs];
      STRATA_UNROLL for (int i = 0; i < kMs; ++i) {
        STRATA_UNROLL for (int j = 0; j < kNs; ++j) segment[i][j] = 0.0f;
      }
      t.template copy_async_wait<0>();
      t.sync();  // half 0 is here, the segment unpacked, stage 1 and the raw blocks free
      copy_x(t, p, b, s, 1);
      t.copy_async_commit();
      if (more) copy_w(t, b, s + 1);
      t.copy_async_commit();
      add_half(t, s, 0, segment);
      t.template copy_async_wait<0>();
      t.sync();  // half 1 and the raw blocks are here, stage 0 free
      if (more) copy_x(t, p, b, s + 1, 0);
      t.copy_async_commit();
      // Half of the waves unpack first, half multiply first: each keeps busy what the other leaves.
      const bool unpack_first = kBuffers > 1 && t.wave() / 4 % 2 == 0;
      if (more && unpack_first) unpack_w(t, p, b, s + 1);
      if (s * kSegmentGroups + kHalfGroups < p.groups) add_half(t, s, 1, segment);
      if constexpr (kBuffers == 1) t.sync();
      if (more && !unpack_first) unpack_w(t, p, b, s + 1);
      STRATA_UNROLL for (int i = 0; i < kMs; ++i) {
        STRATA_UNROLL for (int j = 0; j < kNs; ++j) total[i][j] += segment[i][j];
      }
    }

    const Out out = *t.shared<Out>(kOffsetOut);
    STRATA_UNROLL for (int i = 0; i < kMs; ++i) {
      const int y_row = y_rows[Unit::row(t, i / Unit::kRows, i % Unit::kRows)];
      if (y_row < 0) continue;
      float* y = out.y + y_row * out.y_stride;
      STRATA_UNROLL for (int j = 0; j < kNs; ++j) {
        const int column = Unit::column(t, j / Unit::kColumns, j % Unit::kColumns);
        if (column < out.rows) y[column] = total[i][j] * out.factor;
      }
    }
  }
};

}  // namespace strata::gpu
