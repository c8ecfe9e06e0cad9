// Sums of products in the canonical order of docs/ARITHMETIC.md: 16 strided partial sums, folded in
// halves. One half of a wave holds the 16 sums of one vector; or four threads hold four each.
#pragma once

#include "backend/gpu/prim/prim.h"
#include "backend/numeric.h"

namespace strata::gpu {

// Before a loop of constant length whose body indexes an array that must stay in registers.
#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_UNROLL _Pragma("unroll")
#else
#define STRATA_UNROLL
#endif

inline constexpr int kSumLanes = 16;

// Four floats that are read and written together; the address is a multiple of 16.
struct alignas(16) Float4 {
  float v[4];
};
STRATA_DEVICE Float4 load_float4(const float* p) {
  return *reinterpret_cast<const Float4*>(p);
}

// The total of the 16 lanes of each half wave, in all of them. a + b = b + a, so every lane gets the
// bits that the fold of the contract gives lane 0.
STRATA_DEVICE float fold_lanes(const Thread& t, float lane) {
  STRATA_UNROLL for (int step = kSumLanes / 2; step > 0; step /= 2) lane += t.shuffle_xor(lane, step);
  return lane;
}

// Half wave sum of squares of x[0, n) in global memory; `lane` is t.lane() % 16.
STRATA_DEVICE float half_wave_squares(const Thread& t, const float* x, int n) {
  float sum = 0.0f;
  for (int i = t.lane() % kSumLanes; i < n; i += kSumLanes) sum = numeric::fma(x[i], x[i], sum);
  return fold_lanes(t, sum);
}

STRATA_DEVICE float rms_factor(float sum_squares, int n, float eps) {
  return 1.0f / numeric::sqrt(sum_squares / static_cast<float>(n) + eps);
}

// Adds stage_a[i] * stage_b[i], i < count, to this thread's lane. The additions form one chain, so
// operands are read ahead of it.
STRATA_DEVICE float add_to_lane(const float* a, const float* b, int first, int count,
                                       float lane) {
  constexpr int kAhead = 8;
  int i = first;
  for (; i + (kAhead - 1) * kSumLanes < count; i += kAhead * kSumLanes) {
    float x[kAhead], y[kAhead];
    STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
      x[k] = a[i + k * kSumLanes];
      y[k] = b[i + k * kSumLanes];
    }
    STRATA_UNROLL for (int k = 0; k < kAhead; ++k) lane = numeric::fma(x[k], y[k], lane);
  }
  for (; i < count; i += kSumLanes) lane = numeric::fma(a[i], b[i], lane);
  return lane;
}

// Long vectors, a block each: all threads bring the values into shared memory in pieces, the lanes
// of a half wave add them up.
struct BlockSum {
  static constexpr int kPiece = 2048;  // values; whole rounds of the lanes
  // Two vectors at a time, and a result each.
  static constexpr int kSharedBytes = (2 * kPiece + 4) * static_cast<int>(sizeof(float));

  struct Two {
    float first, second;
  };

  // sum a(i)^2 and sum b(i)^2 over i < n, known to every thread.
  template <class A, class B>
  STRATA_DEVICE static Two squares(const Thread& t, int offset, int n, const A& a, const B& b) {
    float* piece = t.shared<float>(offset);
    float* result = piece + 2 * kPiece;
    float lane = 0.0f;
    for (int begin = 0; begin < n; begin += kPiece) {
      const int count = n - begin < kPiece ? n - begin : kPiece;
      t.sync();
      for (int i = t.index(); i < count; i += t.size()) {
        piece[i] = a(begin + i);
        piece[kPiece + i] = b(begin + i);
      }
      t.sync();
      if (t.wave() == 0) {
        const float* own = piece + t.lane() / kSumLanes * kPiece;
        lane = add_to_lane(own, own, t.lane() % kSumLanes, count, lane);
      }
    }
    if (t.wave() == 0) {
      lane = fold_lanes(t, lane);
      if (t.lane() % kSumLanes == 0) result[t.lane() / kSumLanes] = lane;
    }
    t.sync();
    return {result[0], result[1]};
  }

