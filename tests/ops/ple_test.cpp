#include "ops/support/harness.h"
#include "ops/support/random_operands.h"

namespace strata::ops_test {
namespace {

struct PleCase {
  using Args = backend::PleInjectArgs;
  static constexpr float kEps = 1e-6f;
  int count, streams, width, taps, dilation;
  std::vector<float> key, value, norm_key, norm_query, norm_conv, conv, conv_state, residual;

  PleCase(Random& random, int rows, int streams, int width, int taps, int dilation)
      : count(rows),
        streams(streams),
        width(width),
        taps(taps),
        dilation(dilation),
        key(random.normal(rows * wide())),
        value(random.normal(rows * width)),
        norm_key(random.normal(wide(), 0.2, 1)),
        norm_query(random.normal(wide(), 0.2, 1)),
        norm_conv(random.normal(wide(), 0.2, 1)),
        conv(random.normal(wide() * taps, 0.5)),
        conv_state(random.normal(history() * wide())),
        residual(random.normal(rows * wide(), 3)) {}

  int64_t wide() const { return static_cast<int64_t>(streams) * width; }
  int64_t history() const { return static_cast<int64_t>(taps - 1) * dilation; }
  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return std::nullopt; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> r = residual, tail = conv_state;
    int64_t at = 0;
    for (int rows : calls) {
      std::vector<float> scratch(static_cast<size_t>(rows * 2 * wide()), NAN);
      const Args a{.key = &key[at * wide()],
                   .value = &value[at * width],
                   .norm_key = norm_key.data(),
                   .norm_query = norm_query.data(),
                   .norm_conv = norm_conv.data(),
                   .conv = conv.data(),
                   .conv_state = tail.data(),
                   .residual = &r[at * wide()],
                   .scratch = scratch.data(),
                   .eps = kEps,
                   .rows = rows,
                   .streams = streams,
                   .width = width,
                   .conv_width = taps,
                   .dilation = dilation};
      launch(spec, device, &a);
      at += rows;
    }
    Outputs out;
    out.add(r);
    out.add(tail);
    return out;
  }

  template <class N>
  N gate(const std::vector<N>& k, const std::vector<N>& q) const {
    const N match = dot<N>(k.data(), q.data(), width) / sqrt(N(width));
    const double sign = match.v > 0 ? 1 : match.v < 0 ? -1 : 0;
    return sigmoid(N(sign) * sqrt(max(abs(match), N(1e-6))));
  }

  template <class N>
  std::vector<N> expected() const {
    // What the convolution sees, the history first. It is kept as float.
    std::vector<N> seen(conv_state.begin(), conv_state.end());
    std::vector<N> skip;
    for (int r = 0; r < count; ++r) {
      for (int s = 0; s < streams; ++s) {
        const int64_t at = r * wide() + s * width, channel = s * width;
        const N g = gate<N>(rms_norm<N>(&key[at], width, kEps, &norm_key[channel]),
                            rms_norm<N>(&residual[at], width, kEps, &norm_query[channel]));
        std::vector<N> u;
        for (int c = 0; c < width; ++c) u.push_back(g * N(value[r * width + c]));
        for (const N& n : rms_norm<N>(u.data(), width, kEps, &norm_conv[channel])) {
          seen.push_back(n.stored());
        }
        skip.insert(skip.end(), u.begin(), u.end());
      }
    }
    std::vector<N> out;
    for (int r = 0; r < count; ++r) {
      for (int64_t c = 0; c < wide(); ++c) {
        N sum(0);
        for (int tap = 0; tap < taps; ++tap) {
          sum = sum + N(conv[c * taps + tap]) * seen[(r + tap * dilation) * wide() + c];
        }
        const int64_t at = r * wide() + c;
        out.push_back(N(residual[at]) + skip[at] + silu(sum));
      }
    }
    out.insert(out.end(), seen.end() - history() * wide(), seen.end());
    return out;
  }
};

class Ple : public OpTest {
 protected:
  // A case of one stream whose convolution is switched off: R + gate * value remains.
  PleCase bare() {
    Random random(1);
    PleCase c(random, 1, 1, 4, 4, 3);
    for (auto* ones : {&c.norm_key, &c.norm_query, &c.norm_conv}) {
      std::fill(ones->begin(), ones->end(), 1.0f);
    }
    std::fill(c.conv.begin(), c.conv.end(), 0.0f);
    c.value = {1, 2, 4, 8};
    return c;
  }
};

TEST_F(Ple, FollowsTheInjectionFormula) {
  Random random(2);
  for (int rows : {1, 2, 3, 7, 8, 9, 10, 64, 65}) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    check(PleCase(random, rows, 4, 21, 4, 3));
  }
  check(PleCase(random, 3, 4, 640, 4, 3));
}

