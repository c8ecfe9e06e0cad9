#include "ops/support/harness.h"
#include "ops/support/random_operands.h"

namespace strata::ops_test {
namespace {

struct GdnCase {
  using Args = backend::GdnArgs;
  static constexpr float kEps = 1e-6f;
  int count, key_heads, value_heads, dim, taps;
  std::vector<float> qkv, z, alpha, beta, conv, dt_bias, a_log, norm, conv_state, state;

  // `decay` is the size of -exp(A_log): 20 forgets all within a token.
  GdnCase(Random& random, int rows, int key_heads, int value_heads, int dim, int taps,
          double decay = 0.5)
      : count(rows),
        key_heads(key_heads),
        value_heads(value_heads),
        dim(dim),
        taps(taps),
        qkv(random.normal(rows * channels())),
        z(random.normal(rows * value_heads * dim)),
        alpha(random.normal(rows * value_heads)),
        beta(random.normal(rows * value_heads)),
        conv(random.normal(channels() * taps, 0.5)),
        dt_bias(random.normal(value_heads)),
        norm(random.normal(dim, 0.2, 1)),
        conv_state(random.normal((taps - 1) * channels())),
        state(random.normal(value_heads * dim * dim, 0.3)) {
    for (int h = 0; h < value_heads; ++h) {
      a_log.push_back(static_cast<float>(-decay * random.uniform(0.1, 2)));
    }
  }

