#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/reference/launchers.h"
#include "backend/op_args.h"

namespace strata::backend::reference {

Status top_k_logits(Stream& stream, const void* args) {
  const auto& a = *static_cast<const TopKLogitsArgs*>(args);
  auto& s = static_cast<CpuStream&>(stream);
  const auto valid = static_cast<size_t>(a.valid);
  auto* order = static_cast<int32_t*>(s.shared_scratch(valid * sizeof(int32_t)));
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* logits = a.logits + r * a.stride;
    const auto faulty = [logits](int32_t id) { return !(logits[id] < INFINITY); };
    std::iota(order, order + valid, 0);
    std::partial_sort(order, order + a.k, order + valid, [&](int32_t x, int32_t y) {
      if (faulty(x) || faulty(y)) return faulty(x) && (!faulty(y) || x < y);
      return logits[x] > logits[y] || (logits[x] == logits[y] && x < y);
    });
    for (int64_t j = 0; j < a.k; ++j) {
      a.ids[r * a.k + j] = order[j];
      a.values[r * a.k + j] = logits[order[j]];
    }
  }
  return {};
}

}  // namespace strata::backend::reference
