#include <numeric>

#include "ops/support/harness.h"
#include "ops/support/products.h"

namespace strata::ops_test {
namespace {

struct RouterCase {
  using Args = backend::RouterArgs;
  int count, used;
  Weight w;
  std::vector<float> x;

  RouterCase(Random& random, QuantType type, int rows, int64_t width, int experts, int used)
      : count(rows),
        used(used),
        w(random_weight(random, type, width, experts)),
        x(random.normal(rows * width, 2)) {}

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return w.type; }

  // Floats: weights. Ints: experts.
  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<int32_t> ids(static_cast<size_t>(count * used), -1);
    std::vector<float> weights(ids.size(), NAN);
    int64_t at = 0;
    for (int rows : calls) {
      std::vector<float> scratch(static_cast<size_t>(rows * w.n), NAN);
      const Args a{.w = w.ref(),
                   .x = &x[at * w.k],
                   .ids = &ids[at * used],
                   .weights = &weights[at * used],
                   .scratch = scratch.data(),
                   .rows = rows,
                   .used = used};
      launch(spec, device, &a);
      at += rows;
    }
    Outputs out;
    out.add(weights);
    out.add(ids);
    return out;
  }

  // e^logit of every expert, relative to the largest.
  template <class N>
  std::vector<N> odds(int row) const {
    std::vector<N> p = product<N>(w, 0, &x[row * w.k]);
    double top = -INFINITY;
    for (const N& logit : p) top = std::max(top, logit.v);
    for (N& logit : p) logit = exp(logit - N(top));
    return p;
  }
};

class Router : public OpTest {
 protected:
  template <class N>
  void expect_choice(const RouterCase& c, const Outputs& got) {
    std::vector<N> weights;
    for (int r = 0; r < c.count; ++r) {
      const std::vector<N> p = c.odds<N>(r);
      const int32_t* ids = &got.ints[static_cast<size_t>(r * c.used)];
      std::vector<bool> chosen(p.size());
      N sum(0);
      for (int j = 0; j < c.used; ++j) {
        ASSERT_TRUE(ids[j] >= 0 && ids[j] < c.w.n && !chosen[ids[j]]);
        chosen[ids[j]] = true;
        sum = sum + p[ids[j]];
      }
      // Best first, and none left out that is better beyond rounding.
      for (int j = 0; j + 1 < c.used; ++j) {
        EXPECT_GE(p[ids[j]].v + p[ids[j]].e, p[ids[j + 1]].v - p[ids[j + 1]].e);
      }
      const N last = p[ids[c.used - 1]];
      for (size_t e = 0; e < p.size(); ++e) {
        EXPECT_TRUE(chosen[e] || last.v + last.e >= p[e].v - p[e].e) << "expert " << e;
      }
      for (int j = 0; j < c.used; ++j) weights.push_back(p[ids[j]] / sum);
    }
    expect_within_bounds(got.floats, weights);
  }

  void check_router(const RouterCase& c) {
    expect_one_result(c);
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const Outputs got = c.run(*spec, device(), {c.count});
      if (spec->reference) {
        expect_choice<Exact>(c, got);
      } else {
        expect_choice<Contract>(c, got);
      }
    }
  }
};

TEST_F(Router, ChoosesTheBestExpertsAndSharesOneAmongThem) {
  Random random(1);
  for (QuantType type : {QuantType::kF32, QuantType::kBF16, QuantType::kQ8_0}) {
    for (int rows : {1, 2, 3, 7, 8, 9, 64, 65}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", " << rows << " rows");
      check_router(RouterCase(random, type, rows, 160, 48, 6));
    }
  }
  check_router(RouterCase(random, QuantType::kF32, 3, 2560, 512, 10));
  check_router(RouterCase(random, QuantType::kF32, 3, 33, 5, 5));
  check_router(RouterCase(random, QuantType::kF32, 300, 17, 9, 1));
}

TEST_F(Router, PutsTheLowerOfEqualExpertsFirst) {
  Random random(2);
  RouterCase c(random, QuantType::kF32, 6, 64, 24, 8);
  // Experts e, e + 8 and e + 16 are the same.
  const size_t third = c.w.bytes.size() / 3;
  std::copy_n(c.w.bytes.begin(), third, c.w.bytes.begin() + third);
  std::copy_n(c.w.bytes.begin(), third, c.w.bytes.begin() + 2 * third);
  check_router(c);
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const Outputs got = c.run(*spec, device(), {6});
    for (int r = 0; r < 6; ++r) {
      const int32_t* ids = &got.ints[static_cast<size_t>(8 * r)];
      for (int j = 0; j < 8; ++j) EXPECT_EQ(ids[j], ids[j / 3 * 3] + 8 * (j % 3));
    }
  }
}