  int64_t channels() const { return static_cast<int64_t>(2 * key_heads + value_heads) * dim; }
  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return std::nullopt; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> tail = conv_state, s = state;
    std::vector<float> out(static_cast<size_t>(count * value_heads * dim), NAN);
    int64_t at = 0;
    for (int rows : calls) {
      std::vector<float> scratch(static_cast<size_t>(rows * channels()), NAN);
      const Args args{.qkv = &qkv[at * channels()],
                      .z = &z[at * value_heads * dim],
                      .alpha = &alpha[at * value_heads],
                      .beta = &beta[at * value_heads],
                      .conv = conv.data(),
                      .dt_bias = dt_bias.data(),
                      .a_log = a_log.data(),
                      .norm = norm.data(),
                      .conv_state = tail.data(),
                      .state = s.data(),
                      .out = &out[at * value_heads * dim],
                      .scratch = scratch.data(),
                      .eps = kEps,
                      .rows = rows,
                      .key_heads = key_heads,
                      .value_heads = value_heads,
                      .head_dim = dim,
                      .conv_width = taps};
      launch(spec, device, &args);
      at += rows;
    }
    Outputs result;
    result.add(out);
    result.add(s);
    result.add(tail);
    return result;
  }
};

using Row = std::vector<double>;

// What the recurrence of one value head sees, per token.
struct Head {
  std::vector<Row> q, k, v;
  Row beta, g;
};

Head head_inputs(const GdnCase& c, int head) {
  const int64_t width = c.channels();
  // The whole history side by side: the tail, then this call's rows.
  std::vector<float> p = c.conv_state;
  p.insert(p.end(), c.qkv.begin(), c.qkv.end());
  const auto convolved = [&](int t, int64_t first) {
    Row out;
    for (int64_t ch = first; ch < first + c.dim; ++ch) {
      double sum = 0;
      for (int tap = 0; tap < c.taps; ++tap) {
        sum += static_cast<double>(c.conv[ch * c.taps + tap]) * p[(t + tap) * width + ch];
      }
      out.push_back(sum / (1 + std::exp(-sum)));
    }
    return out;
  };
  const auto unit = [&](Row x, double length) {
    double sum = GdnCase::kEps;
    for (double value : x) sum += value * value;
    for (double& value : x) value *= length / std::sqrt(sum);
    return x;
  };
  Head h;
  const int64_t key_head = head % c.key_heads;
  for (int t = 0; t < c.count; ++t) {
    h.q.push_back(unit(convolved(t, key_head * c.dim), 1 / std::sqrt(c.dim)));
    h.k.push_back(unit(convolved(t, (c.key_heads + key_head) * c.dim), 1));
    h.v.push_back(convolved(t, (2 * c.key_heads + head) * c.dim));
    h.beta.push_back(1 / (1 + std::exp(-c.beta[t * c.value_heads + head])));
    const double a = static_cast<double>(c.alpha[t * c.value_heads + head]) + c.dt_bias[head];
    h.g.push_back(c.a_log[head] * (a > 20 ? a : std::log1p(std::exp(a))));
  }
  return h;
}

double inner(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Raw outputs per token, the state after the last token, and the largest state on the way.
struct Evolution {
  std::vector<Row> out;
  std::vector<Row> state;  // [key row][value column]
  double largest_norm = 0;
};

std::vector<Row> initial_state(const GdnCase& c, int head) {
  std::vector<Row> state;
  for (int i = 0; i < c.dim; ++i) {
    const float* row = &c.state[(static_cast<int64_t>(head) * c.dim + i) * c.dim];
    state.emplace_back(row, row + c.dim);
  }
  return state;
}

double frobenius(const std::vector<Row>& state) {
  double sum = 0;
  for (const Row& row : state) sum += inner(row, row);
  return std::sqrt(sum);
}

// Token by token: decay, predict, correct, read.
Evolution step_by_step(const GdnCase& c, const Head& h, int head) {
  Evolution e;
  e.state = initial_state(c, head);
  e.largest_norm = frobenius(e.state);
  for (int t = 0; t < c.count; ++t) {
    Row read(c.dim, 0.0);
    for (Row& row : e.state) {
      for (double& s : row) s *= std::exp(h.g[t]);
    }
    for (int j = 0; j < c.dim; ++j) {
      double predicted = 0;
      for (int i = 0; i < c.dim; ++i) predicted += e.state[i][j] * h.k[t][i];
      const double d = h.beta[t] * (h.v[t][j] - predicted);
      for (int i = 0; i < c.dim; ++i) {
        e.state[i][j] += h.k[t][i] * d;
        read[j] += e.state[i][j] * h.q[t][i];
      }
    }
    e.out.push_back(read);
    e.largest_norm = std::max(e.largest_norm, frobenius(e.state));
  }
  return e;
}

// All tokens at once: solve (I + A) D = beta (V - e^G K S0) for the corrections D.
Evolution chunked(const GdnCase& c, const Head& h, int head) {
  const std::vector<Row> s0 = initial_state(c, head);
  const int n = c.count;
  Row total(n);
  for (int i = 0; i < n; ++i) total[i] = (i ? total[i - 1] : 0) + h.g[i];
  const auto read = [&](const Row& key, int j) {
    double sum = 0;
    for (int i = 0; i < c.dim; ++i) sum += key[i] * s0[i][j];
    return sum;
  };
  std::vector<Row> d(n, Row(c.dim));
  Evolution e;
  for (int i = 0; i < n; ++i) {
    Row out(c.dim);
    for (int j = 0; j < c.dim; ++j) {
      d[i][j] = h.beta[i] * (h.v[i][j] - std::exp(total[i]) * read(h.k[i], j));
      for (int m = 0; m < i; ++m) {
        d[i][j] -= h.beta[i] * std::exp(total[i] - total[m]) * inner(h.k[i], h.k[m]) * d[m][j];
      }
      out[j] = std::exp(total[i]) * read(h.q[i], j);
      for (int m = 0; m <= i; ++m) {
        out[j] += std::exp(total[i] - total[m]) * inner(h.q[i], h.k[m]) * d[m][j];
      }
    }
    e.out.push_back(out);
  }
  e.state = s0;
  for (int i = 0; i < c.dim; ++i) {
    for (int j = 0; j < c.dim; ++j) {
      e.state[i][j] *= std::exp(total[n - 1]);
      for (int m = 0; m < n; ++m) {
        e.state[i][j] += std::exp(total[n - 1] - total[m]) * h.k[m][i] * d[m][j];
      }
    }
  }
  return e;
}

// Compares outputs and state of a run with an evolution. The delta rule never amplifies an error in
// the state (its factor I - beta k k' has norm one at most), so errors add up over tokens like
// roundings of a state of the largest norm met: `roundings` units of `unit` of that norm.
void expect_evolution(const GdnCase& c, const Outputs& got, int head, const Evolution& want,
                      double largest_norm, double unit) {
  const double slack = unit * largest_norm;
  const int64_t out_size = static_cast<int64_t>(c.count) * c.value_heads * c.dim;
  double worst_out = 0, worst_state = 0;
  for (int t = 0; t < c.count; ++t) {
    const double rms = std::sqrt(inner(want.out[t], want.out[t]) / c.dim + GdnCase::kEps);
    for (int j = 0; j < c.dim; ++j) {
      const int64_t at = (static_cast<int64_t>(t) * c.value_heads + head) * c.dim + j;
      const double gate = c.norm[j] / (1 + std::exp(-c.z[at]));
      const double value = want.out[t][j] / rms * gate;
      // q is 1 / sqrt(dim) long; the norm of the outputs divides their error by their size.
      const double bound =
          std::abs(gate) * (1 + std::abs(want.out[t][j]) / rms) * slack / std::sqrt(c.dim) / rms +
          unit * std::abs(value);
      worst_out = std::max(worst_out, std::abs(got.floats[at] - value) / bound);
    }
  }
  for (int i = 0; i < c.dim; ++i) {
    for (int j = 0; j < c.dim; ++j) {
      const int64_t at = out_size + (static_cast<int64_t>(head) * c.dim + i) * c.dim + j;
      worst_state = std::max(worst_state, std::abs(got.floats[at] - want.state[i][j]) / slack);
    }
  }
  EXPECT_LE(worst_out, 1.0) << "times the bound, head " << head;
  EXPECT_LE(worst_state, 1.0) << "times the bound, head " << head;
}

// Each token rounds every state element a few times.
double rounding_unit(int tokens) { return 8 * std::sqrt(tokens) * 0x1p-24; }

class Gdn : public OpTest {
 protected:
  void expect_recurrence(const GdnCase& c) {
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const Outputs got = c.run(*spec, device(), {c.count});
      for (int head = 0; head < c.value_heads; ++head) {
        const Evolution want = step_by_step(c, head_inputs(c, head), head);
        expect_evolution(c, got, head, want, want.largest_norm, rounding_unit(c.count));
      }
    }
  }
};

TEST_F(Gdn, FollowsTheRecurrenceTokenByToken) {
  Random random(1);
  for (int rows : {1, 2, 3, 7, 8, 9, 64, 65}) {
    SCOPED_TRACE(rows);
    expect_recurrence(GdnCase(random, rows, 2, 6, 16, 4));
  }
  expect_recurrence(GdnCase(random, 20, 1, 3, 128, 4));
}

TEST_F(Gdn, TakesOddHeadsAndConvolutionWidths) {
  Random random(2);
  expect_recurrence(GdnCase(random, 9, 3, 3, 10, 2));
  expect_recurrence(GdnCase(random, 9, 1, 1, 7, 5));
  expect_recurrence(GdnCase(random, 9, 2, 4, 24, 1));
}

TEST_F(Gdn, CarriesItsStateAcrossCallsBitForBit) {
  Random random(3);
  expect_one_result(GdnCase(random, 13, 2, 6, 16, 4));
  expect_one_result(GdnCase(random, 65, 1, 2, 32, 4));
  expect_one_result(GdnCase(random, 5, 2, 2, 16, 1));
}

TEST_F(Gdn, KeepsTheLatestProjectionsAsConvolutionTail) {
  Random random(4);
  for (int rows : {1, 2, 3, 5}) {
    const GdnCase c(random, rows, 1, 2, 8, 4);
    std::vector<float> history = c.conv_state;
    history.insert(history.end(), c.qkv.begin(), c.qkv.end());
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const std::vector<float> got = c.run(*spec, device(), {rows}).floats;
      EXPECT_TRUE(
          std::equal(got.end() - 3 * c.channels(), got.end(), history.end() - 3 * c.channels()));
    }
  }
}

