// Scalar formulas and row reductions of the reference rows, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/cpu_device.h"

namespace strata::backend::reference {

inline CpuStream& cpu(Stream& stream) { return static_cast<CpuStream&>(stream); }

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

// Four partial sums, element i into sum i mod 4: short enough chains to keep the adders busy, and
// one order for every caller.
template <class A, class B>
double dot(const A* a, const B* b, int64_t n) {
  double sum[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      sum[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (int lane = 0; i < n; ++i, ++lane) {
    sum[lane] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The factor of rms(x): 1 / sqrt(mean of squares + eps).
template <class T>
double rms_factor(const T* x, int64_t n, double eps) {
  return 1.0 / std::sqrt(dot(x, x, n) / static_cast<double>(n) + eps);
}

// Rotates the pairs (i, i + rot_dim / 2) of the first rot_dim elements; `rope` is one row of
// rot_dim / 2 cosines, then rot_dim / 2 sines.
inline void rotate(double* x, const float* rope, int rot_dim) {
  const int half = rot_dim / 2;
  for (int i = 0; i < half; ++i) {
    const double c = rope[i], s = rope[half + i];
    const double a = x[i], b = x[i + half];
    x[i] = a * c - b * s;
    x[i + half] = a * s + b * c;
  }
}

// Appends `rows` rows to a history of the last `length` rows, oldest first.
inline void shift_history(float* history, int64_t length, const float* added, int64_t rows,
                          int64_t width) {
  for (int64_t slot = 0; slot < length; ++slot) {
    const int64_t from = slot + rows;
    const float* source = from < length ? history + from * width : added + (from - length) * width;
    std::copy(source, source + width, history + slot * width);
  }
}

}  // namespace strata::backend::reference
