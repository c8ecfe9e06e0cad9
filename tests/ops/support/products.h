// The matrix product of the ops as a formula: exactly for reference rows; for all other rows by the
// int8 rule, in which activations meeting a quantised weight are first rounded to int8 per 32
// values (scale = amax / 127 as float, q = round half to even of x / scale, at most 127).
#pragma once

#include <cmath>

#include "ops/support/approx.h"
#include "ops/support/random_operands.h"

namespace strata::ops_test {

// 32 activations as integers. `doubtful` marks a q that may be one off, because the value it comes
// from is known only within its error and lies near a rounding boundary.
struct IntActivations {
  int q[32];
  bool doubtful[32];
  Contract scale;
};

template <class T>
IntActivations quantise(const T* x) {
  IntActivations out{};
  Contract amax(0);
  for (int i = 0; i < 32; ++i) amax = max(amax, abs(Contract(x[i])));
  out.scale = Contract(static_cast<float>(amax.v) / 127.0f, amax.e / 127.0);
  if (amax.e != 0) out.scale.e += Contract::kUnit * out.scale.v;
  if (out.scale.v == 0) return out;
  for (int i = 0; i < 32; ++i) {
    const Contract value(x[i]);
    const double t = static_cast<float>(value.v) / static_cast<float>(out.scale.v);
    const double q = std::nearbyint(t);
    out.q[i] = static_cast<int>(std::clamp(q, -127.0, 127.0));
    if (value.e == 0 && out.scale.e == 0) continue;
    const double slack =
        (value.e + std::abs(t) * out.scale.e) / out.scale.v + 2 * Contract::kUnit * std::abs(t);
    out.doubtful[i] = 0.5 - std::abs(t - q) <= slack;
  }
  return out;
}

inline Contract int8_dot(const Weight& w, int64_t expert, int64_t row,
                         const std::vector<IntActivations>& x) {
  const QuantInfo& info = quant_info(w.type);
  const uint8_t* block = w.row(expert, row);
  const int groups_per_block = info.elems / 32;
  double sum = 0, magnitude = 0, error = 0;
  for (size_t g = 0; g < x.size(); ++g) {
    IntGroup weights;
    const int group = static_cast<int>(g) % groups_per_block;
    info.unpack(block, group, weights);
    const Contract scale = x[g].scale;
    for (int half = 0; half < 2; ++half) {
      const double step = static_cast<double>(weights.d) * weights.scale[half];
      const double least = static_cast<double>(weights.dmin) * weights.min[half];
      int64_t product = 0, total = 0;
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        product += weights.q[i] * x[g].q[i];
        total += x[g].q[i];
        if (x[g].doubtful[i]) error += std::abs(step * weights.q[i] - least) * scale.v;
      }
      const double main = step * static_cast<double>(product);
      const double minimum = least * static_cast<double>(total);
      sum += (main - minimum) * scale.v;
      magnitude += (std::abs(main) + std::abs(minimum)) * scale.v;
      error += std::abs(main - minimum) * scale.e;
    }
    if (group + 1 == groups_per_block) block += info.bytes;
  }
  return {sum,
          error + chain_roundings(static_cast<int64_t>(x.size())) * Contract::kUnit * magnitude};
}

// All w.n outputs for one row x of w.k numbers.
template <class N, class T>
std::vector<N> product(const Weight& w, int64_t expert, const T* x) {
  std::vector<N> out;
  const N factor(w.factor(expert));
  if constexpr (std::is_same_v<N, Contract>) {
    if (quant_info(w.type).quantised) {
      std::vector<IntActivations> int8;
      for (int64_t i = 0; i < w.k; i += 32) int8.push_back(quantise(x + i));
      for (int64_t n = 0; n < w.n; ++n) out.push_back(factor * int8_dot(w, expert, n, int8));
      return out;
    }
  }
  for (int64_t n = 0; n < w.n; ++n) {
    const std::vector<float> weights = w.decoded(expert, n);
    out.push_back(factor * dot<N>(weights.data(), x, w.k));
  }
  return out;
}

}  // namespace strata::ops_test
