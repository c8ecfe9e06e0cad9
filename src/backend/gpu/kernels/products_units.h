// What multiplies inside a tile of a product: the int8 dot products of one group of 32 between the
// activation rows and weight rows of a block, by the instructions that a group has.
//
// A unit divides a block of kTileM activation rows by kTileN weight rows among its threads. Each
// thread owns kRowTiles x kColumnTiles pieces of kRows x kColumns results; row() and column() say
// which; with kAdjacent, the columns of a piece are neighbours, the first a multiple of kColumns.
// products() computes the sums of one group for all of them:
//   sink.columns(j)                    before the results of column tile j
//   sink.add(i, j, r, c, low, high)    exact sums over both halves as floats; with kHalves false,
//                                      `low` is the whole
// The operands stand in shared memory in rows of 32 bytes, `pitch` apart and 16-aligned.
#pragma once

#include <type_traits>

#include "backend/gpu/arch/arch.h"
#include "backend/gpu/kernels/products.h"
#include "backend/gpu/prim/matrix.h"

namespace strata::gpu {

// dot4 alone: every group has it.
struct DotUnit {
  static constexpr int kThreads = 128;
  static constexpr int kTileM = 64;
  static constexpr int kTileN = 32;
  static constexpr int kRowTiles = 1, kColumnTiles = 1;
  static constexpr int kRows = 4, kColumns = 4;
  static constexpr bool kAdjacent = false;

  STRATA_DEVICE static int row(const Thread& t, int, int r) { return t.index() / 8 + 16 * r; }
  STRATA_DEVICE static int column(const Thread& t, int, int c) { return t.index() % 8 + 8 * c; }

  template <bool kHalves, class Sink>
  STRATA_DEVICE static void products(const Thread& t, const uint8_t* a, int a_pitch,
                                     const uint8_t* b, int b_pitch, Sink& sink) {
    sink.columns(0);
    int low[kRows][kColumns], high[kRows][kColumns];
    STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
      STRATA_UNROLL for (int c = 0; c < kColumns; ++c) low[r][c] = high[r][c] = 0;
    }
    STRATA_UNROLL for (int part = 0; part < 2; ++part) {
      Vec4 x[kRows];
      STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
        x[r] = load_as<Vec4>(a + row(t, 0, r) * a_pitch + 16 * part);
      }
      STRATA_UNROLL for (int c = 0; c < kColumns; ++c) {
        const auto w = load_as<Vec4>(b + column(t, 0, c) * b_pitch + 16 * part);
        STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
          int& sum = kHalves && part == 1 ? high[r][c] : low[r][c];
          sum = dot4(static_cast<int>(w.x), static_cast<int>(x[r].x), sum);
          sum = dot4(static_cast<int>(w.y), static_cast<int>(x[r].y), sum);
          sum = dot4(static_cast<int>(w.z), static_cast<int>(x[r].z), sum);
          sum = dot4(static_cast<int>(w.w), static_cast<int>(x[r].w), sum);
        }
      }
    }
    STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
      STRATA_UNROLL for (int c = 0; c < kColumns; ++c) {
        sink.add(0, 0, r, c, static_cast<float>(low[r][c]), static_cast<float>(high[r][c]));
      }
    }
  }
};

// Waves in kWavesM x kWavesN, each with kRowTiles x kColumnTiles instruction tiles.
template <class Layout, int kWavesM, int kWavesN, int kRowTiles_, int kColumnTiles_>
struct MatrixTiling {
  static constexpr int kThreads = 32 * kWavesM * kWavesN;
  static constexpr int kRowTiles = kRowTiles_, kColumnTiles = kColumnTiles_;
  static constexpr int kTileM = kWavesM * kRowTiles * Layout::kM;
  static constexpr int kTileN = kWavesN * kColumnTiles * Layout::kN;

  // First row and column of an instruction's tile.
  STRATA_DEVICE static int row_base(const Thread& t, int i) {
    return (t.wave() / kWavesN * kRowTiles + i) * Layout::kM;
  }
  STRATA_DEVICE static int column_base(const Thread& t, int j) {
    return (t.wave() % kWavesN * kColumnTiles + j) * Layout::kN;
  }
};

