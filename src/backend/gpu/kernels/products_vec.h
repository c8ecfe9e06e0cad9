// Products of few activation rows with quantised weights: the weights are read once, as fast as
// memory gives them.
//
// A block takes kStreams runs of consecutive weight rows. Its waves take turns at steps of four
// segments: they copy the blocks of all streams as they lie in memory into shared memory, a step
// ahead where the group can, and each lane unpacks one group of 32 of each stream. The terms of a
// segment then stand in eight lanes; they change places through shared memory so that one lane adds
// them in order. Last, the segments' sums are added in order, a thread per result.
#pragma once

#include "backend/gpu/kernels/products.h"
#include "backend/gpu/kernels/unpack.h"

namespace strata::gpu {

template <class Arch, class Q, int kRows>
struct MatmulVec {
  using U = Unpack<Q>;
  using Params = ProductParams;

  static constexpr int kWaves = 4;
  static constexpr int kThreads = kWaves * Arch::kWave;
  // Eight streams share what a step costs besides unpacking, where shared memory holds them.
  static constexpr int kStreams =
      kRows == 1 && Arch::kAsyncCopy && 4 * kSegmentBytes<Q> <= 640 ? 8 : 4;
  static constexpr int kLeastBlocks = kRows == 1 && kStreams == 4 ? 5 : 4;
  static constexpr int kTileM = kRows;
  static constexpr int kTileN = kStreams;  // times rows_per_stream
  static constexpr int kStages = Arch::kAsyncCopy ? 2 : 1;
  static constexpr int kStepSegments = Arch::kWave / kSegmentGroups;
  static constexpr int kBlockGroups = Q::kElems / quant::kGroupElems;

  // Terms of so many activation rows change places at once.
  static constexpr int kPairRows = kRows < 2 ? 1 : 2;
  static constexpr int kValues = kStreams * kPairRows;
  static_assert(kValues <= kSegmentGroups);
  static constexpr bool kWide = U::kScales == SubScales::kWide;
  static constexpr bool kMin = U::kMins != Minimums::kNone;
  static constexpr int kTerms = kWide || kMin ? 2 : 1;
  static constexpr int kPitch = Arch::kWave + 1;

  static constexpr int kWindow = align16(kStepSegments * kSegmentBytes<Q>) + 16;
  static constexpr int kRing = kStages * kStreams * kWindow;
  static constexpr int kExchange = align16(kTerms * kValues * kPitch * 8);
  static constexpr int kWaveBytes = kRing + kExchange;
  static constexpr int kSumsOffset = kWaves * kWaveBytes;
  static constexpr int kSharedBytes = kSumsOffset;  // sum_bytes() more are asked for

  // Room for the segments' sums, padded against bank conflicts.
  static constexpr int sum_stride(int segments) { return segments | 1; }
  static constexpr int sum_bytes(int rows_per_stream, int segments) {
    return kStreams * rows_per_stream * kRows * sum_stride(segments) * 4;
  }

  struct alignas(8) Term {
    float factor, value;
  };

