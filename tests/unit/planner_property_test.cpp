// What must hold on any machine.
#include <random>

#include <gtest/gtest.h>

#include "engine/planner/planner.h"
#include "planner_fixture.h"

namespace strata::engine {
namespace {

using namespace test;

constexpr double kSlack = (1 + kSearchTolerance) * (1 + kWorthADevice) + 1e-9;

struct Machine {
  ModelCost model;
  std::vector<PlanDevice> devices;
  PlanOptions options;
  EngineAbilities abilities;
  std::vector<uint64_t> counts;
  std::optional<ExpertProfile> profile;

  Result<Plan> plan() {
    options.profile = profile ? &*profile : nullptr;
    return make_plan(model, devices, options, abilities);
  }
};

Machine random_machine(unsigned seed) {
  std::mt19937 random(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Machine m;
  const int layers = 2 + static_cast<int>(random() % 20);
  m.model = flash_next(between(10, 60), layers);
  for (LayerCost& layer : m.model.layers) {
    if (random() % 4 == 0) layer.dense_bytes *= 2;
    layer.expert_bytes =
        static_cast<uint64_t>(static_cast<double>(layer.expert_bytes) * between(0.5, 2));
  }
  const double model_gib = static_cast<double>(m.model.weight_bytes()) / static_cast<double>(kGib);
  const int cards = static_cast<int>(random() % 4);
  for (int i = 0; i < cards; ++i) {
    m.devices.push_back(card(fmt::format("d{}", i), between(1, 1 + model_gib * 0.8),
                             between(100, 3000), between(5, 500), between(2, 60), between(1, 10)));
  }
  if (cards == 0 || random() % 3 != 0) {
    m.devices.push_back(
        cpu(between(4, 100), between(10, 300), between(0.3, 20), cards == 0 || random() % 2 == 0));
  }
  m.options = options(1 << (10 + random() % 9));
  if (random() % 3 == 0) m.options.prompt_chunk = 1 << (5 + random() % 6);
  m.options.order_as_given = random() % 4 == 0;
  m.abilities.expert_cache = random() % 2 == 0;
  m.abilities.prompt_pipeline = random() % 3 != 0;
  m.abilities.weights_from_disk = random() % 2 == 0;
  if (random() % 2 == 0) {
    for (int i = 0; i < layers * 512; ++i) m.counts.push_back(random() % 1000 * (random() % 50));
    m.profile = ExpertProfile::from_counts(layers, 512, m.counts);
  }
  return m;
}

constexpr unsigned kMachines = 150;

TEST(PlanProperties, EveryLayerOnceAndNoMemoryExceeded) {
  int made = 0;
  for (unsigned seed = 0; seed < kMachines; ++seed) {
    Machine m = random_machine(seed);
    const auto plan = m.plan();
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted) << plan.status().message();
      EXPECT_NE(plan.status().message().find("iB"), std::string::npos) << plan.status().message();
      continue;
    }
    ++made;
    int next = 0;
    std::vector<int> used(m.devices.size(), 0);
    double decode = 0;
    for (const PlanStage& stage : plan->stages) {
      EXPECT_EQ(stage.first, next) << seed;
      EXPECT_LE(stage.first, stage.last) << seed;
      next = stage.last + 1;
      EXPECT_EQ(++used[stage.device], 1) << seed;
      EXPECT_TRUE(m.devices[stage.device].may_be_stage) << seed;
      EXPECT_LE(stage.used_bytes(), m.devices[stage.device].free_bytes) << seed;
      EXPECT_GE(stage.resident_mass, 0) << seed;
      EXPECT_LE(stage.resident_mass, 1 + 1e-9) << seed;
      EXPECT_TRUE(m.abilities.expert_cache || stage.resident_pairs == stage.pairs) << seed;
      EXPECT_TRUE(m.abilities.weights_from_disk || stage.disk_bytes == 0) << seed;
      decode += stage.decode_ms;
    }
    EXPECT_EQ(next, static_cast<int>(m.model.layers.size())) << seed;
    EXPECT_NEAR(plan->decode_ms, decode, 1e-6) << seed;
    EXPECT_GT(plan->prompt_tok_s, 0) << seed;
    EXPECT_TRUE(m.options.prompt_chunk == 0 || plan->chunk <= m.options.prompt_chunk) << seed;
    if (m.options.order_as_given) {
      for (size_t i = 1; i < plan->stages.size(); ++i) {
        EXPECT_GT(plan->stages[i].device, plan->stages[i - 1].device) << seed;
      }
    }
  }
  EXPECT_GT(made, static_cast<int>(kMachines) / 3)
      << "too few machines hold their model to test anything";
}

TEST(PlanProperties, ADeviceMoreIsNeverSlower) {
  int compared = 0;
  for (unsigned seed = 0; seed < kMachines; ++seed) {
    Machine m = random_machine(seed);
    const auto all = m.plan();
    const std::vector<PlanDevice> devices = m.devices;
    for (size_t left_out = 0; left_out < devices.size() && devices.size() > 1; ++left_out) {
      m.devices = devices;
      m.devices.erase(m.devices.begin() + static_cast<std::ptrdiff_t>(left_out));
      if (std::none_of(m.devices.begin(), m.devices.end(),
                       [](const PlanDevice& d) { return d.may_be_stage; }))
        continue;
      const auto fewer = m.plan();
      if (!fewer.ok()) continue;
      ASSERT_TRUE(all.ok()) << seed << ": " << all.status().message();
      EXPECT_LE(all->request_ms, fewer->request_ms * kSlack)
          << seed << " without " << devices[left_out].id;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(PlanProperties, MoreMemoryIsNeverSlower) {
  int compared = 0;
  for (unsigned seed = 0; seed < kMachines; ++seed) {
    Machine m = random_machine(seed);
    const auto before = m.plan();
    if (!before.ok()) continue;
    const std::vector<PlanDevice> devices = m.devices;
    for (size_t i = 0; i < devices.size(); ++i) {
      m.devices = devices;
      m.devices[i].free_bytes += gib(1 + 0.7 * static_cast<double>(seed % 9));
      const auto after = m.plan();
      ASSERT_TRUE(after.ok()) << seed << ": " << after.status().message();
      EXPECT_LE(after->request_ms, before->request_ms * kSlack)
          << seed << " more on " << devices[i].id;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(PlanProperties, AFasterDeviceIsNeverSlower) {
  for (unsigned seed = 0; seed < kMachines; seed += 3) {
    Machine m = random_machine(seed);
    const auto before = m.plan();
    if (!before.ok()) continue;
    for (PlanDevice& device : m.devices) {
      device.memory_gbs *= 1.5;
      device.int8_tops *= 1.5;
      device.to_device_gbs *= 1.5;
      device.to_host_gbs *= 1.5;
      device.launch_us /= 1.5;
    }
    const auto after = m.plan();
    ASSERT_TRUE(after.ok());
    EXPECT_LE(after->request_ms, before->request_ms * kSlack) << seed;
  }
}

}  // namespace
}  // namespace strata::engine
