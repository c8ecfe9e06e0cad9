// Parameters of the kernels that are not products: what a driver fills in and a kernel reads. Free of
// any GPU language.
#pragma once

#include "backend/gpu/kernels/elementwise_params.h"
#include "backend/op_args.h"
#include "format/quant/portable.h"

namespace strata::gpu {

struct HcNormParams {
  const float* residual;
  const float* norm;
  float* out;
  float eps;
  int streams, width;
};

struct HcLowRankParams {
  float* low;
  float* inject_weight;  // nullptr: none
  int64_t low_count, inject_count;
  int streams;
};

struct HcMixParams {
  const float* gates;
  const float* normed;
  float* x;
  int streams, width;
};

// A matrix of float weights (F32, F16 or BF16) as the fused mixer reads it.
struct FusedMatrix {
  const uint8_t* data;
  const float* scale;  // nullptr: none
  QuantType type;
  int row_bytes;

  STRATA_HD const uint8_t* row(int64_t r) const { return data + r * row_bytes; }
};

struct HcDownParams {
  const float* residual;
  const float* norm;
  FusedMatrix down, inject;
  float* normed;
  float* low;
  float* inject_weight;
  float eps;
  int streams, width, rank;
  int injects;  // streams, or 0 for the final mixer
  int outputs_per_block;
};

struct HcUpMixParams {
  const float* low;
  const float* normed;
  FusedMatrix up;
  float* x;
  int streams, width, rank;
};

struct GdnConvParams {
  const float* qkv;
  const float* conv;
  float* conv_state;
  float* out;
  float eps;
  int rows, rows_per_block, key_heads, value_heads, head_dim, taps;
};

struct GdnStepParams {
  const float* qkv;  // convolved; q and k of unit length
  const float* alpha;
  const float* beta;
  const float* dt_bias;
  const float* a_log;
  float* state;
  float* out;  // o of step 6
  int rows, key_heads, value_heads, head_dim;
};

struct GdnNormParams {
  float* out;
  const float* z;
  const float* norm;
  float eps;
  int64_t heads;  // rows * value_heads
  int head_dim;
};

// The sequence index of the first row: in device memory where `at` is given, else `value`.
struct Start {
  const int64_t* at;
  int64_t value;

  STRATA_HD int64_t get() const { return at != nullptr ? *at : value; }
};

struct QsaPrepareParams {
  float* q;
  const float* k;
  const float* v;
  float* index_q;
  const float* index_k;
  const float* q_norm;
  const float* k_norm;
  const float* index_q_norm;
  const float* index_k_norm;
  const float* rope;
  float* tail_rope;
  backend::KvView cache;
  float eps;
  Start start;
  int rows, heads, kv_heads, head_dim, rot_dim, ratio, index_heads, index_dim;
  int vector_blocks;  // blocks of the grid that prepare vectors; the rest pool block keys

  STRATA_HD int vectors_of_row() const {
    return heads + 2 * kv_heads + (ratio > 0 ? index_heads : 0);
  }
};

// Index heads of a row that meet block keys together; the queries of a tile of rows, padded to whole
// rounds of 16, are shared memory that the launch adds.
inline constexpr int kScoreHeads = 4;

struct QsaScoreParams {
  const float* index_q;
  const float* block_keys;
  float* scores;
  int64_t stride;
  Start start;
  int rows, first_row, heads, dim, ratio, budget;
  int tiles;  // of block keys that a thread block goes through
};

struct QsaSelectParams {
  const float* scores;
  int32_t* cells;
  int32_t* counts;
  int64_t stride;
  Start start;
  int64_t total;  // the cell-wise form only, and there only without start.at
  int ratio, budget, max_cells;
};

struct AttentionSegmentParams {
  const float* q;
  const void* k;
  const void* v;
  const float* k_scales;
  const float* v_scales;
  const int32_t* cells;
  const int32_t* counts;
  float* out;
  float* partial;  // [rows, heads, segments, head_dim]
  float* weights;  // [rows, heads, segments, 2]: maximum and sum
  float scale;
  Start start;
  int heads, kv_heads, head_dim, max_cells;
  // 0: a block goes through all segments of its row and finishes. Otherwise blocks share them, and
  // leave the results, for at most so many segments, to AttentionMerge.
  int segments;
};

struct AttentionMergeParams {
  const float* q;  // for the gates
  const int32_t* counts;
  const float* partial;
  const float* weights;
  float* out;
  int heads, head_dim, segments;
};

struct PleGateParams {
  const float* key;
  const float* value;
  const float* residual;
  const float* norm_key;
  const float* norm_query;
  const float* norm_conv;
  float* u;
  float* n;
  float eps;
  int streams, width;
};

struct PleInjectParams {
  const float* u;
  const float* n;
  const float* conv;
  float* conv_state;
  float* residual;
  int64_t wide;  // streams * width
  int rows, rows_per_block, taps, dilation;
};

struct BandwidthParams {
  const void* from;
  void* to;
  int64_t pieces;  // of 16 bytes
};

}  // namespace strata::gpu
