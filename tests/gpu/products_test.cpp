// Matrix products on every GPU row that the devices admit: the CPU's bits, for any number of rows.
#include "gpu/device_support.h"
#include "ops/support/random_operands.h"

namespace strata::gpu_test {
namespace {

using backend::MatmulArgs;
using backend::OpId;
using backend::Product;
using ops_test::Random;
using ops_test::Weight;

// What int8 activations cost against exact ones: an error of scale / sqrt(12) on each, scale being
// about 3 standard deviations / 127.
constexpr double kInt8Nmse = 4e-4;
// Float weights: nothing but the roundings of float sums.
constexpr double kFloatNmse = 1e-11;

struct Case {
  std::vector<Weight> weights;  // of one input
  std::vector<float> x;
  int rows;

  Case(Random& random, QuantType type, int row_count, int64_t k, std::vector<int64_t> n)
      : x(random.normal(row_count * k)), rows(row_count) {
    for (int64_t outputs : n) weights.push_back(random_weight(random, type, k, outputs));
  }
  QuantType type() const { return weights[0].type; }

  std::vector<float> run(Device& device, const KernelSpec& row) const {
    std::vector<std::vector<float>> y;
    std::vector<Product> products;
    for (const Weight& w : weights) {
      y.emplace_back(static_cast<size_t>(rows * w.n), -1e30f);
      products.push_back({w.ref(), y.back().data()});
    }
    const MatmulArgs args{.x = x.data(), .rows = rows, .products = products};
    const Status status = ops::run_in_place(device, row, args);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<float> all;
    for (const auto& part : y) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
};

void expect_cpu_bits(const Case& c) {
  const KernelSpec* contract = cpu_row(OpId::kMatmul, c.type(), false);
  ASSERT_NE(contract, nullptr);
  const std::vector<float> want = c.run(*devices().cpu, *contract);
  for (const auto& device : devices().gpus) {
    for (const KernelSpec* row : rows_of(*device, OpId::kMatmul, c.type())) {
      SCOPED_TRACE(testing::Message() << device->caps().id << ", " << row->name << ", "
                                      << quant_info(c.type()).name << ", " << c.rows
                                      << " rows, k = " << c.weights[0].k
                                      << ", n = " << c.weights[0].n);
      EXPECT_TRUE(same_bits(c.run(*device, *row), want));
    }
  }
}

TEST(GpuMatmul, HasRowsWithAndWithoutTheMatrixUnitOfTheGroup) {
  for (const auto& device : devices().gpus) {
    const std::string& arch = device->caps().arch;
    const bool matrix = device->caps().features != 0;
    // A real card may run the kernels of an older group (STRATA_CUDA_GROUP).
    if (device->caps().id.starts_with("emu")) {
      EXPECT_EQ(matrix, arch != "sm75" && arch.substr(0, 5) != "gfx10") << device->caps().id;
    }
    EXPECT_EQ(rows_of(*device, OpId::kMatmul, QuantType::kQ8_0).size(), matrix ? 2u : 1u)
        << device->caps().id;
    EXPECT_EQ(rows_of(*device, OpId::kMatmul, QuantType::kF32).size(), 1u) << device->caps().id;
  }
}

// Row lengths: one block, a segment and a piece of the next, several segments.
std::vector<int64_t> lengths_of(QuantType type) {
  const int elems = quant_info(type).elems;
  if (elems == 1) return {7, 100, 288};
  if (elems == 256) return {256, 768};
  return {elems, 256 + elems, 1024 + elems};
}

TEST(GpuMatmul, GivesTheCpusBitsForEveryTypeAndFewRows) {
  Random random(1);
  for (QuantType type : types_of(OpId::kMatmul)) {
    const std::vector<int64_t> lengths = lengths_of(type);
    for (int rows : {1, 2, 3, 5, 8}) {
      expect_cpu_bits(Case(random, type, rows, lengths[static_cast<size_t>(rows) % lengths.size()],
                           {37}));
    }
  }
}

TEST(GpuMatmul, GivesTheCpusBitsForEveryTypeAndManyRows) {
  Random random(2);
  for (QuantType type : types_of(OpId::kMatmul)) {
    expect_cpu_bits(Case(random, type, 9, lengths_of(type)[1], {33}));
    expect_cpu_bits(Case(random, type, 70, lengths_of(type)[0], {65}));
  }
}

// More than one tile of the largest kernels in both directions, the last ones not full.
TEST(GpuMatmul, GivesTheCpusBitsForEveryTypeAndLargeTiles) {
  Random random(10);
  for (QuantType type : types_of(OpId::kMatmul)) {
    expect_cpu_bits(Case(random, type, 200, lengths_of(type)[1], {130}));
  }
}

// So many rows that weights are unpacked first where the group does that.
TEST(GpuMatmul, GivesTheCpusBitsForEveryTypeAndVeryManyRows) {
  Random random(11);
  for (QuantType type : types_of(OpId::kMatmul)) {
    if (!quant_info(type).quantised) continue;
    expect_cpu_bits(Case(random, type, 512, lengths_of(type)[0], {40}));
    expect_cpu_bits(Case(random, type, 513, lengths_of(type)[1], {130}));
  }
}

TEST(GpuMatmul, GivesTheCpusBitsForVeryManyRowsOfSeveralProducts) {
  Random random(12);
  for (QuantType type : {QuantType::kQ8_0, QuantType::kIQ4_XS, QuantType::kQ6_K}) {
    Case c(random, type, 600, 1280, {33, 128, 7});
    c.weights[1].scale = {0.37f};
    c.x[40] = std::numeric_limits<float>::quiet_NaN();
    c.x[1280 * 599 + 300] = std::numeric_limits<float>::infinity();
    expect_cpu_bits(c);
  }
}

// Weights that are too large to be unpacked at once. Emulated devices would take minutes.
TEST(GpuMatmul, UnpacksLargeMatricesInPieces) {
  for (const auto& device : devices().gpus) {
    if (device->caps().id.substr(0, 4) == "emu:") GTEST_SKIP() << "needs a real card";
  }
  Random random(13);
  expect_cpu_bits(Case(random, QuantType::kIQ4_NL, 520, 2560, {24001}));
}

TEST(GpuMatmul, GivesTheCpusBitsForAnyNumberOfRows) {
  Random random(3);
  for (QuantType type : {QuantType::kF32, QuantType::kQ8_0}) {
    for (int rows : {4, 6, 7, 17, 64, 129}) {
      expect_cpu_bits(Case(random, type, rows, 288, {21}));
    }
  }
}

TEST(GpuMatmul, TakesManyOutputsAndLongRows) {
  Random random(4);
  for (QuantType type : {QuantType::kBF16, QuantType::kQ8_0, QuantType::kQ6_K}) {
    expect_cpu_bits(Case(random, type, 1, 2560, {130}));
    expect_cpu_bits(Case(random, type, 1, 256, {1500}));
    expect_cpu_bits(Case(random, type, 12, 1536, {70}));
  }
}

TEST(GpuMatmul, GivesEachOfSeveralProductsTheBitsItHasAlone) {
  Random random(5);
  for (QuantType type : {QuantType::kF32, QuantType::kQ8_0, QuantType::kIQ4_NL}) {
    for (int rows : {1, 3, 20}) {
      expect_cpu_bits(Case(random, type, rows, 320, {33, 1, 4, 90, 17, 16, 2, 5}));
    }
  }
}

TEST(GpuMatmul, MultipliesByTheScaleOfTheMatrix) {
  Random random(6);
  for (QuantType type : {QuantType::kBF16, QuantType::kQ8_0}) {
    for (int rows : {1, 10}) {
      Case c(random, type, rows, 96, {24, 9});
      c.weights[0].scale = {0.37f};
      expect_cpu_bits(c);
    }
  }
}

TEST(GpuMatmul, KeepsValuesThatAreNotFiniteVisible) {
  Random random(7);
  for (QuantType type : {QuantType::kF32, QuantType::kQ8_0, QuantType::kQ6_K}) {
    for (int rows : {1, 4, 12}) {
      Case c(random, type, rows, 512, {19});
      c.x[40] = std::numeric_limits<float>::quiet_NaN();
      if (rows > 1) c.x[512 + 300] = std::numeric_limits<float>::infinity();
      expect_cpu_bits(c);
    }
  }
}

TEST(GpuMatmul, StandsZerosAndLargeAndTinyActivations) {
  Random random(8);
  for (double size : {0.0, 1e-42, 1e-30, 1e30}) {
    for (QuantType type : {QuantType::kF32, QuantType::kQ8_0}) {
      for (int rows : {2, 11}) {
        Case c(random, type, rows, 320, {16});
        for (float& x : c.x) x = static_cast<float>(x * size);
        expect_cpu_bits(c);
      }
    }
  }
}

TEST(GpuMatmul, LiesWithinItsToleranceOfDoublePrecision) {
  Random random(9);
  for (QuantType type : types_of(OpId::kMatmul)) {
    for (int rows : {3, 24}) {
      const Case c(random, type, rows, 512, {40});
      const std::vector<float> want =
          c.run(*devices().cpu, *cpu_row(OpId::kMatmul, type, /*reference=*/true));
      for (const auto& device : devices().gpus) {
        for (const KernelSpec* row : rows_of(*device, OpId::kMatmul, type)) {
          EXPECT_LE(nmse(c.run(*device, *row), want),
                    quant_info(type).quantised ? kInt8Nmse : kFloatNmse)
              << device->caps().id << ", " << row->name << ", " << quant_info(type).name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::gpu_test

int main(int argc, char** argv) { return strata::gpu_test::main(argc, argv); }
