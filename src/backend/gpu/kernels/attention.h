// Softmax attention over selected cells and the output gate (docs/MODEL.md 3.6 steps 4 and 5), in
// segments of 256 cells merged left to right (docs/ARITHMETIC.md).
#pragma once

#include "backend/gpu/kernels/kv_cell.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

inline constexpr int kAttentionSegment = 256;

// How a head's running result takes in the next segment.
struct SegmentMerge {
  float max, sum;                 // afterwards
  float old_factor, new_factor;   // on the values so far, and on the segment's
  STRATA_DEVICE static SegmentMerge of(float max, float sum, float top, float segment_sum) {
    const float merged = numeric::max(max, top);
    const float old_factor = numeric::exp(max - merged);
    const float new_factor = numeric::exp(top - merged);
    return {merged, numeric::fma(sum, old_factor, segment_sum * new_factor), old_factor, new_factor};
  }
};

// How a block of AttentionSegment divides its work. Scores: the four threads that hold the lanes of a
// sum take kHeads / kHeadParts heads and kCells cells; kHeadParts such fours side by side in a wave read
// the same cells. Values: a thread takes kWidth dimensions of kValueHeads heads.
struct FewHeads {  // more blocks for a row: decoding
  static constexpr int kThreads = 256, kHeads = 4, kHeadParts = 2, kCells = 8, kSteps = 4;
  static constexpr int kWidth = 2, kValueHeads = 2, kAhead = 16, kLeastBlocks = 1;
};
struct ManyHeads {  // what is read of a cell serves twelve heads: prompts
  static constexpr int kThreads = 128, kHeads = 12, kHeadParts = 4, kCells = 8, kSteps = 2;
  static constexpr int kWidth = 8, kValueHeads = 3, kAhead = 8, kLeastBlocks = 2;
};

// One query row against cells of one key/value head, for query heads that share it.
template <class Arch, backend::KvType kType, class Shape>
struct AttentionSegment {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kLeastBlocks = Shape::kLeastBlocks;
  static constexpr int kHeads = Shape::kHeads;
  static constexpr int kTileM = kHeads;
  using Params = AttentionSegmentParams;
  using Cell = KvCell<kType>;
  static constexpr int kScoreFloats = kHeads * kAttentionSegment;  // [head][cell]
  static constexpr int kHeadFloats = 4 * kHeads;                   // SegmentMerge by head
  // Scores, merge factors, cells; the queries follow, head_dim floats each.
  static constexpr int kSharedBytes =
      (kScoreFloats + kHeadFloats + kAttentionSegment) * static_cast<int>(sizeof(float));

  // Grid: rows, groups of heads, and blocks that share the segments (1 when a block takes all).
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x();
    const int group = p.heads / p.kv_heads;
    const int tiles = (group + kHeads - 1) / kHeads;
    const int kv_head = t.block_y() / tiles;
    const int first = t.block_y() % tiles * kHeads;  // within the group
    const int heads = group - first < kHeads ? group - first : kHeads;
    const int64_t head = static_cast<int64_t>(kv_head) * group + first;
    const int count = p.counts[row];
    const bool all = count == p.start.get() + row + 1;
    const int segments = (count + kAttentionSegment - 1) / kAttentionSegment;
    if (t.block_z() >= segments) return;

