// Which cells each query attends (docs/MODEL.md 3.7 steps 4 to 6).
#pragma once

#include "backend/gpu/kernels/lanes.h"
#include "backend/gpu/kernels/op_params.h"
#include "backend/gpu/kernels/radix_select.h"

namespace strata::gpu {

// Cells a query at `start + row` sees, and whether the budget leaves any out.
struct QsaRow {
  int seen, blocks;
  bool bound;
  STRATA_DEVICE static QsaRow of(int64_t start, int row, int ratio, int budget) {
    const auto seen = static_cast<int>(start + row + 1);
    const bool bound = ratio > 0 && seen > budget + ratio - 1;
    return {seen, bound ? seen / ratio : 0, bound};
  }
};

// Scores of complete blocks: sum over index heads of max(0, <i_h, K_b>), heads in order. A row is met
// by four heads at a time; four threads take kKeys block keys for one row, and kRows such fours side by
// side in a wave take the same keys for other rows.
template <class Arch, int kRows, int kKeys>
struct QsaScore {
  static constexpr int kThreads = 128;
  static constexpr int kLeastBlocks = 3;
  static constexpr int kFours = kThreads / 4;
  static constexpr int kTileN = kFours / kRows * kKeys;  // block keys of a tile
  static constexpr int kTileM = kRows;
  static constexpr int kHeads = kScoreHeads;
  // The dot products of a tile; the queries of the rows follow at run time.
  static constexpr int kSharedBytes = kFours * kKeys * kHeads * static_cast<int>(sizeof(float));
  using Sums = QuadSums<kHeads, kKeys>;
  using Params = QsaScoreParams;

  // Grid: spans of p.tiles tiles of block keys, tiles of rows from `first_row` on.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    float* queries = t.shared<float>(kSharedBytes);  // [kRows][kHeads][padded]
    const int padded = (p.dim + kSumLanes - 1) / kSumLanes * kSumLanes;
    const int four = t.index() / 4;
    const int first_row = p.first_row + t.block_y() * kRows;
    const int end_row = first_row + kRows < p.rows ? first_row + kRows : p.rows;
    const int64_t start = p.start.get();
    // The last row sees the most.
    const int most = QsaRow::of(start, end_row - 1, p.ratio, p.budget).blocks;
    const int row = first_row + four % kRows;
    const int blocks = row < end_row ? QsaRow::of(start, row, p.ratio, p.budget).blocks : 0;
    for (int head = 0; head < p.heads; head += kHeads) {
      const int heads = p.heads - head < kHeads ? p.heads - head : kHeads;
      t.sync();
      for (int i = t.index(); i < kRows * kHeads * padded; i += kThreads) {
        const int which = i / padded;
        const int h = which % kHeads;
        const int r = first_row + which / kHeads;
        const int e = i % padded;
        queries[i] = r < end_row && h < heads && e < p.dim
                         ? p.index_q[(static_cast<int64_t>(r) * p.heads + head + h) * p.dim + e]
                         : 0.0f;
      }
      t.sync();
      for (int tile = 0; tile < p.tiles; ++tile) {
        const int first_key = (t.block_x() * p.tiles + tile) * kTileN;
        if (first_key >= most) break;  // the same for the whole block
        score_tile(t, p, queries + four % kRows * kHeads * padded, padded,
                   first_key + four / kRows * kKeys, most, row, blocks, head, heads);
      }
    }
  }

 private:
  STRATA_DEVICE static void score_tile(const Thread& t, const Params& p, const float* queries,
                                       int padded, int own_key, int most, int row, int blocks,
                                       int head, int heads) {
    const int part = t.index() % 4;
    float total[Sums::kOwn];
    multiply(t, p, queries, padded, own_key, most, total);
    // The sum over heads wants the dots by key.
    float* own = t.shared<float>(0) + t.index() / 4 * kKeys * kHeads;
    STRATA_UNROLL for (int v = 0; v < Sums::kOwn; ++v) own[part * Sums::kOwn + v] = total[v];
    t.sync_wave();
    for (int c = part; c < kKeys; c += 4) {
      if (own_key + c >= blocks) continue;
      float* score = p.scores + row * p.stride + own_key + c;
      float sum = head == 0 ? 0.0f : *score;
      for (int h = 0; h < heads; ++h) sum += numeric::max(own[h * kKeys + c], 0.0f);
      *score = sum;
    }
    t.sync_wave();
  }

