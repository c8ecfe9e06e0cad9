// Numbers that carry a bound on their rounding error, so that one formula gives both the value an
// op must produce and how far a kernel may lie from it (running error analysis).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace strata::ops_test {

// `v` is evaluated in double. `e` bounds the distance to a machine that rounds every operation to
// `kBits` significant bits.
template <int kBits>
struct Approx {
  static constexpr double kUnit = 1.0 / static_cast<double>(int64_t{1} << kBits);

  double v = 0;
  double e = 0;

  Approx() = default;
  Approx(double value, double error = 0) : v(value), e(error) {}  // NOLINT: numbers convert

  static Approx rounded(double v, double e) { return {v, e + kUnit * std::abs(v)}; }
  friend Approx operator+(Approx a, Approx b) { return rounded(a.v + b.v, a.e + b.e); }
  friend Approx operator-(Approx a, Approx b) { return rounded(a.v - b.v, a.e + b.e); }
  friend Approx operator*(Approx a, Approx b) {
    return rounded(a.v * b.v, std::abs(a.v) * b.e + std::abs(b.v) * a.e + a.e * b.e);
  }
  friend Approx operator/(Approx a, Approx b) {
    const double low = std::max(std::abs(b.v) - b.e, 1e-300);
    return rounded(a.v / b.v, (a.e + std::abs(a.v / b.v) * b.e) / low);
  }
  friend Approx operator-(Approx a) { return {-a.v, a.e}; }

  friend Approx sqrt(Approx a) {
    const double root = std::sqrt(a.v);
    return rounded(root, std::sqrt(a.v + a.e) - std::sqrt(std::max(0.0, a.v - a.e)));
  }
  // Kernels may use their own exp of a few ulps that saturates near the ends of the float range.
  friend Approx exp(Approx a) {
    constexpr double kUlps = 4, kSmallest = 2e-38;
    const double value = std::exp(a.v);
    return {value, value * (std::expm1(a.e) + kUlps * kUnit) + (kBits == 24 ? kSmallest : 0.0)};
  }
  friend Approx softplus(Approx a) {
    constexpr double kUlps = 8;
    const double value = a.v > 20 ? a.v : std::log1p(std::exp(a.v));
    return {value, a.e + kUlps * kUnit * value + 1e-30};
  }
  friend Approx abs(Approx a) { return {std::abs(a.v), a.e}; }
  friend Approx max(Approx a, Approx b) { return {std::max(a.v, b.v), std::max(a.e, b.e)}; }

  // A result kept in a float.
  Approx stored() const { return {v, e + std::abs(v) * 0x1p-24 + 0x1p-149}; }
};

using Exact = Approx<50>;     // reference rows: double precision, three bits to spare
using Contract = Approx<24>;  // all other rows: float

template <class N>
N sigmoid(N x) {
  const N small = exp(-abs(x));  // never overflows
  return (x.v > 0 ? N(1) : small) / (N(1) + small);
}
template <class N>
N silu(N x) {
  return x * sigmoid(x);
}

// Sums of n terms may be cut into lanes and segments in any way; the longest chain of roundings a
// term passes through is then about sqrt(n), never more than that plus a few.
inline double chain_roundings(int64_t n) { return 8 + std::sqrt(static_cast<double>(n)); }

template <class N, class A, class B>
N dot(const A* a, const B* b, int64_t n) {
  double sum = 0, magnitude = 0, error = 0;
  for (int64_t i = 0; i < n; ++i) {
    const N x(a[i]), y(b[i]);
    sum += x.v * y.v;
    magnitude += std::abs(x.v * y.v);
    error += std::abs(x.v) * y.e + std::abs(y.v) * x.e + x.e * y.e;
  }
  return N(sum, error + chain_roundings(n) * N::kUnit * magnitude);
}

// x / sqrt(mean of squares + eps) * weight.
template <class N, class T>
std::vector<N> rms_norm(const T* x, int64_t n, double eps, const float* weight) {
  const N factor = N(1) / sqrt(dot<N>(x, x, n) / N(static_cast<double>(n)) + N(eps));
  std::vector<N> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(N(x[i]) * factor * N(weight[i]));
  return out;
}

}  // namespace strata::ops_test
