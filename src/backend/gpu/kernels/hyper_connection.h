// The read side of the hyper-connection mixer (docs/MODEL.md 3.2) around its low-rank products.
#pragma once

#include "backend/gpu/kernels/lanes.h"
#include "backend/gpu/kernels/op_params.h"
#include "backend/gpu/prim/bytes.h"

namespace strata::gpu {

// n_s = rms(R_s) * norm_s, a block per row and stream.
template <class Arch>
struct HcNorm {
  static constexpr int kThreads = 256;
  static constexpr int kSharedBytes = BlockSum::kSharedBytes;
  using Params = HcNormParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t at = static_cast<int64_t>(t.block_x()) * p.width;
    const float* in = p.residual + at;
    const float* norm = p.norm + static_cast<int64_t>(t.block_x() % p.streams) * p.width;
    const float sum = BlockSum::squares(t, 0, p.width, [in](int i) { return in[i]; });
    const float factor = rms_factor(sum, p.width, p.eps);
    for (int i = t.index(); i < p.width; i += kThreads) p.out[at + i] = in[i] * factor * norm[i];
  }
};

// What follows the two products with n: l = silu(l / streams), w = 2 sigmoid(w / streams).
template <class Arch>
struct HcLowRank {
  static constexpr int kThreads = 256;
  using Params = HcLowRankParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const auto streams = static_cast<float>(p.streams);
    const int64_t i = static_cast<int64_t>(t.block_x()) * kThreads + t.index();
    if (i < p.low_count) {
      p.low[i] = numeric::silu(p.low[i] / streams);
    } else if (i - p.low_count < p.inject_count) {
      float* w = p.inject_weight + (i - p.low_count);
      *w = 2.0f * numeric::sigmoid(*w / streams);
    }
  }
};

// x = mean over streams of sigmoid(a_s) * n_s.
template <class Arch>
struct HcMix {
  static constexpr int kThreads = 256;
  using Params = HcMixParams;

  // Grid: rows, pieces of a row.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x();
    const int64_t wide = row * p.streams * p.width;
    for (int i = t.block_y() * kThreads + t.index(); i < p.width; i += t.grid_y() * kThreads) {
      float x = 0.0f;
      for (int s = 0; s < p.streams; ++s) {
        const int64_t at = wide + static_cast<int64_t>(s) * p.width + i;
        x = numeric::fma(numeric::sigmoid(p.gates[at]), p.normed[at], x);
      }
      p.x[row * p.width + i] = x / static_cast<float>(p.streams);
    }
  }
};

// What a float type looks like in memory.
template <QuantType kType>
struct StoredFloat;
template <>
struct StoredFloat<QuantType::kF32> {
  using Word = float;
  STRATA_DEVICE static float widen(float w) { return w; }
};
template <>
struct StoredFloat<QuantType::kF16> {
  using Word = uint16_t;
  STRATA_DEVICE static float widen(uint16_t w) { return widen_half(w); }
};
template <>
struct StoredFloat<QuantType::kBF16> {
  using Word = uint16_t;
  STRATA_DEVICE static float widen(uint16_t w) { return quant::bf16_to_float(w); }
};

// One lane's part of a product of a weight row with x: elements lane, lane + 16, ... of n. Operands
// are read ahead of the chain of additions.
template <QuantType kType>
STRATA_DEVICE float weight_lane(const void* row, const float* x, int lane, int n) {
  using Stored = StoredFloat<kType>;
  constexpr int kAhead = 16;
  const auto* w = static_cast<const typename Stored::Word*>(row);
  float sum = 0.0f;
  int i = lane;
  for (; i + (kAhead - 1) * kSumLanes < n; i += kAhead * kSumLanes) {
    typename Stored::Word a[kAhead];
    float b[kAhead];
    STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
      a[k] = w[i + k * kSumLanes];
      b[k] = x[i + k * kSumLanes];
    }
    STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
      sum = numeric::fma(Stored::widen(a[k]), b[k], sum);
    }
  }
  for (; i < n; i += kSumLanes) sum = numeric::fma(Stored::widen(w[i]), x[i], sum);
  return sum;
}

STRATA_DEVICE float weight_lane(const FusedMatrix& m, const void* row, const float* x, int lane,
                                int n) {
  switch (m.type) {
    case QuantType::kF16: return weight_lane<QuantType::kF16>(row, x, lane, n);
    case QuantType::kBF16: return weight_lane<QuantType::kBF16>(row, x, lane, n);
    default: return weight_lane<QuantType::kF32>(row, x, lane, n);
  }
}

// For few rows and float weights: the norm and both products with n in one kernel. A block takes some
// outputs; their weight rows are on their way to shared memory while it norms the streams. Half a wave
// adds up an output.
template <class Arch>
struct HcDown {
  static constexpr int kThreads = 256;
  static constexpr int kMostStreams = 64;
  // The factors of the norm; n and the weight rows of a block follow.
  static constexpr int kSharedBytes = kMostStreams * static_cast<int>(sizeof(float));
  using Params = HcDownParams;