  STRATA_DEVICE static void multiply(const Thread& t, const Params& p, const float* queries,
                                     int padded, int own_key, int most,
                                     float (&total)[Sums::kOwn]) {
    const int part = t.index() % 4;
    const float* key[kKeys];
    STRATA_UNROLL for (int c = 0; c < kKeys; ++c) {
      const int k = own_key + c < most ? own_key + c : most - 1;
      key[c] = p.block_keys + static_cast<int64_t>(k) * p.dim;
    }
    Sums sums;
    sums.clear();
    if (p.dim % kSumLanes == 0) {
      // Keys of the next round are on their way while this one is added.
      Float4 next[kKeys];
      STRATA_UNROLL for (int c = 0; c < kKeys; ++c) next[c] = load_float4(key[c] + 4 * part);
      for (int i = 4 * part; i < p.dim; i += kSumLanes) {
        Float4 cell[kKeys];
        const int ahead = i + kSumLanes < p.dim ? i + kSumLanes : i;
        STRATA_UNROLL for (int c = 0; c < kKeys; ++c) {
          cell[c] = next[c];
          next[c] = load_float4(key[c] + ahead);
        }
        STRATA_UNROLL for (int h = 0; h < kHeads; ++h) {
          const Float4 q = load_float4(queries + h * padded + i);
          STRATA_UNROLL for (int c = 0; c < kKeys; ++c) sums.add(h, c, q, cell[c].v);
        }
      }
    } else {
      for (int i = 4 * part; i < padded; i += kSumLanes) {
        STRATA_UNROLL for (int e = 0; e < 4; ++e) {
          if (i + e >= p.dim) continue;
          STRATA_UNROLL for (int c = 0; c < kKeys; ++c) {
            const float value = key[c][i + e];
            STRATA_UNROLL for (int h = 0; h < kHeads; ++h) {
              float* lane = &sums.sum[h * kKeys + c][e];
              *lane = numeric::fma(queries[h * padded + i + e], value, *lane);
            }
          }
        }
      }
    }
    sums.fold(t, total);
  }
};

