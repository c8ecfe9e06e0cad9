#include <numeric>

#include "backend/cpu/reference/dense.h"
#include "backend/cpu/reference/launchers.h"

namespace strata::backend::reference {

Status router(Stream& stream, const void* args) {
  const auto& a = *static_cast<const RouterArgs*>(args);
  CpuStream& s = cpu(stream);
  const int64_t experts = a.w.n;
  for (int64_t first = 0; first < a.rows; first += kRowChunk) {
    const int64_t rows = std::min<int64_t>(kRowChunk, a.rows - first);
    auto* logits = static_cast<double*>(
        s.shared_scratch(static_cast<size_t>(rows * experts) * sizeof(double)));
    product(
        s, a.w, rows, [&](int64_t r) { return a.x + (first + r) * a.w.k; },
        [&](int64_t r, int64_t n, double value) { logits[r * experts + n] = value; });
    s.pool().parallel_for(rows, [&](int64_t r, int worker) {
      double* p = logits + r * experts;
      const double highest = *std::max_element(p, p + experts);
      double total = 0;
      for (int64_t e = 0; e < experts; ++e) total += p[e] = std::exp(p[e] - highest);
      for (int64_t e = 0; e < experts; ++e) p[e] /= total;
      auto* order =
          static_cast<int32_t*>(s.scratch(worker, static_cast<size_t>(experts) * sizeof(int32_t)));
      std::iota(order, order + experts, 0);
      std::partial_sort(order, order + a.used, order + experts, [&](int32_t x, int32_t y) {
        return p[x] > p[y] || (p[x] == p[y] && x < y);
      });
      double selected = 0;
      for (int j = 0; j < a.used; ++j) selected += p[order[j]];
      for (int j = 0; j < a.used; ++j) {
        a.ids[(first + r) * a.used + j] = order[j];
        a.weights[(first + r) * a.used + j] = static_cast<float>(p[order[j]] / selected);
      }
    });
  }
  return {};
}

namespace {

// The (row, choice) pairs of a chunk grouped by expert: those of active[i] are
// order[first[i]] .. order[first[i + 1] - 1].
struct Grouping {
  int64_t active_count;
  int32_t* active;
  int32_t* first;
  int32_t* order;
};

Grouping group_pairs(const int32_t* ids, int64_t pairs, int64_t experts, int32_t* memory) {
  Grouping g{0, memory, memory + experts, memory + 2 * experts + 1};
  int32_t* cursor = g.order + pairs;
  std::fill(cursor, cursor + experts, 0);
  for (int64_t p = 0; p < pairs; ++p) ++cursor[ids[p]];
  g.first[0] = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (cursor[e] == 0) continue;
    const int32_t begin = g.first[g.active_count], size = cursor[e];
    cursor[e] = begin;
    g.active[g.active_count++] = static_cast<int32_t>(e);
    g.first[g.active_count] = begin + size;
  }
  for (int64_t p = 0; p < pairs; ++p) g.order[cursor[ids[p]]++] = static_cast<int32_t>(p);
  return g;
}

// store(pair, n, value) for every pair and the rows of its expert of w.
template <class XRow, class Store>
void grouped_product(CpuStream& stream, const WeightRef& w, const Grouping& g, XRow&& x_row,
                     Store&& store) {
  const int64_t blocks = block_count(w);
  stream.pool().parallel_for(g.active_count * blocks, [&](int64_t i, int worker) {
    const int64_t group = i / blocks;
    const int32_t* pairs = g.order + g.first[group];
    product_block(
        stream, worker, w, g.active[group], i % blocks, g.first[group + 1] - g.first[group],
        [&](int64_t p) { return x_row(pairs[p]); },
        [&](int64_t p, int64_t n, double value) { store(pairs[p], n, value); });
  });
}

void expert_chunk(CpuStream& stream, const ExpertsArgs& a, int64_t first, int64_t rows) {
  const int64_t hidden = a.hidden, width = a.width, pairs = rows * a.used;
  const int64_t experts = a.gate.experts;
  const size_t doubles = static_cast<size_t>(pairs * (2 * hidden + width));
  const size_t ints = static_cast<size_t>(3 * experts + 1 + pairs);
  auto* gate_up = static_cast<double*>(
      stream.shared_scratch(doubles * sizeof(double) + ints * sizeof(int32_t)));
  double* down = gate_up + pairs * 2 * hidden;
  const Grouping grouping = group_pairs(a.ids + first * a.used, pairs, experts,
                                        reinterpret_cast<int32_t*>(gate_up + doubles));

  const auto x_row = [&](int64_t p) { return a.x + (first + p / a.used) * width; };
  grouped_product(stream, a.gate, grouping, x_row,
                  [&](int64_t p, int64_t n, double value) { gate_up[p * 2 * hidden + n] = value; });
  if (a.up.present()) {
    grouped_product(stream, a.up, grouping, x_row, [&](int64_t p, int64_t n, double value) {
      gate_up[p * 2 * hidden + hidden + n] = value;
    });
  }
  stream.pool().parallel_for(pairs, [&](int64_t p, int) {
    double* gate = gate_up + p * 2 * hidden;
    for (int64_t i = 0; i < hidden; ++i) gate[i] = silu(gate[i]) * gate[hidden + i];
  });
  grouped_product(
      stream, a.down, grouping, [&](int64_t p) { return gate_up + p * 2 * hidden; },
      [&](int64_t p, int64_t n, double value) { down[p * width + n] = value; });
  stream.pool().parallel_for(rows, [&](int64_t r, int) {
    const float* weights = a.weights + (first + r) * a.used;
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < a.used; ++j) sum += weights[j] * down[(r * a.used + j) * width + c];
      a.y[(first + r) * width + c] = static_cast<float>(sum);
    }
  });
}

}  // namespace

Status experts(Stream& stream, const void* args) {
  const auto& a = *static_cast<const ExpertsArgs*>(args);
  for (int64_t first = 0; first < a.rows; first += kRowChunk) {
    expert_chunk(cpu(stream), a, first, std::min<int64_t>(kRowChunk, a.rows - first));
  }
  return {};
}

Status swiglu(Stream& stream, const void* args) {
  const auto& a = *static_cast<const SwiGluArgs*>(args);
  const int64_t width = a.width;
  cpu(stream).pool().parallel_for(a.rows, [&](int64_t r, int) {
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      a.out[i] = static_cast<float>(silu(a.gate[i]) * a.up[i]);
    }
  });
  return {};
}

Status shared_expert_add(Stream& stream, const void* args) {
  const auto& a = *static_cast<const SharedExpertAddArgs*>(args);
  const int64_t width = a.width;
  product(
      cpu(stream), a.gate, a.rows, [&](int64_t r) { return a.x + r * width; },
      [&](int64_t r, int64_t, double value) {
        const double gate = sigmoid(value);
        for (int64_t i = r * width; i < (r + 1) * width; ++i) {
          a.y[i] = static_cast<float>(a.y[i] + gate * a.d[i]);
        }
      });
  return {};
}

}  // namespace strata::backend::reference
