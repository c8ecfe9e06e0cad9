#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "engine/planner/split_search.h"

namespace strata::engine {
namespace {

StageTable random_table(std::mt19937& random, int devices, int layers) {
  StageTable table(devices, layers);
  std::uniform_real_distribution<double> value(0.5, 2.0);
  for (int device = 0; device < devices; ++device) {
    const double speed = value(random), burst = value(random);
    for (int first = 0; first < layers; ++first) {
      const int reach =
          first + static_cast<int>(random() % static_cast<unsigned>(layers - first + 1));
      for (int end = first + 1; end <= reach; ++end) {
        table.sum[table.at(device, first, end)] = (end - first) * speed + value(random);
        table.peak[table.at(device, first, end)] = (end - first) * burst * value(random);
      }
    }
  }
  return table;
}

// Every way to divide the layers, by recursion.
double brute_force(const StageTable& table, double weight, const SearchRules& rules) {
  double best = kImpossible;
  std::vector<int> devices;
  std::vector<int> points;
  const auto go = [&](auto&& self, int layer, double sum, double peak) -> void {
    if (layer == table.layers) {
      if (rules.mode == SearchRules::Order::kAllInOrder && devices != rules.order) return;
      if (rules.required >= 0 &&
          std::find(devices.begin(), devices.end(), rules.required) == devices.end())
        return;
      if (rules.forced && points != rules.points) return;
      best = std::min(best, sum + weight * peak);
      return;
    }
    for (size_t place = 0; place < rules.order.size(); ++place) {
      const int device = rules.order[place];
      if (std::find(devices.begin(), devices.end(), device) != devices.end()) continue;
      if (rules.mode != SearchRules::Order::kAny && !devices.empty()) {
        const auto last = std::find(rules.order.begin(), rules.order.end(), devices.back());
        if (static_cast<size_t>(last - rules.order.begin()) > place) continue;
      }
      for (int end = layer + 1; end <= table.layers; ++end) {
        const double more = table.sum[table.at(device, layer, end)];
        if (more == kImpossible) continue;
        devices.push_back(device);
        if (end < table.layers) points.push_back(end);
        self(self, end, sum + more, std::max(peak, table.peak[table.at(device, layer, end)]));
        if (end < table.layers) points.pop_back();
        devices.pop_back();
      }
    }
  };
  go(go, 0, 0, 0);
  return best;
}

void expect_best(const StageTable& table, double weight, const SearchRules& rules, int trial) {
  const double best = brute_force(table, weight, rules);
  const auto found = search_split(table, weight, rules, 0);
  ASSERT_EQ(found.has_value(), best < kImpossible) << "trial " << trial;
  if (!found) return;
  EXPECT_NEAR(found->total, best, 1e-9) << "trial " << trial;
  // And the split is what it says.
  double sum = 0, peak = 0;
  int layer = 0;
  for (const FoundStage& stage : found->stages) {
    EXPECT_EQ(stage.first, layer);
    layer = stage.end;
    sum += table.sum[table.at(stage.device, stage.first, stage.end)];
    peak = std::max(peak, table.peak[table.at(stage.device, stage.first, stage.end)]);
  }
  EXPECT_EQ(layer, table.layers);
  EXPECT_NEAR(sum + weight * peak, found->total, 1e-9);
}

TEST(SplitSearch, FindsWhatTryingEverythingFinds) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 400; ++trial) {
    const int devices = 1 + static_cast<int>(random() % 4),
              layers = 1 + static_cast<int>(random() % 6);
    const StageTable table = random_table(random, devices, layers);
    SearchRules rules;
    rules.order.resize(static_cast<size_t>(devices));
    std::iota(rules.order.begin(), rules.order.end(), 0);
    std::shuffle(rules.order.begin(), rules.order.end(), random);
    const double weight = static_cast<double>(random() % 4);
    for (const auto mode : {SearchRules::Order::kAny, SearchRules::Order::kInOrder,
                            SearchRules::Order::kAllInOrder}) {
      rules.mode = mode;
      expect_best(table, weight, rules, trial);
    }
    rules.mode = SearchRules::Order::kAny;
    rules.required = static_cast<int>(random() % static_cast<unsigned>(devices));
    expect_best(table, weight, rules, trial);
    rules.required = -1;
    if (layers > 2 && devices > 1) {
      rules.forced = true;
      rules.points = {1 + static_cast<int>(random() % static_cast<unsigned>(layers - 1))};
      expect_best(table, weight, rules, trial);
    }
  }
}

TEST(SplitSearch, StaysWithinItsTolerance) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 100; ++trial) {
    const StageTable table = random_table(random, 3, 8);
    SearchRules rules;
    rules.order = {0, 1, 2};
    const double best = brute_force(table, 3, rules);
    const auto found = search_split(table, 3, rules, 0.05);
    if (best == kImpossible) continue;
    ASSERT_TRUE(found);
    EXPECT_LE(found->total, best / 0.95 + 1e-9);
  }
}

TEST(SplitSearch, EqualDevicesAreUsedInTurn) {
  StageTable table(3, 6);
  for (int device = 0; device < 3; ++device) {
    for (int first = 0; first < 6; ++first) {
      for (int end = first + 1; end <= std::min(6, first + 2); ++end) {
        table.sum[table.at(device, first, end)] = end - first;
        table.peak[table.at(device, first, end)] = end - first;
      }
    }
  }
  SearchRules rules;
  rules.order = {0, 1, 2};
  rules.twin = {-1, 0, 1};
  const auto found = search_split(table, 1, rules, 0);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->stages.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found->stages[static_cast<size_t>(i)].device, i);
  EXPECT_DOUBLE_EQ(found->total, 8);
}

TEST(SplitSearch, ABoundHidesWhatIsNoBetter) {
  StageTable table(1, 2);
  table.sum[table.at(0, 0, 1)] = 4;
  table.peak[table.at(0, 0, 1)] = 1;
  table.sum[table.at(0, 0, 2)] = 5;
  table.peak[table.at(0, 0, 2)] = 1;
  SearchRules rules;
  rules.order = {0};
  EXPECT_TRUE(search_split(table, 1, rules, 0, 6.5));
  EXPECT_FALSE(search_split(table, 1, rules, 0, 6.0));
}

}  // namespace
}  // namespace strata::engine