// The best blocks of a row, exactly: a score is never negative and never NaN, so its bits order as it
// does. Finds the score of the last block kept, some bits at a time, then lists what is above it and
// the lowest blocks that equal it, in order; the tail follows. A thread block per row.
template <class Arch>
struct QsaSelect {
  static constexpr int kThreads = 1024;
  static constexpr int kWaves = kThreads / Arch::kWave;
  static constexpr int kAhead = 8;  // scores of a thread that are on their way at once
  using Select = RadixSelect<Arch, kThreads>;
  static constexpr int kSharedBytes =
      Select::kSharedBytes + 2 * kWaves * static_cast<int>(sizeof(int));
  using Params = QsaSelectParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int row = t.block_x();
    const QsaRow q = QsaRow::of(p.start.get(), row, p.ratio, p.budget);
    if (!q.bound) {
      if (t.index() == 0) p.counts[row] = q.seen;
      return;
    }
    const float* scores = p.scores + row * p.stride;
    const int keep = p.budget / p.ratio < q.blocks ? p.budget / p.ratio : q.blocks;
    const Threshold last = find_last(t, scores, q.blocks, keep);
    int32_t* cells = p.cells + static_cast<int64_t>(row) * p.max_cells;
    list(t, scores, q.blocks, p.ratio, last, cells);
    const int whole = q.blocks * p.ratio;
    const int tail = q.seen - whole;
    if (t.index() < tail) cells[keep * p.ratio + t.index()] = whole + t.index();
    for (int i = t.index() + kThreads; i < tail; i += kThreads) {
      cells[keep * p.ratio + i] = whole + i;
    }
    if (t.index() == 0) p.counts[row] = keep * p.ratio + tail;
  }

 private:
  // Score bits of the last block kept, and how many of the blocks that have them are kept.
  struct Threshold {
    uint32_t bits;
    int equal;
  };

  STRATA_DEVICE static uint32_t bits_of(const float* scores, int i) {
    return quant::bits_from_float(scores[i]);
  }
  STRATA_DEVICE static int bit_count(uint32_t v) { return Select::bit_count(v); }

  STRATA_DEVICE static Threshold find_last(const Thread& t, const float* scores, int blocks,
                                           int keep) {
    uint32_t bits = 0;
    int wanted = keep;
    // Digits of 11, 11 and 10 bits, the highest first.
    for (int pass = 0; pass < 3; ++pass) {
      const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0;
      const int above_digit = pass == 0 ? 32 : pass == 1 ? 21 : 10;
      const uint32_t mask = (1u << (above_digit - shift)) - 1u;
      Select::clear(t);
      for (int first = 0; first < blocks; first += kAhead * kThreads) {
        uint32_t score[kAhead];
        STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
          const int i = first + k * kThreads + t.index();
          score[k] = i < blocks ? bits_of(scores, i) : 0u;
        }
        STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
          const bool counts = first + k * kThreads + t.index() < blocks &&
                              (pass == 0 || (score[k] ^ bits) >> above_digit == 0);
          Select::count(t, score[k] >> shift & mask, counts);
        }
      }
      const typename Select::Digit found = Select::find(t, wanted);
      bits |= static_cast<uint32_t>(found.digit) << shift;
      wanted = found.wanted;
    }
    return {bits, wanted};
  }

  // Each wave takes a run of blocks: counts first, so that all know where their lists begin.
  STRATA_DEVICE static void list(const Thread& t, const float* scores, int blocks, int ratio,
                                 Threshold last, int32_t* cells) {
    int* above_of = t.shared<int>(Select::kSharedBytes);
    int* equal_of = above_of + kWaves;
    const int run = ((blocks + kWaves - 1) / kWaves + 31) / 32 * 32;
    const int begin = t.wave() * run;
    const int end = begin + run < blocks ? begin + run : blocks;
    int above = 0, equal = 0;
    for (int first = begin; first < end; first += 32 * kAhead) {
      uint32_t score[kAhead];
      load_run(t, scores, first, end, score);
      STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
        const bool inside = first + 32 * k + t.lane() < end;
        above += bit_count(t.ballot(inside && score[k] > last.bits));
        equal += bit_count(t.ballot(inside && score[k] == last.bits));
      }
    }
    if (t.lane() == 0) {
      above_of[t.wave()] = above;
      equal_of[t.wave()] = equal;
    }
    t.sync();
    above = 0;
    equal = 0;
    for (int w = 0; w < t.wave(); ++w) {
      above += above_of[w];
      equal += equal_of[w];
    }
    const uint32_t lower = (1u << t.lane()) - 1u;
    for (int first = begin; first < end; first += 32 * kAhead) {
      uint32_t score[kAhead];
      load_run(t, scores, first, end, score);
      STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
        const int i = first + 32 * k + t.lane();
        const bool is_equal = i < end && score[k] == last.bits;
        const uint32_t equals = t.ballot(is_equal);
        const bool kept = (i < end && score[k] > last.bits) ||
                          (is_equal && equal + bit_count(equals & lower) < last.equal);
        const uint32_t keeps = t.ballot(kept);
        const int before = above + (equal < last.equal ? equal : last.equal);
        if (kept) {
          int32_t* out = cells + static_cast<int64_t>(before + bit_count(keeps & lower)) * ratio;
          for (int c = 0; c < ratio; ++c) out[c] = i * ratio + c;
        }
        const int equal_after = equal + bit_count(equals);
        const int equal_kept = (equal_after < last.equal ? equal_after : last.equal) -
                               (equal < last.equal ? equal : last.equal);
        above += bit_count(keeps) - equal_kept;
        equal = equal_after;
      }
    }
  }

  STRATA_DEVICE static void load_run(const Thread& t, const float* scores, int first, int end,
                                     uint32_t (&out)[kAhead]) {
    STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
      const int i = first + 32 * k + t.lane();
      out[k] = i < end ? bits_of(scores, i) : 0u;
    }
  }
};