TEST_F(Router, TakesTheFirstExpertsWhenAllAreEqual) {
  Random random(3);
  RouterCase c(random, QuantType::kF32, 1, 32, 16, 4);
  std::fill(c.x.begin(), c.x.end(), 0.0f);
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const Outputs got = c.run(*spec, device(), {1});
    EXPECT_EQ(got.ints, (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(got.floats, (std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f}));
  }
}

struct ExpertsCase {
  using Args = backend::ExpertsArgs;
  int count, used, width, hidden, experts;
  bool fused = false;
  Weight gate, up, down;
  std::vector<float> x, weights;
  std::vector<int32_t> ids;

  ExpertsCase(Random& random, QuantType in, QuantType out, int rows, int width, int hidden,
              int experts, int used)
      : count(rows),
        used(used),
        width(width),
        hidden(hidden),
        experts(experts),
        gate(random_weight(random, in, width, hidden, experts)),
        up(random_weight(random, in, width, hidden, experts)),
        down(random_weight(random, out, hidden, width, experts)),
        x(random.normal(rows * width, 2)) {
    for (int r = 0; r < rows; ++r) {
      std::vector<int32_t> all(static_cast<size_t>(experts));
      std::iota(all.begin(), all.end(), 0);
      for (int j = 0; j < used; ++j) {
        std::swap(all[j], all[random.integer(j, experts - 1)]);
        ids.push_back(all[j]);
        weights.push_back(static_cast<float>(random.uniform(0.01, 0.3)));
      }
    }
  }

  void fuse(Random& random) {
    fused = true;
    gate = random_weight(random, gate.type, width, 2 * hidden, experts);
  }

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return gate.type; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> y(static_cast<size_t>(count * width), NAN);
    int64_t at = 0;
    for (int rows : calls) {
      std::vector<float> scratch(static_cast<size_t>(rows * used * (2 * hidden + width)), NAN);
      const Args a{.gate = gate.ref(),
                   .up = fused ? backend::WeightRef{} : up.ref(),
                   .down = down.ref(),
                   .x = &x[at * width],
                   .ids = &ids[at * used],
                   .weights = &weights[at * used],
                   .y = &y[at * width],
                   .scratch = scratch.data(),
                   .rows = rows,
                   .used = used,
                   .width = width,
                   .hidden = hidden};
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
      std::vector<N> y(static_cast<size_t>(width), N(0));
      for (int j = 0; j < used; ++j) {
        const int32_t expert = ids[r * used + j];
        std::vector<N> g = product<N>(gate, expert, &x[r * width]);
        const std::vector<N> u = fused ? std::vector<N>(g.begin() + hidden, g.end())
                                       : product<N>(up, expert, &x[r * width]);
        std::vector<N> h;
        for (int i = 0; i < hidden; ++i) h.push_back(silu(g[i]) * u[i]);
        const std::vector<N> d = product<N>(down, expert, h.data());
        for (int i = 0; i < width; ++i) y[i] = y[i] + N(weights[r * used + j]) * d[i];
      }
      out.insert(out.end(), y.begin(), y.end());
    }
    return out;
  }
};

class Experts : public OpTest {};

TEST_F(Experts, AddUpTheChosenFeedForwards) {
  Random random(4);
  for (int rows : {1, 2, 3, 7, 8, 9, 64}) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    check(ExpertsCase(random, QuantType::kF32, QuantType::kBF16, rows, 45, 19, 8, 3));
  }
}

TEST_F(Experts, TakeEveryWeightType) {
  Random random(5);
  for (QuantType type : all_types()) {
    SCOPED_TRACE(quant_info(type).name);
    check(ExpertsCase(random, type, type, 3, 256, 256, 5, 2));
  }
}

TEST_F(Experts, MixWeightTypesOfGateUpAndDown) {
  Random random(6);
  check(ExpertsCase(random, QuantType::kIQ3_S, QuantType::kIQ4_NL, 4, 256, 160, 6, 4));
  check(ExpertsCase(random, QuantType::kQ4_K, QuantType::kQ2_0, 4, 256, 64, 6, 4));
  check(ExpertsCase(random, QuantType::kF32, QuantType::kQ8_0, 4, 40, 32, 6, 4));
  ExpertsCase c(random, QuantType::kQ8_0, QuantType::kF16, 4, 64, 32, 6, 4);
  c.up = random_weight(random, QuantType::kF32, 64, 32, 6);
  check(c);
}

