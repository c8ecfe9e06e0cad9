// Parameters of the product kernels and of those around the experts: what a driver fills in and a
// kernel reads. Free of any GPU language.
#pragma once

#include <cstdint>

#include "format/quant/int_group.h"

namespace strata::gpu {

inline constexpr int kSegmentGroups = 8;  // groups of 32 in a segment (docs/ARITHMETIC.md)
inline constexpr int kSegmentElems = kSegmentGroups * quant::kGroupElems;
inline constexpr int kFloatLanes = 16;    // strided partial sums of a product with float weights

// Activation rows as int8, each padded with zeros to whole segments of k.
//   q      [rows, segments * 256]
//   scale  [rows, segments * 8]
//   sums   [rows, segments * 8]: the sums of q over both halves, low half in the low 16 bits
// For MatmulUnpacked they are laid out in tiles of rows instead.
struct Activations {
  uint8_t* q;
  float* scale;
  uint32_t* sums;
};

// One matrix, or one per expert, in a call.
struct MatrixRef {
  const uint8_t* data;   // 16-aligned
  const uint8_t* end;    // of the last expert's
  const float* scale;    // factors on the product: nullptr, one, or one per expert
  float* y;
  int64_t expert_bytes;
  int64_t y_stride;
  int n;
  int scale_per_expert;  // 0 or 1
  int first_block;       // its place in the grid: blocks of all matrices in a row

  STRATA_HD float factor(int expert) const {
    return scale == nullptr ? 1.0f : scale[scale_per_expert * expert];
  }
};

inline constexpr int kMaxMatrices = 8;

// Rows of one expert that a block takes.
struct RowTile {
  int expert;
  int first;  // of them in RowMap::slots
  int count;
};

// Which activation rows meet which expert's matrix, and where the results go.
//   plain   rows 0, 1, ... of x, expert 0, to the same row of y
//   ids     slot s = block: row s / x_divisor of x, expert ids[s], to row s of y
//   tiles   a list made on the device (ExpertGroups): slots[i] as above, by expert
struct RowMap {
  const int* ids;
  const RowTile* tiles;
  const int* tile_count;
  const int* slots;
  int rows;
  int x_divisor;

  // What block `block` of kTile rows takes; count 0: nothing.
  template <int kTile>
  STRATA_HD RowTile tile(int block) const {
    if (tiles != nullptr) return block < *tile_count ? tiles[block] : RowTile{0, 0, 0};
    if (ids != nullptr) return {ids[block], block, 1};
    const int first = block * kTile;
    const int left = rows - first;
    return {0, first, left < kTile ? left : kTile};
  }
  STRATA_HD int y_row(int i) const { return tiles != nullptr ? slots[i] : i; }
  STRATA_HD int x_row(int y_row) const { return y_row / x_divisor; }
};

struct ProductParams {
  MatrixRef matrices[kMaxMatrices];
  RowMap map;
  Activations x;
  int64_t row_bytes;
  int count;            // of matrices
  int groups;           // of 32 in a row
  int segments;
  // MatmulVec only: consecutive weight rows of a stream, whose bytes and whose segments times
  // `segments` stay below 2^31; and 2^kInverseBits / segments, rounded up, to divide by.
  static constexpr int kInverseBits = 31;
  int rows_per_stream;
  uint32_t inverse_segments;
};

// K comes to MatmulUnpacked in halves of a segment.
inline constexpr int kHalfGroups = kSegmentGroups / 2;
inline constexpr int kHalfElems = kSegmentElems / 2;

// Weight rows as MatmulUnpacked takes them, in tiles of `tile_rows` rows:
//   codes   [tiles, segments * 2 halves, 8 pieces of k, tile_rows, 16]; rows in the order of
//           packed_row()
//   tables  [tiles, segments * 2 halves, tables of GroupTables, 4 groups, tile_rows]
// Activations for it are laid out alike, rows in their own order: q as codes, scale and sums
// [tiles, halves, tile_rows, 4 groups].
struct UnpackedWeights {
  uint8_t* codes;
  float* tables;
  int tile_rows;
};

// Where in its tile a weight row stands: so that the results of sixteen rows that a thread gets from
// two 8-wide instruction tiles belong to four consecutive rows.
STRATA_HD constexpr int packed_row(int row) {
  return row / 16 * 16 + row % 4 / 2 * 8 + row % 16 / 4 * 2 + row % 2;
}

// Where a group of 32 of a row stands in these arrays.
struct UnpackedPlace {
  int64_t half;   // index of (tile, half)
  int in_tile;    // the row in its tile
  int in_half;    // the group in its half
  int tile_rows;