TEST_F(Ple, TakesOtherConvolutions) {
  Random random(3);
  check(PleCase(random, 11, 2, 8, 3, 1));
  check(PleCase(random, 11, 2, 8, 2, 5));
  check(PleCase(random, 5, 3, 9, 1, 3));
}

TEST_F(Ple, OpensTheGateHalfWhenKeyAndResidualAreOrthogonal) {
  PleCase c = bare();
  c.key = {1, 1, 0, 0};
  c.residual = {0, 0, 1, -1};
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {1}).floats;
    EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 4),
              (std::vector<float>{0.5f, 1.0f, 3.0f, 3.0f}));
  }
}

TEST_F(Ple, OpensTheGateHalfForAZeroResidual) {
  PleCase c = bare();
  c.residual = {0, 0, 0, 0};
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {1}).floats;
    EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 4),
              (std::vector<float>{0.5f, 1.0f, 2.0f, 4.0f}));
  }
}

// Parallel: match = 4 / sqrt(4) = 2, gate = sig(sqrt 2); opposite: sig(-sqrt 2).
TEST_F(Ple, PassesTheRootOfTheMatchWithItsSign) {
  for (float sign : {1.0f, -1.0f}) {
    PleCase c = bare();
    c.key = {1, 1, 1, 1};
    c.residual = {sign, sign, sign, sign};
    const double gate = sign > 0 ? 0.8044296 : 0.1955704;
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const std::vector<float> got = c.run(*spec, device(), {1}).floats;
      for (int i = 0; i < 4; ++i) EXPECT_NEAR(got[i], sign + gate * c.value[i], 1e-5);
    }
  }
}

// A match of 5e-10 counts as 1e-6, whose root is 1e-3: gate = sig(1e-3).
TEST_F(Ple, LiftsTheSmallestMatches) {
  PleCase c = bare();
  c.key = {1, 1, 0, 0};
  c.residual = {1e-9f, 0, 1, 1};
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {1}).floats;
    EXPECT_NEAR(got[3], 1 + 8 * 0.50024999998, 2e-6);
  }
}

TEST_F(Ple, ReadsTheTapsThreeTokensApart) {
  PleCase c = bare();
  c.conv = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 10, 100, 1000};
  std::fill(c.conv_state.begin(), c.conv_state.end(), 0.0f);
  c.key = {1, 1, 0, 0};
  c.residual = {0, 0, 1, -1};
  c.conv_state[0 * 4 + 3] = 3;  // nine tokens back: tap 0
  c.conv_state[3 * 4 + 3] = 2;  // six: tap 1
  c.conv_state[6 * 4 + 3] = 1;  // three: tap 2
  c.conv_state[5 * 4 + 3] = 1e6f;
  // The normalised value of channel 3 is 8 / sqrt(85 / 4).
  const double current = 8 / std::sqrt(85.0 / 4);
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {1}).floats;
    EXPECT_NEAR(got[3], -1 + 4 + 3 + 20 + 100 + 1000 * current, 2e-2);
  }
}

TEST_F(Ple, TakesTheModelsWidth) {
  Random random(12);
  expect_one_result(PleCase(random, 3, 4, 2560, 4, 3));
}

}  // namespace
}  // namespace strata::ops_test
