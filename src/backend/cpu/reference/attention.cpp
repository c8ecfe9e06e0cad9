#include "backend/cpu/reference/launchers.h"
#include "backend/cpu/reference/math.h"
#include "backend/op_args.h"
#include "format/quant/half.h"

namespace strata::backend::reference {

namespace {

void load_cell(const KvView& cache, const void* base, const float* scales, int64_t index, int n,
               double* out) {
  if (cache.type == KvType::kI8) {
    const auto* from = static_cast<const int8_t*>(base) + index;
    for (int i = 0; i < n; ++i) out[i] = scales[(index + i) / kKvGroup] * static_cast<float>(from[i]);
    return;
  }
  if (cache.type == KvType::kF16) {
    const auto* from = static_cast<const uint16_t*>(base) + index;
    for (int i = 0; i < n; ++i) out[i] = quant::half_to_float(from[i]);
  } else {
    const auto* from = static_cast<const float*>(base) + index;
    for (int i = 0; i < n; ++i) out[i] = from[i];
  }
}

// Row r, all query heads of one KV head, so that each cell is read once.
void attend(const AttentionArgs& a, int64_t r, int64_t kv_head, CpuStream& stream, int worker) {
  const int dim = a.head_dim;
  const int64_t group = a.heads / a.kv_heads, count = a.counts[r];
  const bool all = count == a.start + r + 1;
  const int32_t* cells = a.cells + r * a.max_cells;
  const auto cell_index = [&](int64_t i) {
    return ((all ? i : cells[i]) * a.kv_heads + kv_head) * dim;
  };
  auto* probability = static_cast<double*>(
      stream.scratch(worker, static_cast<size_t>(group * (count + dim) + dim) * sizeof(double)));
  double* sum = probability + group * count;
  double* cell = sum + group * dim;
  const float* q = a.q + (r * a.heads + kv_head * group) * 2 * dim;

  for (int64_t i = 0; i < count; ++i) {
    load_cell(a.cache, a.cache.k, a.cache.k_scales, cell_index(i), dim, cell);
    for (int64_t g = 0; g < group; ++g) {
      probability[g * count + i] = dot(q + g * 2 * dim, cell, dim) * a.scale;
    }
  }
  for (int64_t g = 0; g < group; ++g) {
    double* p = probability + g * count;
    const double highest = *std::max_element(p, p + count);
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += p[i] = std::exp(p[i] - highest);
    for (int64_t i = 0; i < count; ++i) p[i] /= total;
  }
  std::fill(sum, sum + group * dim, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    load_cell(a.cache, a.cache.v, a.cache.v_scales, cell_index(i), dim, cell);
    for (int64_t g = 0; g < group; ++g) {
      const double p = probability[g * count + i];
      double* out = sum + g * dim;
      for (int c = 0; c < dim; ++c) out[c] += p * cell[c];
    }
  }
  for (int64_t g = 0; g < group; ++g) {
    const float* gate = q + g * 2 * dim + dim;
    float* out = a.out + (r * a.heads + kv_head * group + g) * dim;
    for (int c = 0; c < dim; ++c) out[c] = static_cast<float>(sum[g * dim + c] * sigmoid(gate[c]));
  }
}

}  // namespace

Status attention(Stream& stream, const void* args) {
  const auto& a = *static_cast<const AttentionArgs*>(args);
  CpuStream& s = cpu(stream);
  s.pool().parallel_for(static_cast<int64_t>(a.rows) * a.kv_heads, [&](int64_t i, int worker) {
    attend(a, i / a.kv_heads, i % a.kv_heads, s, worker);
  });
  return {};
}

}  // namespace strata::backend::reference
