// Router, experts and what stands around them on every GPU row that the devices admit: the CPU's
// bits.
#include <cmath>
#include <numeric>
#include <set>

#include "gpu/device_support.h"
#include "ops/support/random_operands.h"

namespace strata::gpu_test {
namespace {

using backend::ExpertsArgs;
using backend::OpId;
using backend::RouterArgs;
using backend::SharedExpertAddArgs;
using backend::SwiGluArgs;
using ops_test::Random;
using ops_test::Weight;

// Against double precision: int8 activations in two products one after the other, and in one.
constexpr double kExpertsNmse = 1e-3;
constexpr double kFloatNmse = 1e-11;

bool is_built(QuantType type) {
  for (const auto& device : devices().gpus) {
    if (!rows_of(*device, OpId::kExperts, type).empty()) return true;
  }
  return false;
}

// Runs a call on a row with room for outputs of its own; `run` stores them.
template <class Args>
void run(Device& device, const KernelSpec& row, const Args& args) {
  const Status status = ops::run_in_place(device, row, args);
  EXPECT_TRUE(status.ok()) << device.caps().id << ", " << row.name << ": " << status.message();
}

struct RouterCase {
  int rows, used;
  Weight w;
  std::vector<float> x;

  RouterCase(Random& random, QuantType type, int row_count, int64_t width, int experts, int chosen)
      : rows(row_count),
        used(chosen),
        w(random_weight(random, type, width, experts)),
        x(random.normal(row_count * width, 2)) {}

  struct Answer {
    std::vector<int32_t> ids;
    std::vector<float> weights;
  };
  Answer run_on(Device& device, const KernelSpec& row) const {
    Answer out{std::vector<int32_t>(static_cast<size_t>(rows * used), -1),
               std::vector<float>(static_cast<size_t>(rows * used), -1e30f)};
    std::vector<float> scratch(static_cast<size_t>(rows * w.n));
    run(device, row,
        RouterArgs{.w = w.ref(),
                   .x = x.data(),
                   .ids = out.ids.data(),
                   .weights = out.weights.data(),
                   .scratch = scratch.data(),
                   .rows = rows,
                   .used = used});
    return out;
  }
  void expect_cpu_bits() const {
    const Answer want = run_on(*devices().cpu, *cpu_row(OpId::kRouter, w.type, false));
    for (const auto& device : devices().gpus) {
      for (const KernelSpec* row : rows_of(*device, OpId::kRouter, w.type)) {
        SCOPED_TRACE(testing::Message() << device->caps().id << ", " << row->name << ", "
                                        << quant_info(w.type).name << ", " << rows << " rows, "
                                        << w.n << " experts");
        const Answer got = run_on(*device, *row);
        EXPECT_EQ(got.ids, want.ids);
        EXPECT_TRUE(same_bits(got.weights, want.weights));
      }
    }
  }
};

TEST(GpuRouter, ChoosesTheCpusExpertsWithTheCpusWeights) {
  Random random(1);
  for (QuantType type : {QuantType::kF32, QuantType::kBF16, QuantType::kQ8_0}) {
    for (int rows : {1, 3, 9, 40}) RouterCase(random, type, rows, 96, 48, 6).expect_cpu_bits();
  }
  RouterCase(random, QuantType::kF32, 2, 160, 512, 10).expect_cpu_bits();
  RouterCase(random, QuantType::kF32, 5, 33, 5, 5).expect_cpu_bits();
  RouterCase(random, QuantType::kF32, 6, 17, 70, 40).expect_cpu_bits();
}

TEST(GpuRouter, PutsTheLowerOfEqualExpertsFirst) {
  Random random(2);
  RouterCase c(random, QuantType::kF32, 6, 64, 99, 8);
  // Experts e, e + 33 and e + 66 are the same.
  const size_t third = c.w.bytes.size() / 3;
  for (const size_t at : {third, 2 * third}) {
    std::copy_n(c.w.bytes.begin(), third, c.w.bytes.begin() + static_cast<ptrdiff_t>(at));
  }
  c.expect_cpu_bits();
  std::fill(c.x.begin(), c.x.end(), 0.0f);
  c.expect_cpu_bits();
}

TEST(GpuRouter, ShowsInputsThatAreNotFiniteInTheWeights) {
  Random random(3);
  RouterCase c(random, QuantType::kF32, 2, 64, 24, 4);
  c.x[70] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& device : devices().gpus) {
    for (const KernelSpec* row : rows_of(*device, OpId::kRouter, c.w.type)) {
      const RouterCase::Answer got = c.run_on(*device, *row);
      std::set<int32_t> distinct;
      for (int j = 4; j < 8; ++j) {
        EXPECT_TRUE(std::isnan(got.weights[static_cast<size_t>(j)]));
        const int32_t id = got.ids[static_cast<size_t>(j)];
        EXPECT_TRUE(id >= 0 && id < 24 && distinct.insert(id).second) << id;
      }
      for (int j = 0; j < 4; ++j) EXPECT_FALSE(std::isnan(got.weights[static_cast<size_t>(j)]));
    }
  }
}

struct ExpertsCase {
  int rows, used, width, hidden, experts;
  Weight gate, up, down;
  bool fused = false;
  std::vector<float> x, weights;
  std::vector<int32_t> ids;