  STRATA_HD UnpackedPlace(int segments, int tile_rows_, int row, int group)
      : half(static_cast<int64_t>(row / tile_rows_) * segments * 2 + group / kHalfGroups),
        in_tile(row % tile_rows_),
        in_half(group % kHalfGroups),
        tile_rows(tile_rows_) {}

  // Of the first 16 codes, if the row stands at `row` in its tile; the others are piece_bytes() on.
  STRATA_HD int64_t codes(int row) const {
    return ((half * kHalfGroups + in_half) * 2 * tile_rows + row) * 16;
  }
  STRATA_HD int64_t piece_bytes() const { return int64_t{16} * tile_rows; }
  // In arrays with one entry per row and group.
  STRATA_HD int64_t entry() const { return (half * tile_rows + in_tile) * kHalfGroups + in_half; }
  // In the first of `count` tables; the others are table_floats() on.
  STRATA_HD int64_t table(int count) const {
    return (half * count * kHalfGroups + in_half) * tile_rows + in_tile;
  }
  STRATA_HD int64_t table_floats() const { return int64_t{kHalfGroups} * tile_rows; }
};

struct UnpackRowsParams {
  const uint8_t* data;  // of the first row
  const uint8_t* end;   // of the matrix
  UnpackedWeights out;
  int64_t row_bytes;
  int rows;    // that exist; the others of the last tile become zeros
  int groups;  // of 32 in a row
  int segments;
};

struct MatmulUnpackedParams {
  UnpackedWeights w;
  Activations x;
  const float* scale;  // a factor on the product, or nullptr
  float* y;            // of the first weight row
  int64_t y_stride;
  int n;               // weight rows that exist
  int rows;            // activation rows that exist
  int segments;

  STRATA_HD float factor() const { return scale == nullptr ? 1.0f : *scale; }
};

struct FloatProductParams {
  MatrixRef matrices[kMaxMatrices];
  RowMap map;
  const float* x;
  int64_t x_stride;
  int64_t row_bytes;
  int count;  // of matrices
  int k;
};

struct QuantizeRowsParams {
  const float* x;
  const float* up;  // given: the rows are silu(x) * up
  Activations out;
  int64_t stride;   // of a row of x and up, in floats
  int rows;         // of x
  int groups;       // of a row
  int padded;       // groups of a row of `out`
  int tile_rows;    // of the layout for MatmulUnpacked, or 0
  int pieces;       // blocks of a row
};

struct RouterTopKParams {
  float* p;        // [rows, experts], replaced by exp(p - max)
  int* ids;        // [rows, used]
  float* weights;  // [rows, used]
  int rows, experts, used;
  // The launch asked for room to keep the probabilities in shared memory.
  int in_shared;

  static constexpr int64_t shared_bytes(int64_t tile_rows, int64_t experts) {
    return 4 * tile_rows * experts;
  }
};

struct ExpertGroupsParams {
  const int* ids;   // [pairs]
  int* slots;       // [pairs]
  RowTile* tiles;   // room for most_tiles()
  int* tile_count;
  int pairs, experts, tile_rows;

  static constexpr int64_t most_tiles(int64_t pairs, int64_t experts, int64_t tile_rows) {
    return (pairs < experts ? pairs : experts) + pairs / tile_rows;
  }
  static constexpr int shared_bytes(int64_t experts) { return static_cast<int>(8 * experts); }
};

struct ExpertCombineParams {
  const float* outputs;  // slot s at s * stride
  const float* weights;  // [rows, used]
  float* y;              // [rows, width]
  int64_t stride;
  int used, width;
  int pieces;            // blocks of a row
};

struct SwiGluParams {
  const float* gate;
  const float* up;
  float* out;
  int64_t stride;      // of a row of gate and up
  int64_t out_stride;
  int width;
  int pieces;          // blocks of a row
};

struct SharedExpertAddParams {
  const float* logits;  // [rows]
  const float* d;       // [rows, width]
  float* y;             // [rows, width]
  int width;
  int pieces;           // blocks of a row
};

}  // namespace strata::gpu
