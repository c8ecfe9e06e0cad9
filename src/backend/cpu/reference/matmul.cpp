#include "backend/cpu/reference/dense.h"
#include "backend/cpu/reference/launchers.h"

namespace strata::backend::reference {

Status matmul(Stream& stream, const void* args) {
  const auto& a = *static_cast<const MatmulArgs*>(args);
  for (const Product& p : a.products) {
    product(
        cpu(stream), p.w, a.rows, [&](int64_t r) { return a.x + r * p.w.k; },
        [&](int64_t r, int64_t n, double value) { p.y[r * p.w.n + n] = static_cast<float>(value); });
  }
  return {};
}

}  // namespace strata::backend::reference