  // sum a(i) * b(i).
  template <class A, class B>
  STRATA_DEVICE static float products(const Thread& t, int offset, int n, const A& a, const B& b) {
    float* piece = t.shared<float>(offset);
    float* result = piece + 2 * kPiece;
    float lane = 0.0f;
    for (int begin = 0; begin < n; begin += kPiece) {
      const int count = n - begin < kPiece ? n - begin : kPiece;
      t.sync();
      for (int i = t.index(); i < count; i += t.size()) {
        piece[i] = a(begin + i);
        piece[kPiece + i] = b(begin + i);
      }
      t.sync();
      if (t.wave() == 0) {
        lane = add_to_lane(piece, piece + kPiece, t.lane() % kSumLanes, count, lane);
      }
    }
    if (t.wave() == 0) {
      lane = fold_lanes(t, lane);
      if (t.lane() == 0) result[2] = lane;
    }
    t.sync();
    return result[2];
  }

  // sum a(i)^2.
  template <class A>
  STRATA_DEVICE static float squares(const Thread& t, int offset, int n, const A& a) {
    float* piece = t.shared<float>(offset);
    float* result = piece + 2 * kPiece;
    float lane = 0.0f;
    for (int begin = 0; begin < n; begin += 2 * kPiece) {
      const int count = n - begin < 2 * kPiece ? n - begin : 2 * kPiece;
      t.sync();
      for (int i = t.index(); i < count; i += t.size()) piece[i] = a(begin + i);
      t.sync();
      if (t.wave() == 0) lane = add_to_lane(piece, piece, t.lane() % kSumLanes, count, lane);
    }
    if (t.wave() == 0) {
      lane = fold_lanes(t, lane);
      if (t.lane() == 0) result[3] = lane;
    }
    t.sync();
    return result[3];
  }
};

// Scores of kQueries vectors against kCells vectors at a time, by four threads: thread p of the four
// holds lanes 4p to 4p + 3 of every sum, so that what it reads of a vector is contiguous. Afterwards
// thread p has the totals of pairs p * kOwn onwards, a pair being query * kCells + cell.
template <int kQueries, int kCells>
struct QuadSums {
  static constexpr int kPairs = kQueries * kCells;
  static constexpr int kOwn = kPairs / 4;  // totals of one thread
  static_assert(kPairs % 4 == 0);
  float sum[kPairs][4];

  STRATA_DEVICE void clear() {
    STRATA_UNROLL for (int v = 0; v < kPairs; ++v) {
      STRATA_UNROLL for (int e = 0; e < 4; ++e) sum[v][e] = 0.0f;
    }
  }
  STRATA_DEVICE void add(int query, int cell, const Float4& q, const float (&values)[4]) {
    float* lanes = sum[query * kCells + cell];
    STRATA_UNROLL for (int e = 0; e < 4; ++e) lanes[e] = numeric::fma(q.v[e], values[e], lanes[e]);
  }
  // Lanes fold in halves: 8 apart is two threads away, 4 apart the next thread, 2 and 1 inside a
  // thread. Each exchange halves what a thread holds.
  STRATA_DEVICE void fold(const Thread& t, float (&total)[kOwn]) {
    exchange<kPairs / 2>(t, 2);
    exchange<kPairs / 4>(t, 1);
    STRATA_UNROLL for (int v = 0; v < kOwn; ++v) {
      const float even = sum[v][0] + sum[v][2];
      const float odd = sum[v][1] + sum[v][3];
      total[v] = even + odd;
    }
  }

 private:
  template <int kHalf>
  STRATA_DEVICE void exchange(const Thread& t, int mask) {
    const bool upper = (t.lane() & mask) != 0;
    STRATA_UNROLL for (int v = 0; v < kHalf; ++v) {
      STRATA_UNROLL for (int e = 0; e < 4; ++e) {
        const float low = sum[v][e];
        const float high = sum[v + kHalf][e];
        sum[v][e] = (upper ? high : low) + t.shuffle_xor(upper ? low : high, mask);
      }
    }
  }
};

}  // namespace strata::gpu