// The cell-wise rule of a peer's release (QsaForm::kLc050), for parity runs. Which of equal cells it
// keeps depends on the heap by which the C++ library's partial sort selects, so one thread works that
// heap: a max-heap under "scores higher" puts the lowest-scoring kept cell on top, and a later cell
// that scores higher replaces it. A thread block per row.
template <class Arch>
struct QsaSelectCells {
  static constexpr int kThreads = 32;
  using Params = QsaSelectParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    if (t.index() != 0) return;
    const int row = t.block_x();
    const QsaRow q = QsaRow::of(p.start.get(), row, p.ratio, p.budget);
    if (!q.bound) {
      p.counts[row] = q.seen;
      return;
    }
    const int64_t total = p.start.at != nullptr ? p.start.get() + t.grid_x() : p.total;
    const auto padded = static_cast<int>((total + 255) / 256 * 256);
    const int width =
        p.budget + p.ratio - 1 < padded ? p.budget + p.ratio - 1 : padded;
    const Score score{p.scores + row * p.stride, q.seen, q.blocks * p.ratio, p.ratio};
    int32_t* heap = p.cells + static_cast<int64_t>(row) * p.max_cells;
    for (int i = 0; i < width; ++i) heap[i] = i;
    for (int parent = (width - 2) / 2; width > 1 && parent >= 0; --parent) {
      sink(heap, parent, width, heap[parent], score);
    }
    for (int i = width; i < padded; ++i) {
      if (score.better(i, heap[0])) sink(heap, 0, width, i, score);
    }
    int count = 0;
    for (int i = 0; i < width; ++i) {
      if (heap[i] < q.seen) heap[count++] = heap[i];
    }
    sort(heap, count);
    p.counts[row] = count;
  }

 private:
  struct Score {
    const float* block;
    int seen, whole, ratio;
    STRATA_DEVICE float of(int cell) const {
      if (cell >= seen) return -quant::float_from_bits(0x7F800000u);
      return cell >= whole ? 1e9f : block[cell / ratio];
    }
    STRATA_DEVICE bool better(int a, int b) const { return of(a) > of(b); }
  };

  // Puts `value` into a heap of `length` whose place `hole` is free: the hole goes down to a leaf,
  // always to the child that the order puts higher (the second of equals), then the value rises from
  // there, no further than where the hole was.
  STRATA_DEVICE static void sink(int32_t* heap, int hole, int length, int32_t value,
                                 const Score& score) {
    const int top = hole;
    int child = hole;
    while (child < (length - 1) / 2) {
      child = 2 * (child + 1);
      if (score.better(heap[child], heap[child - 1])) --child;
      heap[hole] = heap[child];
      hole = child;
    }
    if (length % 2 == 0 && child == (length - 2) / 2) {
      child = 2 * child + 1;
      heap[hole] = heap[child];
      hole = child;
    }
    while (hole > top) {
      const int parent = (hole - 1) / 2;
      if (!score.better(heap[parent], value)) break;
      heap[hole] = heap[parent];
      hole = parent;
    }
    heap[hole] = value;
  }

  // Ascending, in place: a heap whose top is the largest number, taken apart from the end.
  STRATA_DEVICE static void sort(int32_t* x, int count) {
    const auto settle = [x](int at, int length) {
      const int32_t value = x[at];
      for (int child = 2 * at + 1; child < length; child = 2 * at + 1) {
        if (child + 1 < length && x[child + 1] > x[child]) ++child;
        if (x[child] <= value) break;
        x[at] = x[child];
        at = child;
      }
      x[at] = value;
    };
    for (int i = count / 2 - 1; i >= 0; --i) settle(i, count);
    for (int end = count - 1; end > 0; --end) {
      const int32_t largest = x[0];
      x[0] = x[end];
      x[end] = largest;
      settle(0, end);
    }
  }
};

}  // namespace strata::gpu
