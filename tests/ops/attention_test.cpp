#include "ops/support/harness.h"
#include "ops/support/random_operands.h"

namespace strata::ops_test {
namespace {

using backend::KvType;

struct AttentionCase {
  using Args = backend::AttentionArgs;
  int start, count, heads, kv_heads, dim;
  KvType type;
  float scale;
  std::vector<float> q, k, v;
  std::vector<uint16_t> k16, v16;
  std::vector<int8_t> k8, v8;  // codes, with a scale per 32
  std::vector<float> k_scales, v_scales;
  std::vector<std::vector<int32_t>> cells;  // per row; empty: all that are visible

  AttentionCase(Random& random, int start, int rows, int heads, int kv_heads, int dim, KvType type)
      : start(start),
        count(rows),
        heads(heads),
        kv_heads(kv_heads),
        dim(dim),
        type(type),
        scale(1 / std::sqrt(static_cast<float>(dim))),
        q(random.normal(rows * heads * 2 * dim, 1.5)),
        k(random.normal((start + rows) * kv_heads * dim)),
        v(random.normal((start + rows) * kv_heads * dim)),
        cells(static_cast<size_t>(rows)) {
    if (type == KvType::kF32) return;
    if (type == KvType::kI8) {
      const auto code = [&](std::vector<float>& values, std::vector<int8_t>& codes,
                            std::vector<float>& scales) {
        for (size_t i = 0; i < values.size(); ++i) {
          if (i % 32 == 0) scales.push_back(static_cast<float>(random.uniform(0.001, 0.02)));
          codes.push_back(static_cast<int8_t>(random.integer(-127, 127)));
          values[i] = scales.back() * static_cast<float>(codes.back());
        }
      };
      code(k, k8, k_scales);
      code(v, v8, v_scales);
      return;
    }
    const auto halve = [](std::vector<float>& values, std::vector<uint16_t>& halves) {
      for (float& x : values) {
        halves.push_back(quant::float_to_half(x));
        x = quant::half_to_float(halves.back());
      }
    };
    halve(k, k16);
    halve(v, v16);
  }

  // Every row attends a random part of what it sees, its own cell included.
  void select(Random& random, double share) {
    for (int r = 0; r < count; ++r) {
      cells[r].clear();
      for (int t = 0; t < start + r; ++t) {
        if (random.uniform(0, 1) < share) cells[r].push_back(t);
      }
      if (!cells[r].empty()) cells[r].pop_back();
      cells[r].push_back(start + r);
    }
  }

  int max_cells() const {
    size_t most = 1;
    for (const auto& list : cells) most = std::max(most, list.size());
    return static_cast<int>(most);
  }
  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return std::nullopt; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    const int stride = max_cells();
    std::vector<int32_t> lists(static_cast<size_t>(count * stride), -1), counts;
    for (int r = 0; r < count; ++r) {
      std::copy(cells[r].begin(), cells[r].end(), &lists[r * stride]);
      counts.push_back(cells[r].empty() ? start + r + 1 : static_cast<int>(cells[r].size()));
    }
    std::vector<float> y(static_cast<size_t>(count * heads * dim), NAN);
    std::vector<float> keys = k, values = v;
    std::vector<uint16_t> keys16 = k16, values16 = v16;
    Args a{};
    a.cache.type = type;
    a.cache.capacity = start + count;
    a.cache.k = type == KvType::kF32 ? static_cast<void*>(keys.data()) : keys16.data();
    a.cache.v = type == KvType::kF32 ? static_cast<void*>(values.data()) : values16.data();
    std::vector<int8_t> keys8 = k8, values8 = v8;
    std::vector<float> key_scales = k_scales, value_scales = v_scales;
    if (type == KvType::kI8) {
      a.cache.k = keys8.data();
      a.cache.v = values8.data();
      a.cache.k_scales = key_scales.data();
      a.cache.v_scales = value_scales.data();
    }
    a.scale = scale;
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.head_dim = dim;
    a.max_cells = stride;
    int64_t at = 0;
    for (int rows : calls) {
      a.q = &q[at * heads * 2 * dim];
      a.cells = &lists[at * stride];
      a.counts = &counts[at];
      a.out = &y[at * heads * dim];
      a.start = start + at;
      a.rows = rows;
      launch(spec, device, &a);
      at += rows;
    }
    Outputs out;
    out.add(y);
    return out;
  }

  template <class N>
  std::vector<N> expected() const {
    std::vector<N> out;
    for (int r = 0; r < count; ++r) {
      std::vector<int32_t> list = cells[r];
      for (int t = 0; list.empty() ? t == 0 : cells[r].empty() && t <= start + r; ++t) {
        list.push_back(t);
      }
      for (int h = 0; h < heads; ++h) {
        const float* query = &q[(r * heads + h) * 2 * dim];
        const int64_t kv = h / (heads / kv_heads);
        std::vector<N> p;
        N top(-INFINITY);
        for (int32_t t : list) {
          p.push_back(dot<N>(query, &k[(t * kv_heads + kv) * dim], dim) * N(scale));
          top = max(top, p.back());
        }
        // Subtracting the maximum, however wrong, cancels out of the softmax.
        for (N& x : p) x = exp(x - N(top.v));
        const std::vector<float> ones(p.size(), 1.0f);
        const N total = dot<N>(p.data(), ones.data(), static_cast<int64_t>(p.size()));
        for (int i = 0; i < dim; ++i) {
          std::vector<float> column;
          for (int32_t t : list) column.push_back(v[(t * kv_heads + kv) * dim + i]);
          const N sum = dot<N>(p.data(), column.data(), static_cast<int64_t>(p.size()));
          out.push_back(sum / total * sigmoid(N(query[dim + i])));
        }
      }
    }
    return out;
  }
};

class Attention : public OpTest {};

TEST_F(Attention, IsGatedSoftmaxAttentionOverAllThatIsSeen) {
  Random random(1);
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (int rows : {1, 2, 3, 7, 8, 9, 64, 65}) {
      SCOPED_TRACE(testing::Message() << rows << " rows");
      check(AttentionCase(random, 5, rows, 4, 2, 16, type));
    }
  }
}

