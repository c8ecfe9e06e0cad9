// What multiplies inside a tile of MatmulUnpacked, as products_units.h does for the other tiles.
// The operands of a stage, kGroups groups of 32, stand in shared memory in pieces of 16 bytes of k:
//   x  [2 * kGroups, kTileM, 16], w  [2 * kGroups, kTileN, 16], rows in the order of packed_row()
// stage() computes the sums of its groups:
//   sink = make_sink.first(), make_sink.next(g)   before the results of group 0, of group g
//   sink.columns(j), sink.add(...)     as products_units.h says
#pragma once

#include "backend/gpu/kernels/products_units.h"

namespace strata::gpu {

// mma.sync. Waves in kWavesM x kWavesN, each with kRowTiles_ tiles of 16 rows and kPairs tiles of
// 16 columns.
template <int kWavesM, int kWavesN, int kRowTiles_, int kPairs, int kLeastBlocks_, int kGroups_>
struct PackedMmaUnit {
  static constexpr int kLeastBlocks = kLeastBlocks_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kThreads = 32 * kWavesM * kWavesN;
  static constexpr int kRowTiles = kRowTiles_, kColumnTiles = kPairs;
  static constexpr int kRows = 2, kColumns = 4;
  static constexpr bool kAdjacent = true;
  static constexpr int kTileM = kWavesM * kRowTiles * 16;
  static constexpr int kTileN = kWavesN * kPairs * 16;

  STRATA_DEVICE static int row_base(const Thread& t) { return t.wave() / kWavesN * kRowTiles * 16; }
  STRATA_DEVICE static int column_base(const Thread& t) { return t.wave() % kWavesN * kPairs * 16; }
  STRATA_DEVICE static int row(const Thread& t, int i, int r) {
    return row_base(t) + 16 * i + 8 * r + t.lane() / 4;
  }
  STRATA_DEVICE static int column(const Thread& t, int j, int c) {
    return column_base(t) + 16 * j + t.lane() % 4 * 4 + c;
  }

  template <bool kHalves, class MakeSink>
  STRATA_DEVICE static void stage(const Thread& t, int x_offset, int w_offset,
                                  const MakeSink& make_sink) {
    const uint8_t* x = t.shared<uint8_t>(x_offset + row_base(t) * 16);
    const uint8_t* w = t.shared<uint8_t>(w_offset + column_base(t) * 16);
    const auto group = [&](auto sink, int g) {
      uint32_t a[kRowTiles][4];
      STRATA_UNROLL for (int i = 0; i < kRowTiles; ++i) {
        load_mma_a(t, x + (2 * g * kTileM + 16 * i) * 16, 16, kTileM * 16, a[i]);
      }
      STRATA_UNROLL for (int j = 0; j < kPairs; ++j) {
        uint32_t b[4];
        load_mma_b(t, w + (2 * g * kTileN + 16 * j) * 16, 16, kTileN * 16, b);
        sink.columns(j);
        STRATA_UNROLL for (int i = 0; i < kRowTiles; ++i) {
          STRATA_UNROLL for (int tile = 0; tile < 2; ++tile) {
            int low[4], high[4];
            if constexpr (kHalves) {
              mma_s8_16x8x16(t, {a[i][0], a[i][1]}, b[2 * tile], low);
              mma_s8_16x8x16(t, {a[i][2], a[i][3]}, b[2 * tile + 1], high);
            } else {
              mma_s8_16x8x32(t, a[i], {b[2 * tile], b[2 * tile + 1]}, low);
            }
            STRATA_UNROLL for (int k = 0; k < 4; ++k) {
              sink.add(i, j, k / 2, 2 * tile + k % 2, static_cast<float>(low[k]),
                       kHalves ? static_cast<float>(high[k]) : 0.0f);
            }
          }
        }
      }
    };
    group(make_sink.first(), 0);
    STRATA_UNROLL for (int g = 1; g < kGroups; ++g) group(make_sink.next(g), g);
  }
};

// wgmma: a warpgroup of four waves multiplies 64 rows at once, out of shared memory and beside the
// float work.
template <int kWarpgroups, int kLeastBlocks_, int kGroups_>
struct PackedWgmmaUnit {
  static constexpr int kLeastBlocks = kLeastBlocks_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kThreads = 128 * kWarpgroups;
  static constexpr int kTileM = 64 * kWarpgroups, kTileN = 128;
  static constexpr int kRowTiles = 1, kColumnTiles = kTileN / 16;
  static constexpr int kRows = 2, kColumns = 4;
  static constexpr bool kAdjacent = true;

