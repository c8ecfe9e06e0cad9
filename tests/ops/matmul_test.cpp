#include "ops/support/harness.h"
#include "ops/support/products.h"

#include "ops/ops.h"

namespace strata::ops_test {
namespace {

struct MatmulCase {
  using Args = backend::MatmulArgs;
  Weight w;
  std::vector<float> x;
  int count;

  MatmulCase(Random& random, QuantType type, int rows, int64_t k, int64_t n)
      : w(random_weight(random, type, k, n)), x(random.normal(rows * k)), count(rows) {}

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return w.type; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> y(static_cast<size_t>(count * w.n), NAN);
    int64_t at = 0;
    for (int rows : calls) {
      const backend::Product one{w.ref(), &y[at * w.n]};
      const Args args{.x = &x[at * w.k], .rows = rows, .products = {&one, 1}};
      launch(spec, device, &args);
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
      for (const N& y : product<N>(w, 0, &x[r * w.k])) out.push_back(y);
    }
    return out;
  }
};

// Row lengths that whole blocks of a type allow.
std::vector<int64_t> lengths_for(QuantType type) {
  std::vector<int64_t> out;
  for (int64_t k : {1, 5, 31, 33, 100, 160, 256, 320, 640, 2560}) {
    if (k % quant_info(type).elems == 0) out.push_back(k);
  }
  return out;
}

class Matmul : public OpTest {};

TEST_F(Matmul, IsTheProductForEveryWeightTypeAndRowLength) {
  Random random(1);
  for (QuantType type : all_types()) {
    for (int64_t k : lengths_for(type)) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", k = " << k);
      expect_formula(MatmulCase(random, type, 3, k, 37));
    }
  }
}

TEST_F(Matmul, GivesEachRowTheSameBitsAloneOrInABatch) {
  Random random(2);
  for (QuantType type : all_types()) {
    SCOPED_TRACE(quant_info(type).name);
    expect_one_result(MatmulCase(random, type, 9, lengths_for(type).back(), 19));
  }
}

TEST_F(Matmul, TakesAnyNumberOfRows) {
  Random random(3);
  for (QuantType type : {QuantType::kF32, QuantType::kBF16, QuantType::kQ8_0, QuantType::kIQ4_NL}) {
    for (int rows : {1, 2, 3, 7, 8, 9, 64, 65}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", " << rows << " rows");
      check(MatmulCase(random, type, rows, 320, 21));
    }
  }
}

TEST_F(Matmul, TakesAnyNumberOfOutputs) {
  Random random(4);
  for (QuantType type : {QuantType::kF32, QuantType::kQ4_K}) {
    for (int64_t n : {1, 2, 3, 8, 15, 16, 17, 33}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", n = " << n);
      check(MatmulCase(random, type, 5, 256, n));
    }
  }
}

TEST_F(Matmul, MultipliesByTheScaleOfTheMatrix) {
  Random random(5);
  for (QuantType type : {QuantType::kF16, QuantType::kNVFP4}) {
    MatmulCase c(random, type, 4, 320, 24);
    c.w.scale = {0.37f};
    check(c);
  }
}

TEST_F(Matmul, GivesExactlyZeroForARowOfZeros) {
  Random random(6);
  for (QuantType type : all_types()) {
    MatmulCase c(random, type, 2, lengths_for(type).back(), 8);
    std::fill(c.x.begin(), c.x.begin() + c.w.k, 0.0f);
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const Outputs got = c.run(*spec, device(), {2});
      for (int64_t n = 0; n < c.w.n; ++n) EXPECT_EQ(got.floats[static_cast<size_t>(n)], 0.0f);
    }
  }
}

TEST_F(Matmul, StandsLargeAndTinyActivations) {
  Random random(7);
  for (double size : {1e-30, 1e-6, 1e6, 1e30}) {
    for (QuantType type : {QuantType::kF32, QuantType::kQ6_K}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", activations of " << size);
      MatmulCase c(random, type, 3, 512, 16);
      for (float& x : c.x) x = static_cast<float>(x * size);
      check(c);
    }
  }
}

// An int8 step is scale wide, so its rounding error is uniform in +-scale / 2: variance
// scale^2 / 12. Summed over a row, seven deviations are not exceeded in as few draws as these.
TEST_F(Matmul, StaysWithinTheNoiseThatInt8ActivationsCause) {
  constexpr double kDeviations = 7;
  Random random(8);
  for (QuantType type : all_types()) {
    if (!quant_info(type).quantised) continue;
    SCOPED_TRACE(quant_info(type).name);
    const MatmulCase c(random, type, 8, lengths_for(type).back(), 32);
    const std::vector<Exact> exact = c.expected<Exact>();
    for (const KernelSpec* spec : kernels_for(c)) {
      if (spec->reference) continue;
      SCOPED_TRACE(spec->name);
      const Outputs got = c.run(*spec, device(), {c.count});
      for (int r = 0; r < c.count; ++r) {
        for (int64_t n = 0; n < c.w.n; ++n) {
          const std::vector<float> weights = c.w.decoded(0, n);
          double variance = 0, magnitude = 0;
          for (int64_t i = 0; i < c.w.k; i += 32) {
            const IntActivations group = quantise(&c.x[r * c.w.k + i]);
            for (int64_t j = i; j < i + 32; ++j) {
              variance += std::pow(weights[j] * group.scale.v, 2) / 12;
              magnitude += std::abs(weights[j] * c.x[r * c.w.k + j]);
            }
          }
          const size_t at = static_cast<size_t>(r * c.w.n + n);
          EXPECT_LE(std::abs(got.floats[at] - exact[at].v),
                    kDeviations * std::sqrt(variance) +
                        4 * chain_roundings(c.w.k) * Contract::kUnit * magnitude);
        }
      }
    }
  }
}

