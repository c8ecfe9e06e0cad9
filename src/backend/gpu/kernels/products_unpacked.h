// Products of very many activation rows with quantised weights, in two launches: UnpackRows brings
// weight rows into the form that the matrix unit reads, MatmulUnpacked multiplies. Weights are then
// unpacked once for all activation rows instead of once per tile of them.
//
// The form does not depend on the weight type, only on which tables (products_terms.h) it fills.
#pragma once

#include <type_traits>

#include "backend/gpu/kernels/products_packed_units.h"
#include "backend/gpu/kernels/products_terms.h"

namespace strata::gpu {

template <class Arch, class Q>
struct UnpackRows {
  using U = Unpack<Q>;
  using Params = UnpackRowsParams;

  static constexpr int kThreads = 256;
  static constexpr int kTileN = kThreads / kSegmentGroups;  // weight rows of a block
  static constexpr int kPitch = align16(kSegmentBytes<Q>) + 16;
  static constexpr int kSharedBytes = kTileN * kPitch;
  static constexpr int kBlockGroups = Q::kElems / quant::kGroupElems;

  // Grid: segments, tiles of weight rows.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int segment = t.block_x();
    const int row0 = t.block_y() * kTileN;
    const auto begin_of = [&](int row) {
      return p.data + static_cast<int64_t>(row < p.rows ? row : 0) * p.row_bytes +
             static_cast<int64_t>(segment) * kSegmentBytes<Q>;
    };
    const auto shift_of = [](const uint8_t* begin) {
      return static_cast<int>(reinterpret_cast<uintptr_t>(begin) & 15u);
    };
    uint8_t* raw = t.shared<uint8_t>(0);
    constexpr int kPieces = kPitch / 16;
    for (int i = t.index(); i < kTileN * kPieces; i += kThreads) {
      const int row = i / kPieces, at = i % kPieces * 16;
      const uint8_t* begin = begin_of(row0 + row);
      const uint8_t* from = begin - shift_of(begin) + at;
      if (from < p.end) copy_weights16(t, raw + row * kPitch + at, from, p.end);
    }
    t.copy_async_commit();
    t.template copy_async_wait<0>();
    t.sync();

    const int row = t.index() / kSegmentGroups, group = t.index() % kSegmentGroups;
    WeightGroup g{};
    // Groups past the end of a row and rows past the matrix add nothing: their factors are zero.
    if (segment * kSegmentGroups + group < p.groups && row0 + row < p.rows) {
      U::group(
          raw + row * kPitch + shift_of(begin_of(row0 + row)) + group / kBlockGroups * Q::kBytes,
          group % kBlockGroups, g);
    }
    const UnpackedPlace at(p.segments, p.out.tile_rows, row0 + row,
                           segment * kSegmentGroups + group);
    uint8_t* to = p.out.codes + at.codes(packed_row(at.in_tile));
    store_as(to, Vec4{g.q[0], g.q[1], g.q[2], g.q[3]});
    store_as(to + at.piece_bytes(), Vec4{g.q[4], g.q[5], g.q[6], g.q[7]});
    using Tables = TablesOf<Q>;
    Tables::store(g, p.out.tables + at.table(Tables::kCount), at.table_floats());
  }
};

template <class Arch, class Tables, class Unit>
struct MatmulUnpacked {
  using Params = MatmulUnpackedParams;

  static constexpr int kThreads = Unit::kThreads;
  static constexpr int kTileM = Unit::kTileM;
  static constexpr int kTileN = Unit::kTileN;
  static constexpr bool kMin = Tables::kMin;

  // A stage of shared memory: what a block reads of one or two halves of a segment, as it lies in
  // memory.
  static constexpr int kHalves = Unit::kGroups / kHalfGroups;
  static constexpr int kXBytes = kHalves * kTileM * kHalfElems;
  static constexpr int kWBytes = kHalves * kTileN * kHalfElems;
  static constexpr int kMetaBytes = kHalves * kTileM * kHalfGroups * 4;
  static constexpr int kTableFloats = kHalfGroups * kTileN;
  static constexpr int kTableBytes = kHalves * Tables::kCount * kTableFloats * 4;
  static constexpr int kOffsetW = kXBytes;
  static constexpr int kOffsetScale = kOffsetW + kWBytes;
  static constexpr int kOffsetSums = kOffsetScale + kMetaBytes;
  static constexpr int kOffsetTables = kOffsetSums + (kMin ? kMetaBytes : 0);
  static constexpr int kStageBytes = kOffsetTables + kTableBytes;
  static constexpr int kRoom = Arch::kSharedBytes / Unit::kLeastBlocks - 1024;
  static constexpr int kStages = kRoom / kStageBytes < 4 ? kRoom / kStageBytes : 4;
  static constexpr int kLeastBlocks = Unit::kLeastBlocks;
  // Where the group copies in bulk: a barrier per stage.
  static constexpr int kOffsetBarriers = kStages * kStageBytes;
  static constexpr int kSharedBytes =
      kOffsetBarriers + (Arch::kBulkCopy ? align16(8 * kStages) : 0);
  static_assert(kStages >= 2);