// mma.sync.
template <int kWavesM, int kWavesN, int kRowTiles_, int kColumnTiles_>
struct MmaUnit : MatrixTiling<matrix::MmaS8_16x8x32, kWavesM, kWavesN, kRowTiles_, kColumnTiles_> {
  using Layout = matrix::MmaS8_16x8x32;
  using Tiling = MatrixTiling<Layout, kWavesM, kWavesN, kRowTiles_, kColumnTiles_>;
  static constexpr int kRows = 2, kColumns = 2;
  static constexpr bool kAdjacent = true;

  STRATA_DEVICE static int row(const Thread& t, int i, int r) {
    return Tiling::row_base(t, i) + Layout::c_row(t.lane(), 2 * r);
  }
  STRATA_DEVICE static int column(const Thread& t, int j, int c) {
    return Tiling::column_base(t, j) + Layout::c_column(t.lane(), c);
  }

  template <bool kHalves, class Sink>
  STRATA_DEVICE static void products(const Thread& t, const uint8_t* a, int a_pitch,
                                     const uint8_t* b, int b_pitch, Sink& sink) {
    uint32_t x[kRowTiles_][4];
    STRATA_UNROLL for (int i = 0; i < kRowTiles_; ++i) {
      load_mma_a(t, a + Tiling::row_base(t, i) * a_pitch, a_pitch, 16, x[i]);
    }
    static_assert(kColumnTiles_ % 2 == 0);
    uint32_t w[4];
    STRATA_UNROLL for (int j = 0; j < kColumnTiles_; ++j) {
      if (j % 2 == 0) load_mma_b(t, b + Tiling::column_base(t, j) * b_pitch, b_pitch, 16, w);
      const uint32_t w0 = w[j % 2 * 2], w1 = w[j % 2 * 2 + 1];
      sink.columns(j);
      STRATA_UNROLL for (int i = 0; i < kRowTiles_; ++i) {
        int low[4], high[4];
        if constexpr (kHalves) {
          mma_s8_16x8x16(t, {x[i][0], x[i][1]}, w0, low);
          mma_s8_16x8x16(t, {x[i][2], x[i][3]}, w1, high);
        } else {
          mma_s8_16x8x32(t, x[i], {w0, w1}, low);
        }
        STRATA_UNROLL for (int k = 0; k < 4; ++k) {
          sink.add(i, j, k / 2, k % 2, static_cast<float>(low[k]), kHalves ? static_cast<float>(high[k]) : 0.0f);
        }
      }
    }
  }
};

// RDNA3: both halves of the wave hold the same 16 bytes of a row.
template <int kWavesM, int kWavesN, int kRowTiles_, int kColumnTiles_>
struct WmmaGfx11Unit
    : MatrixTiling<matrix::WmmaS8Gfx11, kWavesM, kWavesN, kRowTiles_, kColumnTiles_> {
  using Layout = matrix::WmmaS8Gfx11;
  using Tiling = MatrixTiling<Layout, kWavesM, kWavesN, kRowTiles_, kColumnTiles_>;
  static constexpr int kRows = 8, kColumns = 1;
  static constexpr bool kAdjacent = false;

  STRATA_DEVICE static int row(const Thread& t, int i, int r) {
    return Tiling::row_base(t, i) + Layout::c_row(t.lane(), r);
  }
  STRATA_DEVICE static int column(const Thread& t, int j, int) {
    return Tiling::column_base(t, j) + Layout::c_column(t.lane(), 0);
  }
  // The words of each half of the group at `p`.
  STRATA_DEVICE static void load(const uint8_t* p, uint32_t (&out)[2][4]) {
    STRATA_UNROLL for (int half = 0; half < 2; ++half) {
      const auto v = load_as<Vec4>(p + 16 * half);
      out[half][0] = v.x, out[half][1] = v.y, out[half][2] = v.z, out[half][3] = v.w;
    }
  }

  template <bool kHalves, class Sink>
  STRATA_DEVICE static void products(const Thread& t, const uint8_t* a, int a_pitch,
                                     const uint8_t* b, int b_pitch, Sink& sink) {
    uint32_t x[kRowTiles_][2][4];
    STRATA_UNROLL for (int i = 0; i < kRowTiles_; ++i) {
      load(a + (Tiling::row_base(t, i) + Layout::a_row(t.lane(), 0)) * a_pitch, x[i]);
    }
    STRATA_UNROLL for (int j = 0; j < kColumnTiles_; ++j) {
      uint32_t w[2][4];
      load(b + (Tiling::column_base(t, j) + Layout::b_column(t.lane())) * b_pitch, w);
      sink.columns(j);
      STRATA_UNROLL for (int i = 0; i < kRowTiles_; ++i) {
        int low[8], high[8];
        STRATA_UNROLL for (int k = 0; k < 8; ++k) low[k] = high[k] = 0;
        wmma_s8_gfx11(t, low, x[i][0], w[0]);
        wmma_s8_gfx11(t, kHalves ? high : low, x[i][1], w[1]);
        STRATA_UNROLL for (int k = 0; k < 8; ++k) {
          sink.add(i, j, k, 0, static_cast<float>(low[k]), static_cast<float>(high[k]));
        }
      }
    }
  }
};

