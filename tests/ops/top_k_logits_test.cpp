#include <algorithm>
#include <limits>

#include "ops/support/harness.h"
#include "ops/support/random_operands.h"

namespace strata::ops_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct TopKCase {
  using Args = backend::TopKLogitsArgs;
  int valid, k;
  std::vector<std::vector<float>> logits;  // rows

  int rows() const { return static_cast<int>(logits.size()); }
  std::optional<QuantType> weight_type() const { return std::nullopt; }

  // Padding is better than every logit.
  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    const int64_t stride = valid + 3;
    std::vector<float> all, values(logits.size() * static_cast<size_t>(k), -7.0f);
    std::vector<int32_t> ids(values.size(), -7);
    for (const auto& row : logits) {
      all.insert(all.end(), row.begin(), row.end());
      all.insert(all.end(), {kInf, NAN, 3e38f});
    }
    int64_t at = 0;
    for (int rows : calls) {
      std::vector<uint32_t> scratch(static_cast<size_t>(rows * Args::groups(valid)), 0xffffffffu);
      const Args a{.logits = &all[static_cast<size_t>(at * stride)],
                   .stride = stride,
                   .values = &values[static_cast<size_t>(at * k)],
                   .ids = &ids[static_cast<size_t>(at * k)],
                   .scratch = scratch.data(),
                   .rows = rows,
                   .valid = valid,
                   .k = k};
      launch(spec, device, &a);
      at += rows;
    }
    Outputs out;
    out.add(values);
    out.add(ids);
    return out;
  }

  // By counting how many logits come before each one; the values as they were, bit for bit.
  Outputs expected() const {
    Outputs out;
    for (const auto& row : logits) {
      const auto faulty = [&](size_t i) { return std::isnan(row[i]) || row[i] == kInf; };
      std::vector<size_t> order(row.size());
      for (size_t i = 0; i < row.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return faulty(a) != faulty(b) ? faulty(a) : !faulty(a) && row[a] > row[b];
      });
      for (size_t j = 0; j < static_cast<size_t>(k); ++j) {
        out.floats.push_back(row[order[j]]);
        out.ints.push_back(static_cast<int32_t>(order[j]));
      }
    }
    return out;
  }
};

class TopKLogits : public OpTest {
 protected:
  void check(const TopKCase& c) {
    SCOPED_TRACE(testing::Message() << c.k << " of " << c.valid);
    const Outputs want = c.expected();
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const Outputs got = c.run(*spec, device(2), {c.rows()});
      EXPECT_TRUE(same_bits(got, want));
    }
    expect_same_on_devices(c, want);
  }
  static std::vector<float> normal(Random& random, int n) { return random.normal(n, 3); }
};

TEST_F(TopKLogits, GivesTheBestInOrderForAnyCount) {
  Random random(1);
  for (const int valid : {1, 2, 31, 33, 128, 4097}) {
    for (const int k : {1, 2, 20, 129, 1024}) {
      if (k > valid) continue;
      check({valid, k, {normal(random, valid)}});
    }
  }
}

TEST_F(TopKLogits, EqualLogitsGoByTheLowerId) {
  Random random(2);
  check({3000, 40, {random.whole(3000, -3, 3), random.whole(3000, 0, 0)}});
  check({300, 300, {random.whole(300, -1, 1)}});
  // 0 and -0 are equal, and stay what they are.
  std::vector<float> zeros(200, -1.0f);
  zeros[150] = 0.0f, zeros[20] = -0.0f, zeros[199] = -0.0f;
  check({200, 4, {zeros}});
}

// More of them than a block lists: the exact last one is looked for, in the logits and then in the ids.
TEST_F(TopKLogits, MoreEqualLogitsThanAListHolds) {
  Random random(3);
  check({9000, 1000, {random.whole(9000, 0, 1), std::vector<float>(9000, 2.5f)}});
  std::vector<float> few(9000, -4.0f);
  few[8999] = 5.0f, few[4095] = 5.0f, few[4096] = 1.0f;
  check({9000, 1024, {few}});
}

TEST_F(TopKLogits, AFaultComesFirst) {
  Random random(4);
  std::vector<float> a = normal(random, 5000), b = a, c = a;
  a[4321] = NAN;
  b[4000] = kInf, b[77] = -NAN, b[3000] = NAN;
  std::fill(c.begin(), c.end(), NAN);
  for (const int k : {1, 5}) check({5000, k, {a, b, c}});
}

TEST_F(TopKLogits, ImpossibleTokensComeLast) {
  Random random(5);
  std::vector<float> few(5000, -kInf), none(5000, -kInf);
  few[9] = -3e38f, few[4900] = 1.0f, few[123] = 1e-45f, few[124] = -1e-45f;
  for (const int k : {1, 4, 20}) check({5000, k, {few, none}});
}

TEST_F(TopKLogits, ManyRowsAreManyTimesOne) {
  Random random(6);
  TopKCase c{700, 20, {}};
  for (int r = 0; r < 9; ++r) c.logits.push_back(normal(random, c.valid));
  check(c);
  expect_one_result(c);
}

// Kernels count in more than one round of a block here.
TEST_F(TopKLogits, TakesTheModelsVocabulary) {
  Random random(7);
  check({248320, 20, {normal(random, 248320)}});
}

}  // namespace
}  // namespace strata::ops_test
