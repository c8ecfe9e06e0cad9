// Times against sums done by hand.
#include <cmath>

#include <gtest/gtest.h>

#include "engine/planner/stage_cost.h"
#include "planner_fixture.h"

namespace strata::engine {
namespace {

using namespace test;

// Two layers, four experts of which one is used, round numbers.
ModelCost small_model() {
  ModelCost model;
  model.name = "small.gguf";
  model.experts_used = 1;
  model.embedding_bytes = 7'000'000;
  model.head_bytes = 30'000'000;
  model.head_macs = 1e6;
  model.wide = 1000;
  for (int il = 0; il < 2; ++il) {
    LayerCost layer;
    layer.dense_bytes = 60'000'000;
    layer.experts = 4;
    layer.expert_bytes = 6'000'000;
    layer.dense_macs = 60e6;
    layer.expert_macs = 6e6;
    layer.state_bytes = 600'000;
    layer.launches = 10;
    model.layers.push_back(layer);
  }
  model.row_bytes = 1000;
  return model;
}

struct Costs {
  ModelCost model = small_model();
  std::vector<PlanDevice> devices;
  PlanOptions options;
  EngineAbilities abilities;
  ExpertProfile profile = ExpertProfile::even(2, 4);

  Costs() {
    options.context = 4096;
    // Reads at 0.6 of 1000 GB/s, products at 0.4 of 5 TOPS.
    devices.push_back(card("card", 1, 1000, 5, 10, 4));
  }
  StageCosts make(int chunk = 64) const {
    return StageCosts(model, devices, options, abilities, profile, chunk);
  }
};

TEST(StageCosts, AWindowReadsWeightsOnceAndPaysItsLaunches) {
  const Costs costs;
  const StageCosts stages = costs.make();
  // Both layers: 120 MB dense, 30 MB head, 1.2 MB states and 2 experts of 6 MB at 600 GB/s; 20
  // launches of 4 us; no hand-off.
  const double ms = (120e6 + 30e6 + 1.2e6 + 12e6) / 600e9 * 1e3 + 20 * 0.004;
  const StageCost both = stages.stage(0, 0, 2);
  ASSERT_TRUE(both.fits);
  EXPECT_NEAR(both.decode_ms, ms, 1e-9);
  // The first layer alone: no head; its row of 4,000 bytes goes out at 10 GB/s, with a launch and a
  // flag.
  const double first =
      (60e6 + 0.6e6 + 6e6) / 600e9 * 1e3 + 10 * 0.004 + 4000 / 10e9 * 1e3 + 0.004 + kFlagMs;
  EXPECT_NEAR(stages.stage(0, 0, 1).decode_ms, first, 1e-9);
}

TEST(StageCosts, AChunkIsBoundByProductsOrByWeights) {
  Costs costs;
  // 64 tokens of 60 MMAC dense; 64 rows for experts, all four of which are read and waste 8 rows
  // each.
  const double macs = 2 * (64 * 60e6 + 6e6 * (64 + 4 * 8));
  const double compute = 2 * macs / (5e12 * 0.4) * 1e3;
  EXPECT_NEAR(costs.make(64).stage(0, 0, 2).chunk_ms, compute + 20 * 0.004, 1e-6);
  // Products for free: what is left is reading everything once.
  costs.devices[0].int8_tops = 1e6;
  EXPECT_NEAR(costs.make(64).stage(0, 0, 2).chunk_ms, (120e6 + 48e6) / 600e9 * 1e3 + 20 * 0.004,
              1e-4);
}

TEST(StageCosts, RowsTravelWhileOtherChunksAreComputed) {
  Costs costs;
  // 64 rows of 4,000 bytes at 10 GB/s, with a launch and a flag, out of the first layer.
  const double out = 64 * 4000 / 10e9 * 1e3 + 0.004 + kFlagMs;
  const StageCost first = costs.make(64).stage(0, 0, 1);
  EXPECT_NEAR(first.handoff_ms, out, 1e-9);
  EXPECT_GT(first.chunk_ms, 2 * out);
  EXPECT_NEAR(first.busy_ms(), first.chunk_ms - out, 1e-9);
  EXPECT_EQ(costs.make(64).stage(0, 0, 2).handoff_ms, 0);
  // A link that is slower than the card decides how fast chunks follow each other.
  costs.devices[0].to_host_gbs = 0.01;
  const StageCost bound = costs.make(64).stage(0, 0, 1);
  EXPECT_NEAR(bound.busy_ms(), bound.handoff_ms, 1e-9);
}

TEST(StageCosts, MemoryIsCountedToTheByte) {
  Costs costs;
  const uint64_t workspace = costs.model.workspace_bytes(64, 1, 4096);
  const uint64_t needed = 120'000'000 + 48'000'000 + 1'200'000 + 7'000'000 + 30'000'000 + workspace;
  costs.devices[0].free_bytes = needed;
  EXPECT_TRUE(costs.make().stage(0, 0, 2).fits);
  EXPECT_EQ(costs.make().describe(0, 0, 2).used_bytes(), needed);
  costs.devices[0].free_bytes = needed - 1;
  const StageCost cost = costs.make().stage(0, 0, 2);
  EXPECT_FALSE(cost.fits);
  EXPECT_EQ(cost.missing_bytes, 1u);
  // The last layer needs neither the embedding nor the first layer, but a second residual of 64 rows of
  // 4,000 bytes, which travels while the other is computed with.
  EXPECT_GE(costs.model.handoff_bytes(64), 64u * 4000);
  costs.devices[0].free_bytes =
      60'000'000 + 24'000'000 + 600'000 + 30'000'000 + workspace +
      costs.model.handoff_bytes(64);
  EXPECT_TRUE(costs.make().stage(0, 1, 2).fits);
  costs.devices[0].free_bytes -= 1;
  EXPECT_FALSE(costs.make().stage(0, 1, 2).fits);
}

TEST(StageCosts, ATiedHeadIsHeldOnceOnOneDevice) {
  Costs costs;
  costs.model.tied = true;
  costs.model.head_bytes = costs.model.embedding_bytes;
  const StageCosts stages = costs.make();
  // The second of two stages has rows on their way to it.
  EXPECT_EQ(stages.base_bytes(0, 2) - (stages.base_bytes(1, 2) - costs.model.handoff_bytes(64)),
            costs.model.layers[0].dense_bytes + costs.model.layers[0].state_bytes);
  EXPECT_EQ(stages.describe(0, 0, 2).embedding_bytes, 0u);
  EXPECT_EQ(stages.describe(0, 0, 1).embedding_bytes, costs.model.embedding_bytes);
}

// Half of the experts on the card, even use: the CPU computes the other half at the same time.
TEST(StageCosts, MissedExpertsGoToTheCpu) {
  Costs costs;
  costs.abilities.expert_cache = true;
  costs.devices.push_back(cpu(60, 40, 100, false));
  const uint64_t base = costs.make().base_bytes(0, 2);
  costs.devices[0].free_bytes = base + 24'000'000;
  const StageCosts stages = costs.make();
  const StageCost cost = stages.stage(0, 0, 2);
  ASSERT_TRUE(cost.fits);
  // Per layer: card 6 MB / 600 GB/s = 0.01 ms for all, so 0.005 for half; CPU 6 MB / 28 GB/s, half
  // of it; the CPU is the longer one; two flags.
  const double cpu_half = 6e6 / 28e9 * 1e3 / 2;
  const double dense = (120e6 + 30e6 + 1.2e6) / 600e9 * 1e3 + 20 * 0.004;
  EXPECT_NEAR(cost.decode_ms, dense + 2 * (cpu_half + 2 * kFlagMs), 1e-9);
  const PlanStage stage = stages.describe(0, 0, 2);
  EXPECT_EQ(stage.pairs, 8);
  EXPECT_EQ(stage.resident_pairs, 4);
  EXPECT_DOUBLE_EQ(stage.resident_mass, 0.5);
  EXPECT_EQ(stage.expert_bytes, 24'000'000u);
  EXPECT_EQ(stage.ram_expert_bytes, 24'000'000u);
  EXPECT_LE(stage.used_bytes(), stage.free_bytes);
}

TEST(StageCosts, AFastLinkIsUsedInsteadOfASlowCpu) {
  Costs costs;
  costs.abilities.expert_cache = true;
  costs.devices.push_back(cpu(60, 2, 100, false));
  costs.devices[0].free_bytes = costs.make().base_bytes(0, 2) + 24'000'000;
  // 6 MB over 10 GB/s beats 1.4 GB/s of the CPU.
  const double dense = (120e6 + 30e6 + 1.2e6) / 600e9 * 1e3 + 20 * 0.004;
  EXPECT_NEAR(costs.make().stage(0, 0, 2).decode_ms, dense + 2 * (0.3 + 2 * kFlagMs), 1e-9);
}

TEST(StageCosts, ASkewedProfileMakesASmallCacheWorthMore) {
  Costs costs;
  costs.abilities.expert_cache = true;
  costs.devices.push_back(cpu(60, 40, 100, false));
  costs.devices[0].free_bytes = costs.make().base_bytes(0, 2) + 12'000'000;
  const double even = costs.make().stage(0, 0, 2).decode_ms;
  const std::vector<uint64_t> counts = {97, 1, 1, 1, 1, 97, 1, 1};
  costs.profile = ExpertProfile::from_counts(2, 4, counts);
  const PlanStage stage = costs.make().describe(0, 0, 2);
  EXPECT_EQ(stage.resident_pairs, 2);
  EXPECT_NEAR(stage.resident_mass, 0.97, 1e-9);
  EXPECT_LT(stage.decode_ms, even);
}

TEST(StageCosts, WithoutACacheOrRamExpertsMustFit) {
  Costs costs;
  costs.devices[0].free_bytes = costs.make().base_bytes(0, 2) + 40'000'000;
  EXPECT_FALSE(costs.make().stage(0, 0, 2).fits);
  EXPECT_EQ(costs.make().stage(0, 0, 2).missing_bytes, 8'000'000u);
  costs.abilities.expert_cache = true;
  EXPECT_FALSE(costs.make().stage(0, 0, 2).fits) << "no CPU, so no RAM for the rest";
  costs.devices.push_back(cpu(60, 40, 2, false));
  EXPECT_TRUE(costs.make().stage(0, 0, 2).fits);
}

TEST(StageCosts, ACpuBeyondItsRamReadsTheDisk) {
  Costs costs;
  costs.devices[0] = cpu(60, 40, 100);
  const double in_ram = costs.make().stage(0, 0, 2).decode_ms;
  EXPECT_NEAR(in_ram, (120e6 + 30e6 + 1.2e6 + 12e6) / 28e9 * 1e3 + 20 * 0.001, 1e-9);
  const uint64_t other = 1'200'000 + costs.model.workspace_bytes(64, 1, 4096);
  const uint64_t weights = 120'000'000 + 48'000'000 + 37'000'000;
  costs.devices[0].free_bytes = other + weights / 2;
  const PlanStage stage = costs.make().describe(0, 0, 2);
  EXPECT_EQ(stage.disk_bytes, weights / 2);
  EXPECT_EQ(stage.used_bytes(), stage.free_bytes);
  // Half of what a window reads of weights comes from the disk.
  EXPECT_NEAR(stage.decode_ms, in_ram + (60e6 + 15e6 + 6e6) / (kDiskGbs * 1e9) * 1e3, 1e-6);
  costs.abilities.weights_from_disk = false;
  EXPECT_FALSE(costs.make().stage(0, 0, 2).fits);
  costs.devices[0].free_bytes = other - 1;
  costs.abilities.weights_from_disk = true;
  EXPECT_FALSE(costs.make().stage(0, 0, 2).fits) << "what is written cannot be on the disk";
}

// The published unions of a window's experts: 1.75, 2.4 and 3.05 times those of one token.
TEST(StageCosts, AWindowOfSeveralTokensReadsMoreExperts) {
  Costs costs;
  costs.model = flash_next(42.9);
  costs.profile = ExpertProfile::even(48, 512);
  costs.devices = {h200()};
  costs.abilities.drafts = true;
  const auto experts_ms = [&](int rows) {
    costs.options.window_rows = rows;
    const double all = costs.make().stage(0, 0, 48).decode_ms;
    ModelCost empty = costs.model;
    for (LayerCost& layer : empty.layers) layer.expert_bytes = 0;
    const StageCosts without(empty, costs.devices, costs.options, costs.abilities, costs.profile,
                             64);
    return all - without.stage(0, 0, 48).decode_ms;
  };
  const double one = experts_ms(1);
  EXPECT_NEAR(experts_ms(2) / one, 1.75, 0.05);
  EXPECT_NEAR(experts_ms(3) / one, 2.4, 0.05);
  EXPECT_NEAR(experts_ms(4) / one, 3.05, 0.05);
}

}  // namespace
}  // namespace strata::engine