  STRATA_DEVICE static int row(const Thread& t, int, int r) {
    return 16 * t.wave() + 8 * r + t.lane() / 4;
  }
  STRATA_DEVICE static int column(const Thread& t, int j, int c) {
    return 16 * j + t.lane() % 4 * 4 + c;
  }

  template <bool kHalves, class MakeSink>
  STRATA_DEVICE static void stage(const Thread& t, int x_offset, int w_offset,
                                  const MakeSink& make_sink) {
    static_assert(!kHalves);  // the instruction knows no k of 16
    constexpr int kN = 64;    // columns of an instruction
    constexpr int kPhases = kTileN / kN;
    constexpr int kSteps = kGroups * kPhases;
    constexpr int kNextX = kTileM * 16, kNextW = kTileN * 16;
    // One product is under way while the results of the one before are added.
    int sums[2][kN / 2];
    const int x = x_offset + t.wave() / 4 * 64 * 16;
    const auto begin = [&](int step) {
      const int g = step / kPhases, phase = step % kPhases;
      t.warpgroup_fence();
      warpgroup_product_s8(t, {x + 2 * g * kNextX, kNextX},
                           {w_offset + 2 * g * kNextW + phase * kN * 16, kNextW}, sums[step % 2]);
      t.warpgroup_commit();
    };
    begin(0);
    begin(1);
    const auto group = [&](auto sink, int g) {
      STRATA_UNROLL for (int phase = 0; phase < kPhases; ++phase) {
        const int step = g * kPhases + phase;
        if (step + 1 < kSteps) {
          warpgroup_wait<1>(t, sums[step % 2]);
        } else {
          warpgroup_wait<0>(t, sums[step % 2]);
        }
        STRATA_UNROLL for (int i = 0; i < kN / 16; ++i) {
          const int j = phase * (kN / 16) + i;
          sink.columns(j);
          STRATA_UNROLL for (int k = 0; k < 8; ++k) {  // two tiles of four results
            sink.add(0, j, k % 4 / 2, k / 4 * 2 + k % 2,
                     static_cast<float>(sums[step % 2][8 * i + k]), 0.0f);
          }
        }
        if (step + 2 < kSteps) begin(step + 2);
      }
    };
    group(make_sink.first(), 0);
    STRATA_UNROLL for (int g = 1; g < kGroups; ++g) group(make_sink.next(g), g);
  }
};

// The unit of a group for weights with such tables: what was fastest, and for groups that were not
// measured what their shared memory holds.
template <class Arch, bool kHalves, int kTables>
struct PackedUnit {
  using Type = PackedMmaUnit<4, 2, 2, 2, 1, 4>;  // 128 x 64
};
template <>
struct PackedUnit<arch::Sm90, false, 1> {
  using Type = PackedWgmmaUnit<1, 2, 8>;
};
template <int kTables>
struct PackedUnit<arch::Sm90, false, kTables> {
  using Type = PackedWgmmaUnit<2, 1, 8>;
};
template <int kTables>
struct PackedUnit<arch::Sm90, true, kTables> {
  using Type = PackedMmaUnit<2, 4, 4, 2, 1, 8>;  // 128 x 128
};

}  // namespace strata::gpu
