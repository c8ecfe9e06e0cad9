// The matrix product of the reference rows. Blocks of weight rows are decoded once and then meet
// every x row; all tile shapes sum in the same order, the one of dot() in math.h.
#pragma once

#include <cstring>

#include "backend/cpu/reference/math.h"
#include "backend/op_args.h"

namespace strata::backend::reference {

inline constexpr int64_t kBlockRows = 8;  // weight rows decoded together

// Ops that keep intermediate rows in double handle at most this many rows at a time, which bounds
// their memory; it is large enough to make decoding the weights again cheap.
inline constexpr int64_t kRowChunk = 256;

inline int64_t block_count(const WeightRef& w) { return (w.n + kBlockRows - 1) / kBlockRows; }

inline double weight_factor(const WeightRef& w, int64_t expert) {
  if (w.scale == nullptr) return 1.0;
  return w.scale[w.scale_count > 1 ? expert : 0];
}

inline const void* weight_row(const WeightRef& w, int64_t expert, int64_t row) {
  const auto* bytes = static_cast<const std::byte*>(w.data);
  return bytes + static_cast<size_t>(expert * w.n + row) * row_bytes(w.type, w.k);
}

// Compilers keep two-lane vectors in registers on every 64-bit machine.
typedef double Pair __attribute__((vector_size(16)));

inline Pair load_pair(const double* p) {
  Pair pair;
  std::memcpy(&pair, p, sizeof pair);
  return pair;
}

// out[i][j] = <w row i, x row j>; both have `k` elements and stride `k`.
template <int WRows, int XRows>
void product_tile(const double* w, const double* x, int64_t k, double (&out)[WRows][XRows]) {
  Pair low[WRows][XRows] = {}, high[WRows][XRows] = {};
  int64_t c = 0;
  for (; c + 4 <= k; c += 4) {
    for (int i = 0; i < WRows; ++i) {
      const Pair w_low = load_pair(w + i * k + c), w_high = load_pair(w + i * k + c + 2);
      for (int j = 0; j < XRows; ++j) {
        low[i][j] += w_low * load_pair(x + j * k + c);
        high[i][j] += w_high * load_pair(x + j * k + c + 2);
      }
    }
  }
  for (int i = 0; i < WRows; ++i) {
    for (int j = 0; j < XRows; ++j) {
      double sum[4] = {low[i][j][0], low[i][j][1], high[i][j][0], high[i][j][1]};
      for (int64_t rest = c; rest < k; ++rest) sum[rest - c] += w[i * k + rest] * x[j * k + rest];
      out[i][j] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
  }
}

// Calls store(r, n, value) for the weight rows n of block `block` and every r in [0, rows), where
// value = factor * <weight row n, x_row(r)> and x_row(r) points at w.k floats or doubles.
template <class XRow, class Store>
void product_block(CpuStream& stream, int worker, const WeightRef& w, int64_t expert, int64_t block,
                   int64_t rows, XRow&& x_row, Store&& store) {
  const int64_t k = w.k;
  const int64_t first = block * kBlockRows;
  const int64_t count = std::min(kBlockRows, w.n - first);
  const size_t doubles = static_cast<size_t>((kBlockRows + 2) * k);
  auto* weights = static_cast<double*>(
      stream.scratch(worker, doubles * sizeof(double) + static_cast<size_t>(k) * sizeof(float)));
  double* x = weights + kBlockRows * k;
  auto* decoded = reinterpret_cast<float*>(weights + doubles);

  for (int64_t i = 0; i < count; ++i) {
    decode_row(w.type, weight_row(w, expert, first + i), decoded, k);
    std::copy(decoded, decoded + k, weights + i * k);
  }
  const double factor = weight_factor(w, expert);
  const auto load_x = [&](int64_t r, double* to) {
    const auto* from = x_row(r);
    std::copy(from, from + k, to);
  };
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    load_x(r, x);
    load_x(r + 1, x + k);
    int64_t i = 0;
    for (; i + 2 <= count; i += 2) {
      double out[2][2];
      product_tile(weights + i * k, x, k, out);
      for (int a = 0; a < 2; ++a) {
        for (int b = 0; b < 2; ++b) store(r + b, first + i + a, factor * out[a][b]);
      }
    }
    if (i < count) {
      double out[1][2];
      product_tile(weights + i * k, x, k, out);
      for (int b = 0; b < 2; ++b) store(r + b, first + i, factor * out[0][b]);
    }
  }
  if (r < rows) {
    load_x(r, x);
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      double out[4][1];
      product_tile(weights + i * k, x, k, out);
      for (int a = 0; a < 4; ++a) store(r, first + i + a, factor * out[a][0]);
    }
    for (; i < count; ++i) {
      double out[1][1];
      product_tile(weights + i * k, x, k, out);
      store(r, first + i, factor * out[0][0]);
    }
  }
}

// product_block over all of a matrix with one expert. store() may be called from several workers.
template <class XRow, class Store>
void product(CpuStream& stream, const WeightRef& w, int64_t rows, XRow&& x_row, Store&& store) {
  stream.pool().parallel_for(block_count(w), [&](int64_t block, int worker) {
    product_block(stream, worker, w, 0, block, rows, x_row, store);
  });
}

}  // namespace strata::backend::reference