TEST_F(Matmul, GivesEachOfSeveralProductsTheBitsItHasAlone) {
  Random random(9);
  for (QuantType type : {QuantType::kF32, QuantType::kQ8_0, QuantType::kQ5_K}) {
    for (int rows : {1, 3, 20}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", " << rows << " rows");
      std::vector<MatmulCase> cases;
      for (int64_t n : {33, 1, 4, 700}) cases.emplace_back(random, type, rows, 512, n);
      for (const KernelSpec* spec : kernels_for(cases[0])) {
        SCOPED_TRACE(spec->name);
        std::vector<std::vector<float>> y;
        std::vector<backend::Product> products;
        for (MatmulCase& c : cases) {
          c.x = cases[0].x;
          y.emplace_back(static_cast<size_t>(rows * c.w.n), NAN);
          products.push_back({c.w.ref(), y.back().data()});
        }
        const backend::MatmulArgs args{
            .x = cases[0].x.data(), .rows = rows, .products = products};
        launch(*spec, device(2), &args);
        for (size_t i = 0; i < cases.size(); ++i) {
          EXPECT_EQ(y[i], cases[i].run(*spec, device(), {rows}).floats) << "product " << i;
        }
      }
    }
  }
}

TEST_F(Matmul, TakesProductsWhoseWeightsHaveDifferentTypes) {
  Random random(10);
  std::vector<MatmulCase> cases;
  for (QuantType type : {QuantType::kQ6_K, QuantType::kF32, QuantType::kQ6_K, QuantType::kF16}) {
    cases.emplace_back(random, type, 5, 256, 40);
    cases.back().x = cases[0].x;
  }
  std::vector<std::vector<float>> y(cases.size(), std::vector<float>(5 * 40, NAN));
  std::vector<backend::Product> products;
  for (size_t i = 0; i < cases.size(); ++i) products.push_back({cases[i].w.ref(), y[i].data()});
  const Status status = ops::matmul(
      device(2).stream(), {.x = cases[0].x.data(), .rows = 5, .products = products});
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < cases.size(); ++i) {
    const KernelSpec* spec = device().kernels().find(backend::OpId::kMatmul, cases[i].w.type);
    EXPECT_EQ(y[i], cases[i].run(*spec, device(), {5}).floats) << "product " << i;
  }
}

TEST_F(Matmul, RefusesProductsOfInputsOfDifferentLengths) {
  Random random(11);
  const MatmulCase a(random, QuantType::kF32, 1, 64, 4), b(random, QuantType::kF32, 1, 32, 4);
  std::vector<float> y(8);
  const backend::Product products[] = {{a.w.ref(), &y[0]}, {b.w.ref(), &y[4]}};
  const Status status =
      ops::matmul(device().stream(), {.x = a.x.data(), .rows = 1, .products = products});
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_FALSE(ops::matmul(device().stream(), {.x = a.x.data(), .rows = 1, .products = {}}).ok());
}

struct EmbedCase {
  using Args = backend::EmbedArgs;
  Weight table;
  std::vector<int32_t> ids;

  EmbedCase(Random& random, QuantType type, int rows, int64_t width)
      : table(random_weight(random, type, width, 50)) {
    for (int r = 0; r < rows; ++r) ids.push_back(r == 0 ? 49 : random.integer(0, 49));
  }

  int rows() const { return static_cast<int>(ids.size()); }
  std::optional<QuantType> weight_type() const { return table.type; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> y(ids.size() * static_cast<size_t>(table.k), NAN);
    int64_t at = 0;
    for (int rows : calls) {
      const Args args{.table = table.ref(), .ids = &ids[at], .out = &y[at * table.k], .rows = rows};
      launch(spec, device, &args);
      at += rows;
    }
    Outputs out;
    out.add(y);
    return out;
  }

  template <class N>
  std::vector<N> expected() const {
    std::vector<N> out;
    for (int32_t id : ids) {
      for (float value : table.decoded(0, id)) out.push_back(N(value) * N(table.factor(0)));
    }
    return out;
  }
};

class Embed : public OpTest {};

TEST_F(Embed, DecodesTheRowsOfEveryWeightTypeExactly) {
  Random random(12);
  for (QuantType type : all_types()) {
    SCOPED_TRACE(quant_info(type).name);
    const EmbedCase c(random, type, 5, type == QuantType::kF32 ? 33 : 256);
    expect_one_result(c);
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const std::vector<float> got = c.run(*spec, device(), {c.rows()}).floats;
      std::vector<float> want;
      for (int32_t id : c.ids) {
        for (float value : c.table.decoded(0, id)) want.push_back(value);
      }
      EXPECT_EQ(got, want);
    }
  }
}

TEST_F(Embed, MultipliesByTheScaleOfTheTable) {
  Random random(13);
  EmbedCase c(random, QuantType::kNVFP4, 7, 128);
  c.table.scale = {0.7f};
  check(c);
}

}  // namespace
}  // namespace strata::ops_test