TEST_F(Attention, ReadsTheSelectedCellsOnly) {
  Random random(2);
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (int start : {1, 40, 600}) {
      SCOPED_TRACE(testing::Message() << "start " << start);
      AttentionCase c(random, start, 9, 6, 2, 24, type);
      c.select(random, 0.5);
      check(c);
      // What was not selected must not matter.
      AttentionCase poisoned = c;
      for (int t = 0; t < start; ++t) {
        bool used = false;
        for (const auto& list : c.cells) used |= std::binary_search(list.begin(), list.end(), t);
        if (used) continue;
        for (int i = 0; i < 2 * 24; ++i) {
          poisoned.k[t * 48 + i] = poisoned.v[t * 48 + i] = NAN;
          if (type == KvType::kF16) poisoned.k16[t * 48 + i] = poisoned.v16[t * 48 + i] = 0x7e00;
        }
      }
      for (const KernelSpec* spec : kernels_for(c)) {
        EXPECT_TRUE(same_bits(c.run(*spec, device(), {9}), poisoned.run(*spec, device(), {9})))
            << spec->name;
      }
    }
  }
}

TEST_F(Attention, ReadsInt8CellsWithTheirScales) {
  Random random(12);
  for (int rows : {1, 2, 9}) check(AttentionCase(random, 5, rows, 4, 2, 32, KvType::kI8));
  check(AttentionCase(random, 600, 2, 6, 2, 64, KvType::kI8));
  AttentionCase c(random, 300, 3, 12, 1, 256, KvType::kI8);
  c.select(random, 0.5);
  check(c);
  c.v_scales[c.v_scales.size() - 1] = NAN;  // of the last row's own cell
  for (const KernelSpec* spec : kernels_for(c)) {
    const std::vector<float> got = c.run(*spec, device(), {3}).floats;
    EXPECT_TRUE(std::isnan(got.back())) << spec->name;
    EXPECT_TRUE(std::isfinite(got.front())) << spec->name;
  }
}

TEST_F(Attention, TakesOddHeadSizesAndGroups) {
  Random random(3);
  check(AttentionCase(random, 3, 5, 3, 3, 7, KvType::kF32));
  check(AttentionCase(random, 3, 5, 5, 1, 33, KvType::kF16));
  check(AttentionCase(random, 0, 2, 24, 2, 256, KvType::kF16));
}

TEST_F(Attention, HoldsOverManySegments) {
  Random random(4);
  for (int start : {254, 255, 256, 511, 1100}) {
    SCOPED_TRACE(testing::Message() << "start " << start);
    check(AttentionCase(random, start, 3, 2, 1, 32, KvType::kF32));
  }
}

TEST_F(Attention, ReturnsTheGatedValueWhenOneCellIsSeen) {
  Random random(5);
  AttentionCase c(random, 0, 1, 2, 1, 4, KvType::kF32);
  for (int h = 0; h < 2; ++h) std::fill_n(&c.q[h * 8 + 4], 4, 0.0f);
  for (const KernelSpec* spec : kernels_for(c)) {
    const std::vector<float> got = c.run(*spec, device(), {1}).floats;
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got[i], 0.5f * c.v[i % 4]) << spec->name;
  }
}

TEST_F(Attention, SurvivesScoresFarApart) {
  Random random(6);
  AttentionCase c(random, 300, 4, 2, 1, 16, KvType::kF32);
  c.scale = 200;
  check(c);
}

TEST_F(Attention, TakesTheModelsHeads) {
  Random random(7);
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kI8}) {
    AttentionCase c(random, 610, 3, 12, 1, 256, type);
    expect_one_result(c);
    c.select(random, 0.9);
    expect_one_result(c);
  }
  expect_one_result(AttentionCase(random, 30, 3, 28, 2, 64, KvType::kF16));
}

TEST_F(Attention, KeepsANanInsideTheRowsThatReadIt) {
  Random random(8);
  AttentionCase c(random, 300, 4, 4, 2, 32, KvType::kF32);
  c.select(random, 0.5);
  const int32_t poisoned = 301;  // seen by the last three rows; row 1 is at it
  for (int r = 0; r < 4; ++r) std::erase(c.cells[r], poisoned);
  c.cells[2].insert(std::lower_bound(c.cells[2].begin(), c.cells[2].end(), poisoned), poisoned);
  c.k[static_cast<size_t>(poisoned * 2 * 32 + 3)] = NAN;  // the first key/value head
  expect_one_result(c);
  const std::vector<float> got = c.run(*kernels_for(c).front(), device(), {4}).floats;
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < 4 * 32; ++i) {
      EXPECT_EQ(std::isnan(got[static_cast<size_t>(r * 4 * 32 + i)]), r == 2 && i < 2 * 32)
          << "row " << r << ", value " << i;
    }
  }
}

}  // namespace
}  // namespace strata::ops_test