  ExpertsCase(Random& random, QuantType in, QuantType out, int row_count, int wide, int inner,
              int expert_count, int chosen)
      : rows(row_count),
        used(chosen),
        width(wide),
        hidden(inner),
        experts(expert_count),
        gate(random_weight(random, in, wide, inner, expert_count)),
        up(random_weight(random, in, wide, inner, expert_count)),
        down(random_weight(random, out, inner, wide, expert_count)),
        x(random.normal(row_count * wide, 2)) {
    for (int r = 0; r < rows; ++r) {
      std::vector<int32_t> all(static_cast<size_t>(experts));
      std::iota(all.begin(), all.end(), 0);
      for (int j = 0; j < used; ++j) {
        std::swap(all[static_cast<size_t>(j)],
                  all[static_cast<size_t>(random.integer(j, experts - 1))]);
        ids.push_back(all[static_cast<size_t>(j)]);
        weights.push_back(static_cast<float>(random.uniform(0.01, 0.3)));
      }
    }
  }
  void fuse(Random& random) {
    fused = true;
    gate = random_weight(random, gate.type, width, 2 * hidden, experts);
  }

  std::vector<float> run_on(Device& device, const KernelSpec& row) const {
    std::vector<float> y(static_cast<size_t>(rows * width), -1e30f);
    std::vector<float> scratch(static_cast<size_t>(rows * used * (2 * hidden + width)));
    run(device, row,
        ExpertsArgs{.gate = gate.ref(),
                    .up = fused ? backend::WeightRef{} : up.ref(),
                    .down = down.ref(),
                    .x = x.data(),
                    .ids = ids.data(),
                    .weights = weights.data(),
                    .y = y.data(),
                    .scratch = scratch.data(),
                    .rows = rows,
                    .used = used,
                    .width = width,
                    .hidden = hidden});
    return y;
  }
  void expect_cpu_bits() const {
    const std::vector<float> want =
        run_on(*devices().cpu, *cpu_row(OpId::kExperts, gate.type, false));
    for (const auto& device : devices().gpus) {
      for (const KernelSpec* row : rows_of(*device, OpId::kExperts, gate.type)) {
        SCOPED_TRACE(testing::Message()
                     << device->caps().id << ", " << row->name << ", "
                     << quant_info(gate.type).name << " + " << quant_info(down.type).name << ", "
                     << rows << " rows, " << used << " of " << experts << " experts");
        EXPECT_TRUE(same_bits(run_on(*device, *row), want));
      }
    }
  }
};

TEST(GpuExperts, GiveTheCpusBitsForEveryTypeAndFewRows) {
  Random random(4);
  for (QuantType type : types_of(OpId::kExperts)) {
    ExpertsCase(random, type, type, 1, 256, 256, 4, 2).expect_cpu_bits();
  }
}

TEST(GpuExperts, GiveTheCpusBitsForEveryTypeAndManyRows) {
  Random random(5);
  for (QuantType type : types_of(OpId::kExperts)) {
    ExpertsCase(random, type, type, 19, 256, 256, 4, 2).expect_cpu_bits();
  }
}

TEST(GpuExperts, GiveTheCpusBitsForAnyNumberOfRows) {
  Random random(6);
  for (int rows : {2, 3, 8, 9, 33, 100}) {
    ExpertsCase(random, QuantType::kQ8_0, QuantType::kQ8_0, rows, 96, 64, 7, 3).expect_cpu_bits();
  }
  // Enough for large tiles.
  ExpertsCase(random, QuantType::kQ8_0, QuantType::kQ8_0, 300, 256, 256, 2, 1).expect_cpu_bits();
  // About one, two and ten rows of an expert.
  ExpertsCase(random, QuantType::kQ8_0, QuantType::kQ8_0, 20, 96, 64, 48, 3).expect_cpu_bits();
  ExpertsCase(random, QuantType::kQ8_0, QuantType::kQ8_0, 33, 320, 64, 48, 3).expect_cpu_bits();
  ExpertsCase(random, QuantType::kQ8_0, QuantType::kQ8_0, 160, 96, 64, 48, 3).expect_cpu_bits();
  // Few of many experts: no rows in common.
  ExpertsCase(random, QuantType::kQ8_0, QuantType::kQ8_0, 4, 64, 32, 60, 5).expect_cpu_bits();
  // One expert has all rows, others none.
  ExpertsCase c(random, QuantType::kQ8_0, QuantType::kQ8_0, 150, 64, 32, 3, 1);
  std::fill(c.ids.begin(), c.ids.end(), 1);
  c.expect_cpu_bits();
}

TEST(GpuExperts, MayHaveWeightsOfDifferentTypes) {
  Random random(7);
  for (const auto& [in, out] : {std::pair{QuantType::kBF16, QuantType::kQ8_0},
                                std::pair{QuantType::kQ8_0, QuantType::kF32},
                                std::pair{QuantType::kIQ3_XXS, QuantType::kIQ4_NL}}) {
    if (!is_built(in) || !is_built(out)) continue;
    for (int rows : {1, 21}) {
      ExpertsCase c(random, in, out, rows, 256, 96, 4, 2);
      c.expect_cpu_bits();
      c.up = random_weight(random, QuantType::kF32, c.width, c.hidden, c.experts);
      c.expect_cpu_bits();
    }
  }
}

TEST(GpuExperts, TakeGateAndUpInOneMatrix) {
  Random random(8);
  for (QuantType type : {QuantType::kF32, QuantType::kQ8_0}) {
    for (int rows : {1, 21}) {
      ExpertsCase c(random, type, type, rows, 128, 96, 5, 2);
      c.fuse(random);
      c.expect_cpu_bits();
    }
  }
}

TEST(GpuExperts, MultiplyByTheScaleOfTheExpert) {
  Random random(9);
  for (int rows : {1, 21}) {
    ExpertsCase c(random, QuantType::kQ8_0, QuantType::kF32, rows, 64, 64, 5, 2);
    c.gate.scale = {0.5f, 0.25f, 3.0f, 0.37f, 1.5f};
    c.up.scale = {0.7f};
    c.down.scale = {0.1f, 0.2f, 0.3f, 0.4f, 0.6f};
    c.expect_cpu_bits();
  }
}

TEST(GpuExperts, KeepValuesThatAreNotFiniteVisibleInTheirRow) {
  Random random(10);
  for (int rows : {2, 21}) {
    ExpertsCase c(random, QuantType::kQ8_0, QuantType::kQ8_0, rows, 64, 64, 5, 2);
    c.x[64 + 5] = std::numeric_limits<float>::quiet_NaN();
    c.expect_cpu_bits();
  }
}

TEST(GpuExperts, LieWithinTheirToleranceOfDoublePrecision) {
  Random random(11);
  for (QuantType type : types_of(OpId::kExperts)) {
    for (int rows : {2, 40}) {
      const ExpertsCase c(random, type, type, rows, 256, 256, 4, 2);
      const std::vector<float> want =
          c.run_on(*devices().cpu, *cpu_row(OpId::kExperts, type, /*reference=*/true));
      for (const auto& device : devices().gpus) {
        for (const KernelSpec* row : rows_of(*device, OpId::kExperts, type)) {
          EXPECT_LE(nmse(c.run_on(*device, *row), want),
                    quant_info(type).quantised ? kExpertsNmse : kFloatNmse)
              << device->caps().id << ", " << row->name << ", " << quant_info(type).name;
        }
      }
    }
  }
}

TEST(GpuSwiGlu, GivesTheCpusBits) {
  Random random(12);
  for (int rows : {1, 5}) {
    const std::vector<float> gate = random.normal(rows * 333, 8), up = random.normal(rows * 333);
    const auto run_on = [&](Device& device, const KernelSpec& row) {
      std::vector<float> out(gate.size(), -1e30f);
      run(device, row,
          SwiGluArgs{
              .gate = gate.data(), .up = up.data(), .out = out.data(), .rows = rows, .width = 333});
      return out;
    };
    const std::vector<float> want =
        run_on(*devices().cpu, *cpu_row(OpId::kSwiGlu, std::nullopt, false));
    for (const auto& device : devices().gpus) {
      for (const KernelSpec* row : rows_of(*device, OpId::kSwiGlu)) {
        EXPECT_TRUE(same_bits(run_on(*device, *row), want)) << device->caps().id;
        std::vector<float> in_place = gate;
        run(*device, *row,
            SwiGluArgs{.gate = in_place.data(),
                       .up = up.data(),
                       .out = in_place.data(),
                       .rows = rows,
                       .width = 333});
        EXPECT_TRUE(same_bits(in_place, want)) << device->caps().id;
      }
    }
  }
}

TEST(GpuSharedExpertAdd, GivesTheCpusBits) {
  Random random(13);
  for (QuantType type : {QuantType::kF32, QuantType::kBF16, QuantType::kQ8_0}) {
    for (int rows : {1, 7, 20}) {
      constexpr int kWidth = 288;
      const Weight gate = random_weight(random, type, kWidth, 1);
      const std::vector<float> x = random.normal(rows * kWidth), d = random.normal(rows * kWidth),
                               start = random.normal(rows * kWidth);
      const auto run_on = [&](Device& device, const KernelSpec& row) {
        std::vector<float> y = start;
        run(device, row,
            SharedExpertAddArgs{.gate = gate.ref(),
                                .x = x.data(),
                                .d = d.data(),
                                .y = y.data(),
                                .rows = rows,
                                .width = kWidth});
        return y;
      };
      const std::vector<float> want =
          run_on(*devices().cpu, *cpu_row(OpId::kSharedExpertAdd, type, false));
      for (const auto& device : devices().gpus) {
        for (const KernelSpec* row : rows_of(*device, OpId::kSharedExpertAdd, type)) {
          EXPECT_TRUE(same_bits(run_on(*device, *row), want))
              << device->caps().id << ", " << quant_info(type).name << ", " << rows << " rows";
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::gpu_test

int main(int argc, char** argv) { return strata::gpu_test::main(argc, argv); }
