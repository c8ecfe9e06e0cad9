// How the exact integer sums of a group of 32 enter the float sum of a segment, in the order of
// docs/ARITHMETIC.md, for tiles of many results: what a weight group contributes besides its codes
// stands in tables in shared memory, one float per (table, group, weight row).
#pragma once

#include "backend/gpu/kernels/products.h"
#include "backend/gpu/kernels/unpack.h"

namespace strata::gpu {

template <SubScales kScales_, Minimums kMins_>
struct GroupTables {
  static constexpr SubScales kScales = kScales_;
  static constexpr Minimums kMins = kMins_;
  static constexpr bool kWide = kScales == SubScales::kWide;
  static constexpr bool kHalves = kWide || kScales == SubScales::kTwo;
  static constexpr bool kMin = kMins != Minimums::kNone;

  // Table indices. kD holds d, or d * scale[0] of wide sub-scales; kScale the first sub-scale, or
  // d * scale[1].
  static constexpr int kD = 0;
  static constexpr int kScale = 1;
  static constexpr int kScaleTables = kScales == SubScales::kUnit  ? 1
                                      : kScales == SubScales::kTwo ? 3
                                                                   : 2;
  static constexpr int kDmin = kScaleTables;
  static constexpr int kMinimum = kScaleTables + 1;
  static constexpr int kCount = kScaleTables + (kMins == Minimums::kNone   ? 0
                                                : kMins == Minimums::kUnit ? 1
                                                : kMins == Minimums::kOne  ? 2
                                                                           : 3);

  // `to`: the group's entry in the first table; `stride`: floats from table to table.
  STRATA_DEVICE static void store(const WeightGroup& g, float* to, int64_t stride) {
    if constexpr (kWide) {
      to[kD * stride] = g.d * static_cast<float>(g.scale[0]);
      to[kScale * stride] = g.d * static_cast<float>(g.scale[1]);
    } else {
      to[kD * stride] = g.d;
      if constexpr (kScaleTables > 1) to[kScale * stride] = static_cast<float>(g.scale[0]);
      if constexpr (kScaleTables > 2) to[(kScale + 1) * stride] = static_cast<float>(g.scale[1]);
    }
    if constexpr (kMin) {
      to[kDmin * stride] = g.dmin;
      if constexpr (kMins != Minimums::kUnit) to[kMinimum * stride] = static_cast<float>(g.min[0]);
      if constexpr (kMins == Minimums::kTwo) {
        to[(kMinimum + 1) * stride] = static_cast<float>(g.min[1]);
      }
    }
  }
};

// The tables of a weight type.
template <class Q>
using TablesOf = GroupTables<Unpack<Q>::kScales, Unpack<Q>::kMins>;

// Adds the terms of one group to a thread's sums, one per result of `Unit` (products_units.h).
// Integers below 2^24 in size are floats here, so their products are exact. With kFirst the sums
// begin here, at 0, whatever they hold.
template <class Tables, class Unit, int kTableStride, bool kFirst = false>
struct TermSink {
  static constexpr int kMs = Unit::kRowTiles * Unit::kRows;
  static constexpr int kNs = Unit::kColumnTiles * Unit::kColumns;
  static constexpr bool kMin = Tables::kMin;

  const Thread& t;
  const float* tables;  // at the group
  float (&segment)[kMs][kNs];
  float x_scale[kMs];
  float x_low[kMin ? kMs : 1], x_high[kMin ? kMs : 1];
  float d[Unit::kColumns], scale[2][Unit::kColumns];
  float dmin[Unit::kColumns], min[2][Unit::kColumns];

  STRATA_DEVICE TermSink(const Thread& thread, const float* at, float (&sums)[kMs][kNs])
      : t(thread), tables(at), segment(sums) {}

  // The sums of the group of activation row m, read where a type has minimums. Its scale is set by
  // the owner.
  STRATA_DEVICE void set_sums(int m, const uint8_t* at) {
    if constexpr (kMin) {
      const auto sums = load_as<uint32_t>(at);
      if constexpr (Tables::kMins == Minimums::kTwo) {
        x_low[m] = static_cast<float>(low_sum(sums));
        x_high[m] = static_cast<float>(high_sum(sums));
      } else {
        x_low[m] = static_cast<float>(low_sum(sums) + high_sum(sums));
      }
    }
  }
  STRATA_DEVICE void load(int table, int j, float (&out)[Unit::kColumns]) {
    if constexpr (Unit::kColumns == 2 && Unit::kAdjacent) {
      const auto two = load_as<Vec2>(tables + table * kTableStride + Unit::column(t, j, 0));
      out[0] = quant::float_from_bits(two.x);
      out[1] = quant::float_from_bits(two.y);
    } else if constexpr (Unit::kColumns == 4 && Unit::kAdjacent) {
      const auto four = load_as<Vec4>(tables + table * kTableStride + Unit::column(t, j, 0));
      out[0] = quant::float_from_bits(four.x);
      out[1] = quant::float_from_bits(four.y);
      out[2] = quant::float_from_bits(four.z);
      out[3] = quant::float_from_bits(four.w);
    } else {
      STRATA_UNROLL for (int c = 0; c < Unit::kColumns; ++c) {
        out[c] = tables[table * kTableStride + Unit::column(t, j, c)];
      }
    }
  }
  STRATA_DEVICE void columns(int j) {
    load(Tables::kD, j, d);
    if constexpr (Tables::kScaleTables > 1) load(Tables::kScale, j, scale[0]);
    if constexpr (Tables::kScaleTables > 2) load(Tables::kScale + 1, j, scale[1]);
    if constexpr (kMin) load(Tables::kDmin, j, dmin);
    if constexpr (kMin && Tables::kMins != Minimums::kUnit) load(Tables::kMinimum, j, min[0]);
    if constexpr (Tables::kMins == Minimums::kTwo) load(Tables::kMinimum + 1, j, min[1]);
  }
  STRATA_DEVICE void add(int i, int j, int r, int c, float low, float high) {
    const int m = i * Unit::kRows + r;
    float& place = segment[m][j * Unit::kColumns + c];
    float sum = kFirst ? 0.0f : place;
    if constexpr (Tables::kWide) {
      sum = numeric::fma(d[c] * x_scale[m], low, sum);
      sum = numeric::fma(scale[0][c] * x_scale[m], high, sum);
    } else {
      if constexpr (Tables::kScales == SubScales::kOne) low *= scale[0][c];
      if constexpr (Tables::kScales == SubScales::kTwo) {
        low = numeric::fma(scale[1][c], high, scale[0][c] * low);
      }
      sum = numeric::fma(d[c] * x_scale[m], low, sum);
    }
    if constexpr (kMin) {
      float minimum = x_low[m];
      if constexpr (Tables::kMins == Minimums::kOne) minimum *= min[0][c];
      if constexpr (Tables::kMins == Minimums::kTwo) {
        minimum = numeric::fma(min[1][c], x_high[m], min[0][c] * minimum);
      }
      sum = numeric::fma(-(dmin[c] * x_scale[m]), minimum, sum);
    }
    place = sum;
  }
};

}  // namespace strata::gpu