TEST_F(Gdn, AgreesWithTheChunkedClosedForm) {
  constexpr double kRelative = 1e-5;
  Random random(5);
  for (double decay : {1e-4, 0.05, 1.0, 20.0}) {
    SCOPED_TRACE(testing::Message() << "decay " << decay);
    const GdnCase c(random, 48, 2, 4, 32, 4, decay);
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const Outputs got = c.run(*spec, device(), {c.count});
      for (int head = 0; head < c.value_heads; ++head) {
        const Head h = head_inputs(c, head);
        const double norm = step_by_step(c, h, head).largest_norm;
        expect_evolution(c, got, head, chunked(c, h, head), norm, kRelative);
      }
    }
  }
}

TEST_F(Gdn, ForgetsAllWhenTheDecayUnderflows) {
  Random random(6);
  GdnCase c(random, 4, 1, 2, 8, 4);
  std::fill(c.a_log.begin(), c.a_log.end(), -1e4f);
  GdnCase fresh = c;
  std::fill(fresh.state.begin(), fresh.state.end(), 0.0f);
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {4}).floats;
    const std::vector<float> want = fresh.run(*spec, device(), {4}).floats;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-30);
  }
}

TEST_F(Gdn, TakesTheModelsHeads) {
  Random random(7);
  expect_one_result(GdnCase(random, 1, 1, 3, 128, 4));
  expect_one_result(GdnCase(random, 2, 1, 1, 128, 4));
  expect_one_result(GdnCase(random, 35, 2, 4, 128, 4));
  expect_one_result(GdnCase(random, 67, 1, 2, 128, 4));
}

TEST_F(Gdn, KeepsANanInsideItsHead) {
  Random random(8);
  for (int dim : {16, 128}) {
    GdnCase c(random, 9, 2, 4, dim, 4);
    c.qkv[static_cast<size_t>(3 * c.channels() + (2 * c.key_heads + 1) * dim + 5)] = NAN;  // v, head 1
    expect_one_result(c);
    const std::vector<float> got = c.run(*kernels_for(c).front(), device(), {9}).floats;
    for (int r = 0; r < 9; ++r) {
      for (int h = 0; h < 4; ++h) {
        const bool touched = std::any_of(&got[(r * 4 + h) * dim], &got[(r * 4 + h + 1) * dim],
                                         [](float x) { return std::isnan(x); });
        EXPECT_EQ(touched, h == 1 && r >= 3) << "row " << r << ", head " << h;
      }
    }
  }
}

}  // namespace
}  // namespace strata::ops_test