TEST_F(Experts, AcceptGateAndUpInOneMatrix) {
  Random random(7);
  for (QuantType type : {QuantType::kF32, QuantType::kQ8_0}) {
    ExpertsCase c(random, type, type, 5, 64, 32, 4, 2);
    c.fuse(random);
    check(c);
  }
}

TEST_F(Experts, ApplyTheScaleOfTheMatrixOrOfEachExpert) {
  Random random(8);
  ExpertsCase c(random, QuantType::kNVFP4, QuantType::kNVFP4, 6, 64, 64, 5, 3);
  for (int e = 0; e < 5; ++e) {
    c.gate.scale.push_back(static_cast<float>(random.uniform(0.5, 2)));
    c.down.scale.push_back(static_cast<float>(random.uniform(0.5, 2)));
  }
  c.up.scale = {1.7f};
  check(c);
}

TEST_F(Experts, GiveSameBitsWhenManyRowsShareOneExpert) {
  Random random(9);
  check(ExpertsCase(random, QuantType::kF32, QuantType::kF32, 300, 12, 8, 2, 2));
}

struct SwiGluCase {
  using Args = backend::SwiGluArgs;
  int count, width;
  bool in_place;
  std::vector<float> gate, up;

  SwiGluCase(Random& random, int rows, int width, bool in_place)
      : count(rows),
        width(width),
        in_place(in_place),
        gate(random.normal(rows * width, 4)),
        up(random.normal(rows * width)) {}

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return std::nullopt; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> in = gate, other(gate.size(), NAN);
    std::vector<float>& y = in_place ? in : other;
    int64_t at = 0;
    for (int rows : calls) {
      const Args a{&in[at * width], &up[at * width], &y[at * width], rows, width};
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
    for (size_t i = 0; i < gate.size(); ++i) out.push_back(silu(N(gate[i])) * N(up[i]));
    return out;
  }
};

class SwiGlu : public OpTest {};

TEST_F(SwiGlu, IsSiluOfTheGateTimesUpAlsoInPlace) {
  Random random(10);
  for (bool in_place : {false, true}) {
    for (int rows : {1, 2, 9, 65}) check(SwiGluCase(random, rows, 37, in_place));
  }
}

TEST_F(SwiGlu, StaysFiniteForGatesOfAnySize) {
  Random random(11);
  SwiGluCase c(random, 1, 6, false);
  c.gate = {-1e4f, -100.0f, -88.0f, 88.0f, 100.0f, 1e4f};
  check(c);
}

struct SharedCase {
  using Args = backend::SharedExpertAddArgs;
  int count, width;
  Weight gate;
  std::vector<float> x, d, y;

  SharedCase(Random& random, QuantType type, int rows, int width)
      : count(rows),
        width(width),
        gate(random_weight(random, type, width, 1)),
        x(random.normal(rows * width)),
        d(random.normal(rows * width)),
        y(random.normal(rows * width)) {}

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return gate.type; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> sum = y;
    int64_t at = 0;
    for (int rows : calls) {
      const Args a{.gate = gate.ref(),
                   .x = &x[at * width],
                   .d = &d[at * width],
                   .y = &sum[at * width],
                   .rows = rows,
                   .width = width};
      launch(spec, device, &a);
      at += rows;
    }
    Outputs out;
    out.add(sum);
    return out;
  }

  template <class N>
  std::vector<N> expected() const {
    std::vector<N> out;
    for (int r = 0; r < count; ++r) {
      const N factor = sigmoid(product<N>(gate, 0, &x[r * width])[0]);
      for (int64_t i = r * width; i < (r + 1) * width; ++i) {
        out.push_back(N(y[i]) + factor * N(d[i]));
      }
    }
    return out;
  }
};

class SharedExpert : public OpTest {};

TEST_F(SharedExpert, IsAddedBehindItsGate) {
  Random random(12);
  for (QuantType type : {QuantType::kF32, QuantType::kF16, QuantType::kQ8_0}) {
    for (int rows : {1, 2, 3, 7, 8, 9, 64, 65}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", " << rows << " rows");
      check(SharedCase(random, type, rows, type == QuantType::kQ8_0 ? 96 : 91));
    }
  }
}

}  // namespace
}  // namespace strata::ops_test