  STRATA_DEVICE static int row_of(const Params& p, int q) {
    return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(q)) * p.inverse_segments >>
                            ProductParams::kInverseBits);
  }
  // Bytes from the start of a stream to its segment `q`.
  STRATA_DEVICE static int offset_of(const Params& p, int q) {
    const int row = row_of(p, q);
    return row * static_cast<int>(p.row_bytes) + (q - row * p.segments) * kSegmentBytes<Q>;
  }

  struct Block {
    const uint8_t* data;  // of the first weight row
    const uint8_t* end;   // of the matrix
    int64_t stream_bytes;
    int rows;             // of weights, from `data` on
    int rows_per_stream;
    int segments;
    int total;            // segments of a stream
  };

  // A quarter of the wave copies one stream.
  STRATA_DEVICE static void copy_step(const Thread& t, const Params& p, const Block& b, int step,
                                      uint8_t* ring) {
    constexpr int kLanes = Arch::kWave / kStreams;
    constexpr int kPiece = 16 * kLanes;
    const int w = t.lane() / kLanes;
    if (w * b.rows_per_stream >= b.rows) return;
    const int q0 = step * kStepSegments;
    const int q1 = q0 + kStepSegments < b.total ? q0 + kStepSegments : b.total;
    const int from = offset_of(p, q0);
    const uint8_t* begin = b.data + w * b.stream_bytes + from;
    const auto shift = static_cast<int>(reinterpret_cast<uintptr_t>(begin) & 15u);
    const int first = t.lane() % kLanes * 16;
    const int bytes = offset_of(p, q1) - from + shift - first;
    const uint8_t* source = begin - shift + first;
    uint8_t* to = ring + w * kWindow + first;
    if (source + kWindow <= b.end) {
      STRATA_UNROLL for (int at = 0; at < kWindow; at += kPiece) {
        if (at < bytes) t.copy_async16(to + at, source + at);
      }
    } else {
      for (int at = 0; at < bytes; at += kPiece) copy_weights16(t, to + at, source + at, b.end);
    }
  }

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const MatrixRef& m = matrix_at(p.matrices, p.count, t.block_x());
    const RowTile tile = p.map.tile<kRows>(t.block_y());
    if (tile.count == 0) return;  // the same for the whole block
    const int block_rows = kStreams * p.rows_per_stream;
    const int first_row = (t.block_x() - m.first_block) * block_rows;
    Block b;
    b.data = m.data + tile.expert * m.expert_bytes + first_row * p.row_bytes;
    b.end = m.end;
    b.stream_bytes = p.rows_per_stream * p.row_bytes;
    b.rows = m.n - first_row;
    b.rows_per_stream = p.rows_per_stream;
    b.segments = p.segments;
    b.total = p.rows_per_stream * p.segments;
    const int steps = (b.total + kStepSegments - 1) / kStepSegments;

    const auto base = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(b.data));
    const auto stream_bytes = static_cast<uint32_t>(b.stream_bytes);

    uint8_t* ring = t.shared<uint8_t>(t.wave() * kWaveBytes);
    Term* exchange = t.shared<Term>(t.wave() * kWaveBytes + kRing);
    float* sums = t.shared<float>(kSumsOffset);
    const int stride = sum_stride(p.segments);

    const uint8_t* xq[kRows];
    const float* x_scale[kRows];
    const uint32_t* x_sums[kRows];
    STRATA_UNROLL for (int r = 0; r < kRows; ++r) {
      const int row = p.map.x_row(p.map.y_row(tile.first + (r < tile.count ? r : 0)));
      const int64_t at = static_cast<int64_t>(row) * p.segments * kSegmentGroups;
      xq[r] = p.x.q + at * quant::kGroupElems;
      x_scale[r] = p.x.scale + at;
      x_sums[r] = p.x.sums + at;
    }

    const int part = t.lane() / kSegmentGroups;   // which segment of the step
    const int place = t.lane() % kSegmentGroups;  // which group of it; later, which value
    if constexpr (kStages > 1) {
      if (t.wave() < steps) copy_step(t, p, b, t.wave(), ring);
      t.copy_async_commit();
    }
    int stage = 0;
    for (int step = t.wave(); step < steps; step += kWaves) {
      if constexpr (kStages > 1) {
        if (step + kWaves < steps) {
          copy_step(t, p, b, step + kWaves, ring + (1 - stage) * kStreams * kWindow);
        }
      } else {
        copy_step(t, p, b, step, ring);
      }
      t.copy_async_commit();
      t.template copy_async_wait<kStages - 1>();
      t.sync_wave();

      const int q0 = step * kStepSegments;
      const int step_offset = offset_of(p, q0);
      const int q = q0 + part;
      const bool inside = q < b.total;
      const int row = inside ? row_of(p, q) : 0;
      const int segment = inside ? q - row * b.segments : 0;
      const int group = segment * kSegmentGroups + place;
      const bool active = inside && group < p.groups;

      const int at = active ? row * static_cast<int>(p.row_bytes) + segment * kSegmentBytes<Q> -
                                  step_offset + place / kBlockGroups * Q::kBytes
                            : 0;
      WeightGroup weights[kStreams];
      STRATA_UNROLL for (int w = 0; w < kStreams; ++w) {
        // Where the copied window begins, modulo 16.
        const uint32_t shift = (base + static_cast<uint32_t>(w) * stream_bytes +
                                static_cast<uint32_t>(step_offset)) & 15u;
        const uint8_t* block = ring + (stage * kStreams + w) * kWindow + at + shift;
        if constexpr (has_order<U>()) {
          U::template group<true>(block, place % kBlockGroups, weights[w]);
        } else {
          U::group(block, place % kBlockGroups, weights[w]);
        }
      }

      STRATA_UNROLL for (int first = 0; first < kRows; first += kPairRows) {
        STRATA_UNROLL for (int i = 0; i < kPairRows; ++i) {
          const int r = first + i;
          uint32_t x[8], ordered[8];
          const auto low = load_as<Vec4>(xq[r] + group * quant::kGroupElems);
          const auto high = load_as<Vec4>(xq[r] + group * quant::kGroupElems + 16);
          x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
          x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
          if constexpr (has_order<U>()) {
            // Activations follow the weights, once for all streams.
            STRATA_UNROLL for (int k = 0; k < 4; ++k) {
              interleave_bytes(x[k], x[k + 4], ordered[2 * k], ordered[2 * k + 1]);
            }
          } else {
            STRATA_UNROLL for (int k = 0; k < 8; ++k) ordered[k] = x[k];
          }
          const float scale = x_scale[r][group];
          const uint32_t x_sum = kMin ? x_sums[r][group] : 0;
          STRATA_UNROLL for (int w = 0; w < kStreams; ++w) {
            Term* out = exchange + (w * kPairRows + i) * kPitch + t.lane();
            put_terms(weights[w], ordered, scale, x_sum, active, out);
          }
        }
        t.sync_wave();
        if (place < kValues && inside) {
          const Term* in = exchange + place * kPitch + part * kSegmentGroups;
          float sum = 0.0f;
          STRATA_UNROLL for (int g = 0; g < kSegmentGroups; ++g) {
            const auto term = load_as<Term>(in + g);
            sum = numeric::fma(term.factor, term.value, sum);
            if constexpr (kTerms == 2) {
              const auto second = load_as<Term>(in + kValues * kPitch + g);
              sum = numeric::fma(second.factor, second.value, sum);
            }
          }
          const int w = place / kPairRows;
          const int r = first + place % kPairRows;
          sums[((w * b.rows_per_stream + row) * kRows + r) * stride + segment] = sum;
        }
        t.sync_wave();
      }
      if constexpr (kStages > 1) stage = 1 - stage;
    }
    t.sync();

    const float factor = m.factor(tile.expert);
    for (int i = t.index(); i < block_rows * kRows; i += kThreads) {
      const int row = i / kRows;
      const int r = i % kRows;
      if (row >= b.rows || r >= tile.count) continue;
      float total = 0.0f;
      for (int s = 0; s < p.segments; ++s) total += sums[i * stride + s];
      m.y[p.map.y_row(tile.first + r) * m.y_stride + first_row + row] = total * factor;
    }
  }

  // The terms of one group: a factor and an exact integer, twice for types that have two terms.
  STRATA_DEVICE static void put_terms(const WeightGroup& g, const uint32_t (&x)[8], float x_scale,
                                      uint32_t x_sum, bool active, Term* out) {
    int low = 0, high = 0;
    STRATA_UNROLL for (int i = 0; i < 4; ++i) {
      low = dot4(static_cast<int>(g.q[i]), static_cast<int>(x[i]), low);
      high = dot4(static_cast<int>(g.q[i + 4]), static_cast<int>(x[i + 4]), high);
    }
    Term first, second{};
    if constexpr (kWide) {
      first = {g.d * static_cast<float>(g.scale[0]) * x_scale, static_cast<float>(low)};
      second = {g.d * static_cast<float>(g.scale[1]) * x_scale, static_cast<float>(high)};
    } else {
      int product;
      if constexpr (U::kScales == SubScales::kUnit) {
        product = low + high;
      } else if constexpr (U::kScales == SubScales::kOne) {
        product = g.scale[0] * (low + high);
      } else {
        product = g.scale[0] * low + g.scale[1] * high;
      }
      first = {g.d * x_scale, static_cast<float>(product)};
      if constexpr (kMin) {
        int minimum = low_sum(x_sum) + high_sum(x_sum);
        if constexpr (U::kMins == Minimums::kOne) minimum *= g.min[0];
        if constexpr (U::kMins == Minimums::kTwo) {
          minimum = g.min[0] * low_sum(x_sum) + g.min[1] * high_sum(x_sum);
        }
        second = {-(g.dmin * x_scale), static_cast<float>(minimum)};
      }
    }
    // Past the end of a row whatever lies in shared memory was unpacked; it must not count.
    if (!active) first.factor = second.factor = 0.0f;
    store_as(out, first);
    if constexpr (kTerms == 2) store_as(out + kValues * kPitch, second);
  }
};

}  // namespace strata::gpu
