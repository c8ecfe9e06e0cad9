// Interleaved multi-axis rotation, docs/MODEL.md 3.4.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "model/rope.h"

namespace strata::model {
namespace {

constexpr int kPairs = 32;

Config real_rope() {
  Config config;
  config.rot_dim = 2 * kPairs;
  config.rope_frequencies = rope_frequencies(config.rot_dim, 1e7);
  config.rope_sections = {11, 11, 10};
  return config;
}

std::vector<float> row_at(const Config& config, std::array<int, 3> position) {
  std::vector<float> row(static_cast<size_t>(config.rot_dim));
  rope_row(config, position, row);
  return row;
}

// The pairs that one axis turns.
std::set<int> pairs_of_axis(const Config& config, size_t axis) {
  std::array<int, 3> position{};
  position[axis] = 1000;
  const auto row = row_at(config, position);
  std::set<int> pairs;
  for (int i = 0; i < config.rot_dim / 2; ++i) {
    const auto pair = static_cast<size_t>(i);
    if (row[pair] != 1.0f || row[static_cast<size_t>(config.rot_dim / 2) + pair] != 0.0f) {
      pairs.insert(i);
    }
  }
  return pairs;
}

TEST(Rope, AxesTakeTurnsAsTheDocumentLists) {
  const Config config = real_rope();
  EXPECT_EQ(pairs_of_axis(config, 0), (std::set<int>{0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30}));
  EXPECT_EQ(pairs_of_axis(config, 1), (std::set<int>{1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31}));
  EXPECT_EQ(pairs_of_axis(config, 2), (std::set<int>{2, 5, 8, 11, 14, 17, 20, 23, 26, 29}));
}

TEST(Rope, PairsBeyondASectionBelongToTheFirstAxis) {
  Config config = real_rope();
  config.rope_sections = {24, 4, 4};
  const std::set<int> h = {1, 4, 7, 10}, w = {2, 5, 8, 11};
  EXPECT_EQ(pairs_of_axis(config, 1), h);
  EXPECT_EQ(pairs_of_axis(config, 2), w);
  EXPECT_EQ(pairs_of_axis(config, 0).size(), static_cast<size_t>(kPairs) - h.size() - w.size());
}

TEST(Rope, AnglesAreExactFarIntoTheContext) {
  const Config config = real_rope();
  for (const int position : {0, 1, 77, 262143}) {
    const auto row = row_at(config, {position, position, position});
    for (int i = 0; i < kPairs; ++i) {
      const long double angle =
          static_cast<long double>(position) * std::pow(10.0L, -7.0L * 2 * i / (2 * kPairs));
      EXPECT_NEAR(row[static_cast<size_t>(i)], static_cast<double>(std::cos(angle)), 1e-6) << i;
      EXPECT_NEAR(row[static_cast<size_t>(kPairs + i)], static_cast<double>(std::sin(angle)), 1e-6);
    }
  }
}

}  // namespace
}  // namespace strata::model
