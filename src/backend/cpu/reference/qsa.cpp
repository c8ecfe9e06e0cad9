#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/cpu/reference/launchers.h"
#include "backend/cpu/reference/math.h"
#include "backend/op_args.h"
#include "format/quant/half.h"

namespace strata::backend::reference {

namespace {

// rms(x) * norm, then rotated.
void norm_and_rotate(double* x, int n, const float* norm, double eps, const float* rope,
                     int rot_dim) {
  const double factor = rms_factor(x, n, eps);
  for (int i = 0; i < n; ++i) x[i] *= factor * norm[i];
  rotate(x, rope, rot_dim);
}

constexpr float kLargestHalf = 65504.0f;

// The rule of KvView for one group of kI8. Returns the scale.
float store_group(const double* x, int8_t* codes) {
  float amax = 0.0f;
  bool finite = true;
  for (int i = 0; i < kKvGroup; ++i) {
    const auto value = static_cast<float>(x[i]);
    finite = finite && std::isfinite(value);
    amax = std::max(amax, std::abs(value));
  }
  const float scale = finite ? amax / 127.0f : std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < kKvGroup; ++i) {
    const float ratio = scale > 0.0f ? static_cast<float>(x[i]) / scale : 0.0f;
    codes[i] = static_cast<int8_t>(std::clamp(std::nearbyint(ratio), -127.0f, 127.0f));
  }
  return scale;
}

// Stores a head's n values. Halves are clamped to the finite ones: one infinity would turn every
// later query into NaN.
void store_cache(const KvView& cache, void* base, float* scales, int64_t index, const double* x,
                 int n) {
  switch (cache.type) {
    case KvType::kF32:
      for (int i = 0; i < n; ++i) static_cast<float*>(base)[index + i] = static_cast<float>(x[i]);
      return;
    case KvType::kF16:
      for (int i = 0; i < n; ++i) {
        static_cast<uint16_t*>(base)[index + i] = quant::float_to_half(
            std::clamp(static_cast<float>(x[i]), -kLargestHalf, kLargestHalf));
      }
      return;
    case KvType::kI8:
      for (int i = 0; i < n; i += kKvGroup) {
        scales[(index + i) / kKvGroup] =
            store_group(x + i, static_cast<int8_t*>(base) + index + i);
      }
      return;
  }
}

void prepare_row(const QsaPrepareArgs& a, int64_t r, double* x) {
  const int dim = a.head_dim;
  const float* rope = a.rope + r * a.rot_dim;
  for (int64_t h = 0; h < a.heads; ++h) {
    float* q = a.q + (r * a.heads + h) * 2 * dim;
    std::copy(q, q + dim, x);
    norm_and_rotate(x, dim, a.q_norm, a.eps, rope, a.rot_dim);
    for (int i = 0; i < dim; ++i) q[i] = static_cast<float>(x[i]);
  }
  for (int64_t h = 0; h < a.kv_heads; ++h) {
    const float* k = a.k + (r * a.kv_heads + h) * dim;
    const float* v = a.v + (r * a.kv_heads + h) * dim;
    const int64_t cell = ((a.start + r) * a.kv_heads + h) * dim;
    std::copy(k, k + dim, x);
    norm_and_rotate(x, dim, a.k_norm, a.eps, rope, a.rot_dim);
    store_cache(a.cache, a.cache.k, a.cache.k_scales, cell, x, dim);
    std::copy(v, v + dim, x);
    store_cache(a.cache, a.cache.v, a.cache.v_scales, cell, x, dim);
  }
  if (a.ratio == 0) return;
  for (int64_t h = 0; h < a.index_heads; ++h) {
    float* q = a.index_q + (r * a.index_heads + h) * a.index_dim;
    std::copy(q, q + a.index_dim, x);
    norm_and_rotate(x, a.index_dim, a.index_q_norm, a.eps, rope, a.rot_dim);
    for (int i = 0; i < a.index_dim; ++i) q[i] = static_cast<float>(x[i]);
  }
}

// The key of the block whose tokens are first .. first + ratio - 1; those before `start` come from
// the tail.
void pool_block(const QsaPrepareArgs& a, int64_t first, double* x) {
  std::fill(x, x + a.index_dim, 0.0);
  for (int64_t slot = 0; slot < a.ratio; ++slot) {
    const int64_t token = first + slot;
    const float* key = token >= a.start ? a.index_k + (token - a.start) * a.index_dim
                                        : a.cache.tail_keys + slot * a.index_dim;
    for (int i = 0; i < a.index_dim; ++i) x[i] += key[i];
  }
  for (int i = 0; i < a.index_dim; ++i) x[i] /= a.ratio;
  const float* rope = first >= a.start ? a.rope + (first - a.start) * a.rot_dim : a.tail_rope;
  norm_and_rotate(x, a.index_dim, a.index_k_norm, a.eps, rope, a.rot_dim);
  float* out = a.cache.block_keys + first / a.ratio * a.index_dim;
  for (int i = 0; i < a.index_dim; ++i) out[i] = static_cast<float>(x[i]);
}

// Token t stays in slot t mod ratio until the next block overwrites it, so the tail depends on the
// sequence alone and not on where calls ended.
void keep_tail(const QsaPrepareArgs& a) {
  for (int64_t r = std::max(0, a.rows - a.ratio); r < a.rows; ++r) {
    const int64_t slot = (a.start + r) % a.ratio;
    const float* key = a.index_k + r * a.index_dim;
    const float* rope = a.rope + r * a.rot_dim;
    std::copy(key, key + a.index_dim, a.cache.tail_keys + slot * a.index_dim);
    std::copy(rope, rope + a.rot_dim, a.tail_rope + slot * a.rot_dim);
  }
}

double block_score(const QsaSelectArgs& a, int64_t r, int64_t block) {
  const float* key = a.block_keys + block * a.index_dim;
  double score = 0;
  for (int64_t h = 0; h < a.index_heads; ++h) {
    const float* q = a.index_q + (r * a.index_heads + h) * a.index_dim;
    score += std::max(0.0, dot(q, key, a.index_dim));
  }
  return score;
}

// The best budget / ratio blocks whole, then the tail.
void select_blocks(const QsaSelectArgs& a, int64_t r, CpuStream& stream, int worker) {
  const int64_t visible = a.start + r + 1, blocks = visible / a.ratio;
  const int64_t kept = std::min<int64_t>(a.budget / a.ratio, blocks);
  auto* score = static_cast<double*>(
      stream.scratch(worker, static_cast<size_t>(blocks) * (sizeof(double) + sizeof(int32_t))));
  auto* order = reinterpret_cast<int32_t*>(score + blocks);
  for (int64_t b = 0; b < blocks; ++b) score[b] = block_score(a, r, b);
  std::iota(order, order + blocks, 0);
  std::partial_sort(order, order + kept, order + blocks, [&](int32_t x, int32_t y) {
    return score[x] > score[y] || (score[x] == score[y] && x < y);
  });
  std::sort(order, order + kept);

  int32_t* cells = a.cells + r * a.max_cells;
  int32_t count = 0;
  for (int64_t i = 0; i < kept; ++i) {
    for (int32_t j = 0; j < a.ratio; ++j) cells[count++] = order[i] * a.ratio + j;
  }
  for (int64_t t = blocks * a.ratio; t < visible; ++t) cells[count++] = static_cast<int32_t>(t);
  a.counts[r] = count;
}

// The peer's rule: the best budget + ratio - 1 cells, where the cells of a block tie and the order
// among ties is the one that this very partial sort over all cells leaves.
void select_cells(const QsaSelectArgs& a, int64_t r, CpuStream& stream, int worker) {
  constexpr float kTailScore = 1e9f;
  const int64_t visible = a.start + r + 1, whole = visible / a.ratio * a.ratio;
  const int64_t cells_in_use = (a.total + 255) / 256 * 256;
  const int64_t kept = std::min<int64_t>(cells_in_use, a.budget + a.ratio - 1);
  auto* score = static_cast<float*>(stream.scratch(
      worker, static_cast<size_t>(cells_in_use) * (sizeof(float) + sizeof(int32_t))));
  auto* order = reinterpret_cast<int32_t*>(score + cells_in_use);
  std::fill(score, score + cells_in_use, -std::numeric_limits<float>::infinity());
  for (int64_t b = 0; b < whole / a.ratio; ++b) {
    const float value = static_cast<float>(block_score(a, r, b));
    std::fill_n(score + b * a.ratio, a.ratio, value);
  }
  std::fill(score + whole, score + visible, kTailScore);
  std::iota(order, order + cells_in_use, 0);
  std::partial_sort(order, order + kept, order + cells_in_use,
                    [&](int32_t x, int32_t y) { return score[x] > score[y]; });
  const auto last = std::partition(order, order + kept, [&](int32_t c) { return c < visible; });
  std::sort(order, last);
  std::copy(order, last, a.cells + r * a.max_cells);
  a.counts[r] = static_cast<int32_t>(last - order);
}

}  // namespace