  static constexpr int kMs = Unit::kRowTiles * Unit::kRows;
  static constexpr int kNs = Unit::kColumnTiles * Unit::kColumns;

  // Of the block, in stage 0; what belongs to the next ones follows.
  struct Source {
    const uint8_t* x;
    const uint8_t* w;
    const uint8_t* x_scale;
    const uint8_t* x_sums;
    const uint8_t* tables;
  };

  template <int kBytes>
  STRATA_DEVICE static void copy_pieces(const Thread& t, int to, const uint8_t* from) {
    STRATA_UNROLL for (int i = 0; i < kBytes; i += 16 * kThreads) {
      const int at = i + 16 * t.index();
      if (kBytes % (16 * kThreads) == 0 || at < kBytes) t.copy_async16(to + at, from + at);
    }
  }
  // Begins to bring `turn` into `stage`.
  STRATA_DEVICE static void copy(const Thread& t, const Source& s, int64_t turn, int stage) {
    const int to = stage * kStageBytes;
    const uint8_t* x = s.x + turn * kXBytes;
    const uint8_t* w = s.w + turn * kWBytes;
    const uint8_t* x_scale = s.x_scale + turn * kMetaBytes;
    const uint8_t* x_sums = s.x_sums + turn * kMetaBytes;
    const uint8_t* tables = s.tables + turn * kTableBytes;
    if constexpr (Arch::kBulkCopy) {
      if (t.index() != 0) return;
      const int barrier = kOffsetBarriers + 8 * stage;
      t.bulk_begin(barrier, kStageBytes);
      t.bulk_copy(to, x, kXBytes, barrier);
      t.bulk_copy(to + kOffsetW, w, kWBytes, barrier);
      t.bulk_copy(to + kOffsetScale, x_scale, kMetaBytes, barrier);
      if constexpr (kMin) t.bulk_copy(to + kOffsetSums, x_sums, kMetaBytes, barrier);
      t.bulk_copy(to + kOffsetTables, tables, kTableBytes, barrier);
    } else {
      copy_pieces<kXBytes>(t, to, x);
      copy_pieces<kWBytes>(t, to + kOffsetW, w);
      copy_pieces<kMetaBytes>(t, to + kOffsetScale, x_scale);
      if constexpr (kMin) copy_pieces<kMetaBytes>(t, to + kOffsetSums, x_sums);
      copy_pieces<kTableBytes>(t, to + kOffsetTables, tables);
    }
  }
  STRATA_DEVICE static void commit(const Thread& t) {
    if constexpr (Arch::kBulkCopy) {
      t.bulk_commit();
    } else {
      t.copy_async_commit();
    }
  }
  // Until `stage` is here, which has been filled `phase` + 1 times, modulo 2.
  STRATA_DEVICE static void wait(const Thread& t, int stage, int phase) {
    if constexpr (Arch::kBulkCopy) {
      t.template bulk_wait<kStages - 2>(kOffsetBarriers + 8 * stage, phase);
    } else {
      t.template copy_async_wait<kStages - 2>();
    }
  }

  // Gives the sinks of the groups of the stage at `stage`. A stage that is a whole segment begins
  // its sums.
  struct MakeSink {
    const Thread& t;
    const uint8_t* stage;
    float (&segment)[kMs][kNs];

