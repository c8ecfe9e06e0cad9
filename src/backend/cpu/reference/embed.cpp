#include "backend/cpu/reference/dense.h"
#include "backend/cpu/reference/launchers.h"

namespace strata::backend::reference {

Status embed(Stream& stream, const void* args) {
  const auto& a = *static_cast<const EmbedArgs*>(args);
  cpu(stream).pool().parallel_for(a.rows, [&](int64_t r, int) {
    const int64_t width = a.table.k;
    float* out = a.out + r * width;
    decode_row(a.table.type, weight_row(a.table, 0, a.ids[r]), out, width);
    const double factor = weight_factor(a.table, 0);
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(out[i] * factor);
  });
  return {};
}

}  // namespace strata::backend::reference