Status qsa_prepare(Stream& stream, const void* args) {
  const auto& a = *static_cast<const QsaPrepareArgs*>(args);
  CpuStream& s = cpu(stream);
  const size_t bytes = sizeof(double) * std::max(a.head_dim, a.index_dim);
  s.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    prepare_row(a, r, static_cast<double*>(s.scratch(worker, bytes)));
  });
  if (a.ratio == 0) return {};
  const int64_t first_block = a.start / a.ratio;
  s.pool().parallel_for((a.start + a.rows) / a.ratio - first_block, [&](int64_t b, int worker) {
    pool_block(a, (first_block + b) * a.ratio, static_cast<double*>(s.scratch(worker, bytes)));
  });
  keep_tail(a);
  return {};
}

Status qsa_select(Stream& stream, const void* args) {
  const auto& a = *static_cast<const QsaSelectArgs*>(args);
  CpuStream& s = cpu(stream);
  s.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    const int64_t visible = a.start + r + 1;
    if (a.ratio == 0 || visible <= a.budget + a.ratio - 1) {
      a.counts[r] = static_cast<int32_t>(visible);
    } else if (a.form == QsaForm::kHf) {
      select_blocks(a, r, s, worker);
    } else {
      select_cells(a, r, s, worker);
    }
  });
  return {};
}

}  // namespace strata::backend::reference