  // Grid: groups of outputs, rows.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    constexpr int kGroups = kThreads / kSumLanes;
    const int64_t row = t.block_y();
    const int wide = p.streams * p.width;
    const int first = t.block_x() * p.outputs_per_block;
    const int end = first + p.outputs_per_block < p.rank + p.injects
                        ? first + p.outputs_per_block
                        : p.rank + p.injects;
    float* factor = t.shared<float>(0);
    float* n = t.shared<float>(kSharedBytes);
    const int rows_at = kSharedBytes + wide * static_cast<int>(sizeof(float));

    int at = rows_at;
    for (int o = first; o < end; ++o) {
      const FusedMatrix& m = o < p.rank ? p.down : p.inject;
      const uint8_t* from = m.row(o < p.rank ? o : o - p.rank);
      for (int i = 16 * t.index(); i < m.row_bytes; i += 16 * kThreads) {
        t.copy_async16(t.shared<uint8_t>(at + i), from + i);
      }
      at += m.row_bytes;
    }
    t.copy_async_commit();

    const float* residual = p.residual + row * wide;
    for (int i = t.index(); i < wide; i += kThreads) n[i] = residual[i];
    t.sync();
    const int lane = t.lane() % kSumLanes;
    const int group = t.index() / kSumLanes;
    for (int round = 0; round < p.streams; round += kGroups) {
      const int s = round + group;
      const float* x = n + static_cast<int64_t>(s) * p.width;
      const int count = s < p.streams ? p.width : 0;
      const float squares = fold_lanes(t, add_to_lane(x, x, lane, count, 0.0f));
      if (s < p.streams && lane == 0) factor[s] = rms_factor(squares, p.width, p.eps);
    }
    t.sync();
    // Every block norms all; each keeps a part for the mix.
    const int share = (wide + t.grid_x() - 1) / t.grid_x();
    const int kept = t.block_x() * share;
    for (int i = t.index(); i < wide; i += kThreads) {
      n[i] = n[i] * factor[i / p.width] * p.norm[i];
      if (i >= kept && i < kept + share) p.normed[row * wide + i] = n[i];
    }
    t.template copy_async_wait<0>();
    t.sync();

    const auto streams = static_cast<float>(p.streams);
    for (int round = first; round < end; round += kGroups) {
      const int o = round + group;
      const bool active = o < end;
      const FusedMatrix& m = !active || o < p.rank ? p.down : p.inject;
      const int before = o < p.rank ? o - first : (p.rank > first ? p.rank - first : 0);
      const int after = o - first - before;  // rows of inject before this one
      const void* weights =
          t.shared<uint8_t>(rows_at) + before * p.down.row_bytes + after * p.inject.row_bytes;
      const float sum =
          fold_lanes(t, active ? weight_lane(m, weights, n, lane, wide) : 0.0f);
      if (!active || lane != 0) continue;
      const float y = m.scale != nullptr ? sum * m.scale[0] : sum;
      if (o < p.rank) {
        p.low[row * p.rank + o] = numeric::silu(y / streams);
      } else {
        p.inject_weight[row * p.injects + o - p.rank] = 2.0f * numeric::sigmoid(y / streams);
      }
    }
  }
};

// The rest of it: the product with l, the gates, the mean over streams. Half a wave adds up a gate.
template <class Arch>
struct HcUpMix {
  static constexpr int kThreads = 256;
  static constexpr int kGroups = kThreads / kSumLanes;
  static constexpr int kTileN = kGroups;  // gates of a block at a time
  // Gates; l follows, rank floats.
  static constexpr int kSharedBytes = kGroups * static_cast<int>(sizeof(float));
  using Params = HcUpMixParams;

  // Grid: groups of kTileN / streams columns, rows. At most kTileN streams.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_y();
    float* gates = t.shared<float>(0);  // [column][stream]
    float* low = t.shared<float>(kSharedBytes);
    for (int i = t.index(); i < p.rank; i += kThreads) low[i] = p.low[row * p.rank + i];
    t.sync();
    const int columns = kGroups / p.streams;
    const int first = t.block_x() * columns;
    const int group = t.index() / kSumLanes;
    const int column = first + group / p.streams;
    const int stream = group % p.streams;
    const bool active = group < columns * p.streams && column < p.width;
    const float sum = fold_lanes(
        t, active ? weight_lane(p.up, p.up.row(static_cast<int64_t>(stream) * p.width + column), low,
                                t.lane() % kSumLanes, p.rank)
                  : 0.0f);
    if (active && t.lane() % kSumLanes == 0) {
      gates[group] = numeric::sigmoid(p.up.scale != nullptr ? sum * p.up.scale[0] : sum);
    }
    t.sync();
    if (t.index() >= columns || first + t.index() >= p.width) return;
    const int64_t wide = static_cast<int64_t>(p.streams) * p.width;
    float x = 0.0f;
    for (int s = 0; s < p.streams; ++s) {
      x = numeric::fma(gates[t.index() * p.streams + s],
                       p.normed[row * wide + static_cast<int64_t>(s) * p.width + first + t.index()],
                       x);
    }
    p.x[row * p.width + first + t.index()] = x / static_cast<float>(p.streams);
  }
};

}  // namespace strata::gpu