    Block b{t, p, t.shared<float>(0), t.shared<float>(4 * kScoreFloats),
            t.shared<int>(4 * (kScoreFloats + kHeadFloats)), t.shared<float>(kSharedBytes),
            {p.k, p.k_scales}, {p.v, p.v_scales}, kv_head, heads};
    const float* q = p.q + (row * p.heads + head) * 2 * p.head_dim;
    for (int h = 0; h < kHeads; ++h) {
      for (int i = t.index(); i < p.head_dim; i += kThreads) {
        b.queries[h * p.head_dim + i] = h < heads ? q[h * 2 * p.head_dim + i] : 0.0f;
      }
    }
    float* out = p.out + (row * p.heads + head) * p.head_dim;
    for (int segment = t.block_z(); segment < segments; segment += t.grid_z()) {
      const int from = segment * kAttentionSegment;
      const int here = count - from < kAttentionSegment ? count - from : kAttentionSegment;
      for (int j = t.index(); j < here; j += kThreads) {
        b.cells[j] = all ? from + j : p.cells[row * p.max_cells + from + j];
      }
      t.sync();
      score(b, here);
      t.sync();
      weigh(b, here, segment == 0 || p.segments > 0);
      t.sync();
      if (p.segments > 0) {
        const int64_t at = (row * p.heads + head) * p.segments + segment;
        gather(b, here, true, p.partial + at * p.head_dim,
               static_cast<int64_t>(p.segments) * p.head_dim);
        for (int h = t.index(); h < heads; h += kThreads) {
          float* weight = p.weights + (at + static_cast<int64_t>(h) * p.segments) * 2;
          weight[0] = b.merge[4 * h];
          weight[1] = b.merge[4 * h + 1];
        }
      } else {
        gather(b, here, segment == 0, out, p.head_dim);
      }
      t.sync();
    }
    if (p.segments > 0) return;
    for (int h = 0; h < heads; ++h) {
      const float sum = b.merge[4 * h + 1];
      const float* gate = q + h * 2 * p.head_dim + p.head_dim;
      float* o = out + static_cast<int64_t>(h) * p.head_dim;
      for (int i = t.index(); i < p.head_dim; i += kThreads) {
        o[i] = o[i] / sum * numeric::sigmoid(gate[i]);
      }
    }
  }

 private:
  static constexpr int kCells = Shape::kCells;
  static constexpr int kScoreHeads = kHeads / Shape::kHeadParts;  // of four threads
  using Sums = QuadSums<kScoreHeads, kCells>;

  struct Block {
    const Thread& t;
    const Params& p;
    float* scores;   // [kHeads][kAttentionSegment]
    float* merge;    // [head][4]: maximum, sum, old_factor, new_factor
    int* cells;
    float* queries;  // [kHeads][head_dim]
    Cell keys, values;
    int kv_head, heads;

    STRATA_DEVICE int64_t offset(int j) const {
      return (static_cast<int64_t>(cells[j]) * p.kv_heads + kv_head) * p.head_dim;
    }
  };

  STRATA_DEVICE static void score(const Block& b, int here) {
    constexpr int kFours = kThreads / 4 / Shape::kHeadParts;  // with cells of their own
    const int part = b.t.index() % 4;
    const int four = b.t.index() / 4;
    const int first_head = four % Shape::kHeadParts * kScoreHeads;
    for (int first = 0; first < here; first += kFours * kCells) {
      const int own = first + four / Shape::kHeadParts * kCells;
      int64_t at[kCells];
      STRATA_UNROLL for (int c = 0; c < kCells; ++c) {
        at[c] = b.offset(own + c < here ? own + c : here - 1);
      }
      Sums sums;
      sums.clear();
      multiply(b, part, b.queries + first_head * b.p.head_dim, at, sums);
      float total[Sums::kOwn];
      sums.fold(b.t, total);
      STRATA_UNROLL for (int v = 0; v < Sums::kOwn; ++v) {
        const int pair = part * Sums::kOwn + v;
        const int j = own + pair % kCells;
        if (j < here) {
          b.scores[(first_head + pair / kCells) * kAttentionSegment + j] = total[v] * b.p.scale;
        }
      }
    }
  }

  // Rounds of 16 dimensions; what kSteps rounds read of the cells is on its way at once.
  STRATA_DEVICE static void multiply(const Block& b, int part, const float* queries,
                                     const int64_t (&at)[kCells], Sums& sums) {
    const int dim = b.p.head_dim;
    if (dim % kSumLanes != 0) {
      for (int i = 4 * part; i < dim; i += kSumLanes) {
        STRATA_UNROLL for (int e = 0; e < 4; ++e) {
          if (i + e >= dim) continue;
          STRATA_UNROLL for (int c = 0; c < kCells; ++c) {
            const float key = b.keys.load(at[c] + i + e);
            STRATA_UNROLL for (int h = 0; h < kScoreHeads; ++h) {
              float* lane = &sums.sum[h * kCells + c][e];
              *lane = numeric::fma(queries[h * dim + i + e], key, *lane);
            }
          }
        }
      }
      return;
    }
    int i = 4 * part;
    for (; i + (Shape::kSteps - 1) * kSumLanes < dim; i += Shape::kSteps * kSumLanes) {
      add_rounds<Shape::kSteps>(b, queries, i, at, sums);
    }
    for (; i < dim; i += kSumLanes) add_rounds<1>(b, queries, i, at, sums);
  }

  template <int kRounds>
  STRATA_DEVICE static void add_rounds(const Block& b, const float* queries, int i,
                                       const int64_t (&at)[kCells], Sums& sums) {
    typename Cell::template Piece<4> piece[kRounds][kCells];
    STRATA_UNROLL for (int r = 0; r < kRounds; ++r) {
      STRATA_UNROLL for (int c = 0; c < kCells; ++c) {
        piece[r][c] = b.keys.template load_piece<4>(at[c] + i + r * kSumLanes);
      }
    }
    STRATA_UNROLL for (int r = 0; r < kRounds; ++r) {
      Float4 q[kScoreHeads];
      STRATA_UNROLL for (int h = 0; h < kScoreHeads; ++h) {
        q[h] = load_float4(queries + h * b.p.head_dim + i + r * kSumLanes);
      }
      STRATA_UNROLL for (int c = 0; c < kCells; ++c) {
        float key[4];
        Cell::template widen<4>(piece[r][c], key);
        STRATA_UNROLL for (int h = 0; h < kScoreHeads; ++h) sums.add(h, c, q[h], key);
      }
    }
  }

  // Half a wave per head: maximum, exponentials, their sum, and the factors of the merge. A score that
  // is NaN makes the sum NaN, so the order in which the maximum is found shows in no result.
  STRATA_DEVICE static void weigh(const Block& b, int here, bool first) {
    constexpr int kGroups = kThreads / kSumLanes;
    const int lane = b.t.lane() % kSumLanes;
    for (int round = 0; round < kHeads; round += kGroups) {
      const int h = round + b.t.index() / kSumLanes;
      const int own = h < kHeads ? here : 0;  // half waves without a head follow along
      float* score = b.scores + h * kAttentionSegment;
      float top = -quant::float_from_bits(0x7F800000u);
      for (int j = lane; j < own; j += kSumLanes) top = numeric::max(top, score[j]);
      STRATA_UNROLL for (int step = kSumLanes / 2; step > 0; step /= 2) {
        top = numeric::max(top, b.t.shuffle_xor(top, step));
      }
      float sum = 0.0f;
      for (int j = lane; j < own; j += kSumLanes) {
        const float weight = numeric::exp(score[j] - top);
        score[j] = weight;
        sum += weight;
      }
      sum = fold_lanes(b.t, sum);
      if (h >= kHeads || lane != 0) continue;
      float* merge = b.merge + 4 * h;
      const SegmentMerge m = first ? SegmentMerge{top, sum, 0.0f, 1.0f}
                                   : SegmentMerge::of(merge[0], merge[1], top, sum);
      merge[0] = m.max;
      merge[1] = m.sum;
      merge[2] = m.old_factor;
      merge[3] = m.new_factor;
    }
  }

  // Adds the segment's weighted values to out[head * stride + dimension], or starts it with them.
  STRATA_DEVICE static void gather(const Block& b, int here, bool first, float* out,
                                   int64_t stride) {
    const int dim = b.p.head_dim;
    if (dim % Shape::kWidth == 0) {
      gather_wide<Shape::kWidth, Shape::kValueHeads>(b, here, first, out, stride);
    } else {
      gather_wide<1, 1>(b, here, first, out, stride);
    }
  }

  template <int kWidth, int kValueHeads>
  STRATA_DEVICE static void gather_wide(const Block& b, int here, bool first, float* out,
                                        int64_t stride) {
    constexpr int kAhead = Shape::kAhead;  // cells read before they are added
    const int dim = b.p.head_dim;
    const int slots = dim / kWidth;
    for (int item = b.t.index(); item < slots * (kHeads / kValueHeads); item += kThreads) {
      const int i = item % slots * kWidth;
      const int first_head = item / slots * kValueHeads;
      const float* weights = b.scores + first_head * kAttentionSegment;
      float value[kValueHeads][kWidth];
      STRATA_UNROLL for (int h = 0; h < kValueHeads; ++h) {
        STRATA_UNROLL for (int e = 0; e < kWidth; ++e) value[h][e] = 0.0f;
      }
      int from = 0;
      for (; from + kAhead <= here; from += kAhead) {
        add_cells<kWidth, kValueHeads, kAhead>(b, weights, from, i, value);
      }
      for (; from < here; ++from) {
        float v[kWidth];
        load_values(b, from, i, v);
        STRATA_UNROLL for (int h = 0; h < kValueHeads; ++h) {
          const float weight = weights[h * kAttentionSegment + from];
          STRATA_UNROLL for (int e = 0; e < kWidth; ++e) {
            value[h][e] = numeric::fma(weight, v[e], value[h][e]);
          }
        }
      }
      STRATA_UNROLL for (int h = 0; h < kValueHeads; ++h) {
        if (first_head + h >= b.heads) break;
        const float* merge = b.merge + 4 * (first_head + h);
        STRATA_UNROLL for (int e = 0; e < kWidth; ++e) {
          float* o = out + (first_head + h) * stride + i + e;
          *o = first ? value[h][e] : numeric::fma(*o, merge[2], value[h][e] * merge[3]);
        }
      }
    }
  }

  template <int kWidth>
  STRATA_DEVICE static void load_values(const Block& b, int cell, int i, float (&v)[kWidth]) {
    if constexpr (kWidth == 1) {
      v[0] = b.values.load(b.offset(cell) + i);
    } else {
      Cell::template widen<kWidth>(b.values.template load_piece<kWidth>(b.offset(cell) + i), v);
    }
  }

  template <int kWidth, int kValueHeads, int kAhead>
  STRATA_DEVICE static void add_cells(const Block& b, const float* weights, int from, int i,
                                      float (&value)[kValueHeads][kWidth]) {
    static_assert(kAhead % 4 == 0);
    if constexpr (kWidth == 1) {
      float v[kAhead][1];
      STRATA_UNROLL for (int a = 0; a < kAhead; ++a) load_values(b, from + a, i, v[a]);
      STRATA_UNROLL for (int a = 0; a < kAhead; ++a) {
        STRATA_UNROLL for (int h = 0; h < kValueHeads; ++h) {
          value[h][0] =
              numeric::fma(weights[h * kAttentionSegment + from + a], v[a][0], value[h][0]);
        }
      }
    } else {
      typename Cell::template Piece<kWidth> piece[kAhead];
      STRATA_UNROLL for (int a = 0; a < kAhead; ++a) {
        piece[a] = b.values.template load_piece<kWidth>(b.offset(from + a) + i);
      }
      STRATA_UNROLL for (int a = 0; a < kAhead; a += 4) {
        Float4 weight[kValueHeads];
        STRATA_UNROLL for (int h = 0; h < kValueHeads; ++h) {
          weight[h] = load_float4(weights + h * kAttentionSegment + from + a);
        }
        STRATA_UNROLL for (int k = 0; k < 4; ++k) {
          float v[kWidth];
          Cell::template widen<kWidth>(piece[a + k], v);
          STRATA_UNROLL for (int h = 0; h < kValueHeads; ++h) {
            STRATA_UNROLL for (int e = 0; e < kWidth; ++e) {
              value[h][e] = numeric::fma(weight[h].v[k], v[e], value[h][e]);
            }
          }
        }
      }
    }
  }
};

// Merges the segments of a row and head left to right, divides and gates. A block per row and head.
template <class Arch>
struct AttentionMerge {
  static constexpr int kThreads = 128;
  using Params = AttentionMergeParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t head = t.block_x();  // of all rows
    const int count = p.counts[head / p.heads];
    const int segments = (count + kAttentionSegment - 1) / kAttentionSegment;
    const float* weights = p.weights + head * p.segments * 2;
    const float* gate = p.q + (2 * head + 1) * p.head_dim;
    for (int i = t.index(); i < p.head_dim; i += kThreads) {
      const float* partial = p.partial + head * p.segments * p.head_dim + i;
      float max = weights[0];
      float sum = weights[1];
      float out = partial[0];
      for (int s = 1; s < segments; ++s) {
        const SegmentMerge m = SegmentMerge::of(max, sum, weights[2 * s], weights[2 * s + 1]);
        max = m.max;
        sum = m.sum;
        out = numeric::fma(out, m.old_factor,
                           partial[static_cast<int64_t>(s) * p.head_dim] * m.new_factor);
      }
      p.out[head * p.head_dim + i] = out / sum * numeric::sigmoid(gate[i]);
    }
  }
};

}  // namespace strata::gpu