    STRATA_DEVICE int row(int m) const { return Unit::row(t, m / Unit::kRows, m % Unit::kRows); }
    template <bool kBegins>
    STRATA_DEVICE auto sink(int g) const {
      const int half = g / kHalfGroups, in_half = g % kHalfGroups;
      const uint8_t* tables = stage + kOffsetTables + half * (kTableBytes / kHalves);
      TermSink<Tables, Unit, kTableFloats, kBegins> out(
          t, reinterpret_cast<const float*>(tables) + in_half * kTileN, segment);
      STRATA_UNROLL for (int m = 0; m < kMs; ++m) {
        const int at = (half * kTileM + row(m)) * 16 + in_half * 4;
        out.x_scale[m] = load_as<float>(stage + kOffsetScale + at);
        out.set_sums(m, stage + kOffsetSums + at);
      }
      return out;
    }
    STRATA_DEVICE auto first() const { return sink<kHalves == 2>(0); }
    STRATA_DEVICE auto next(int g) const { return sink<false>(g); }
  };

  // Grid: tiles of activation rows, tiles of weight rows.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int first_x = t.block_x() * kTileM, first_w = t.block_y() * kTileN;
    const int turns = 2 / kHalves * p.segments;
    const int64_t x_turns = static_cast<int64_t>(t.block_x()) * turns;
    const int64_t w_turns = static_cast<int64_t>(t.block_y()) * turns;
    const Source s{.x = p.x.q + x_turns * kXBytes,
                   .w = p.w.codes + w_turns * kWBytes,
                   .x_scale = reinterpret_cast<const uint8_t*>(p.x.scale) + x_turns * kMetaBytes,
                   .x_sums = reinterpret_cast<const uint8_t*>(p.x.sums) + x_turns * kMetaBytes,
                   .tables = reinterpret_cast<const uint8_t*>(p.w.tables) + w_turns * kTableBytes};
    if constexpr (Arch::kBulkCopy) {
      if (t.index() < kStages) t.bulk_init(kOffsetBarriers + 8 * t.index());
      t.sync();
    }
    STRATA_UNROLL for (int i = 0; i + 1 < kStages; ++i) {
      if (i < turns) copy(t, s, i, i);
      commit(t);
    }
    float total[kMs][kNs], segment[kMs][kNs];
    STRATA_UNROLL for (int i = 0; i < kMs; ++i) {
      STRATA_UNROLL for (int j = 0; j < kNs; ++j) total[i][j] = segment[i][j] = 0.0f;
    }
    int stage = 0, phase = 0;
    for (int turn = 0; turn < turns; ++turn) {
      wait(t, stage, phase);
      t.sync();  // the stage before this one is free
      const int ahead = turn + kStages - 1;
      if (ahead < turns) copy(t, s, ahead, stage == 0 ? kStages - 1 : stage - 1);
      commit(t);
      const int at = stage * kStageBytes;
      Unit::template stage<Tables::kHalves>(t, at, at + kOffsetW,
                                            MakeSink{t, t.shared<uint8_t>(at), segment});
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
      if (kHalves == 2 || turn % 2 == 1) {
        STRATA_UNROLL for (int i = 0; i < kMs; ++i) {
          STRATA_UNROLL for (int j = 0; j < kNs; ++j) {
            total[i][j] += segment[i][j];
            if constexpr (kHalves == 1) segment[i][j] = 0.0f;
          }
        }
      }
    }

    // A piece of columns is stored at once where it is whole.
    const bool whole = p.n % Unit::kColumns == 0 && p.y_stride % Unit::kColumns == 0 &&
                       reinterpret_cast<uintptr_t>(p.y) % 16 == 0;
    STRATA_UNROLL for (int m = 0; m < kMs; ++m) {
      const int row = first_x + Unit::row(t, m / Unit::kRows, m % Unit::kRows);
      if (row >= p.rows) continue;
      float* y = p.y + row * p.y_stride + first_w;
      STRATA_UNROLL for (int j = 0; j < Unit::kColumnTiles; ++j) {
        static_assert(Unit::kColumns == 4 && Unit::kAdjacent);
        float out[4];
        STRATA_UNROLL for (int c = 0; c < 4; ++c) out[c] = total[m][4 * j + c] * p.factor();
        const int column = Unit::column(t, j, 0);
        if (first_w + column >= p.n) continue;
        if (whole) {
          store_as(y + column,
                   Vec4{quant::bits_from_float(out[0]), quant::bits_from_float(out[1]),
                        quant::bits_from_float(out[2]), quant::bits_from_float(out[3])});
        } else {
          STRATA_UNROLL for (int c = 0; c < 4; ++c) {
            if (first_w + column + c < p.n) y[column + c] = out[c];
          }
        }
      }
    }
  }
};

}  // namespace strata::gpu