// RDNA4: each half of the wave holds 8 of the 16 bytes.
template <int kWavesM, int kWavesN, int kRowTiles_, int kColumnTiles_>
struct WmmaGfx12Unit
    : MatrixTiling<matrix::WmmaS8Gfx12, kWavesM, kWavesN, kRowTiles_, kColumnTiles_> {
  using Layout = matrix::WmmaS8Gfx12;
  using Tiling = MatrixTiling<Layout, kWavesM, kWavesN, kRowTiles_, kColumnTiles_>;
  static constexpr int kRows = 8, kColumns = 1;
  static constexpr bool kAdjacent = false;

  STRATA_DEVICE static int row(const Thread& t, int i, int r) {
    return Tiling::row_base(t, i) + Layout::c_row(t.lane(), r);
  }
  STRATA_DEVICE static int column(const Thread& t, int j, int) {
    return Tiling::column_base(t, j) + Layout::c_column(t.lane(), 0);
  }
  STRATA_DEVICE static void load(const uint8_t* p, uint32_t (&out)[2][2]) {
    STRATA_UNROLL for (int half = 0; half < 2; ++half) {
      const auto v = load_as<Vec2>(p + 16 * half);
      out[half][0] = v.x, out[half][1] = v.y;
    }
  }

  template <bool kHalves, class Sink>
  STRATA_DEVICE static void products(const Thread& t, const uint8_t* a, int a_pitch,
                                     const uint8_t* b, int b_pitch, Sink& sink) {
    const int at = t.lane() / 16 * 8;
    uint32_t x[kRowTiles_][2][2];
    STRATA_UNROLL for (int i = 0; i < kRowTiles_; ++i) {
      load(a + (Tiling::row_base(t, i) + Layout::a_row(t.lane(), 0)) * a_pitch + at, x[i]);
    }
    STRATA_UNROLL for (int j = 0; j < kColumnTiles_; ++j) {
      uint32_t w[2][2];
      load(b + (Tiling::column_base(t, j) + Layout::b_column(t.lane())) * b_pitch + at, w);
      sink.columns(j);
      STRATA_UNROLL for (int i = 0; i < kRowTiles_; ++i) {
        int low[8], high[8];
        STRATA_UNROLL for (int k = 0; k < 8; ++k) low[k] = high[k] = 0;
        wmma_s8_gfx12(t, low, x[i][0], w[0]);
        wmma_s8_gfx12(t, kHalves ? high : low, x[i][1], w[1]);
        STRATA_UNROLL for (int k = 0; k < 8; ++k) {
          sink.add(i, j, k, 0, static_cast<float>(low[k]), static_cast<float>(high[k]));
        }
      }
    }
  }
};

// The units of a group's matrix forms: form 0 for many rows, form 1 for few.
template <class Arch, MatrixUnit kUnit = Arch::kMatrix>
struct MatrixForms;
template <class Arch>
struct MatrixForms<Arch, MatrixUnit::kMmaS8> {
  // 128 x 128 with large tiles of a wave, which read shared memory least, where it holds them;
  // else 128 x 64.
  using Large = std::conditional_t<(Arch::kSharedBytes > 200 * 1024), MmaUnit<2, 4, 4, 4>,
                                   MmaUnit<4, 2, 2, 4>>;
  using Small = MmaUnit<1, 4, 2, 2>;  // 32 x 64
};
template <class Arch>
struct MatrixForms<Arch, MatrixUnit::kWmmaS8Gfx11> {
  using Large = WmmaGfx11Unit<2, 2, 2, 2>;  // 64 x 64
  using Small = WmmaGfx11Unit<1, 4, 2, 1>;  // 32 x 64
};
template <class Arch>
struct MatrixForms<Arch, MatrixUnit::kWmmaS8Gfx12> {
  using Large = WmmaGfx12Unit<2, 2, 2, 2>;
  using Small = WmmaGfx12Unit<1, 4, 2, 1>;
};

}  // namespace strata::gpu
