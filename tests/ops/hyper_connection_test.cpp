#include "ops/support/harness.h"
#include "ops/support/products.h"

namespace strata::ops_test {
namespace {

struct BroadcastCase {
  using Args = backend::HcBroadcastArgs;
  int count, streams, width;
  std::vector<float> e;

  BroadcastCase(Random& random, int rows, int streams, int width)
      : count(rows), streams(streams), width(width), e(random.normal(rows * width)) {}

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return std::nullopt; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> residual(e.size() * static_cast<size_t>(streams), NAN);
    int64_t at = 0;
    for (int rows : calls) {
      const Args args{&e[at * width], &residual[at * width * streams], rows, streams, width};
      launch(spec, device, &args);
      at += rows;
    }
    Outputs out;
    out.add(residual);
    return out;
  }

  template <class N>
  std::vector<N> expected() const {
    std::vector<N> out;
    for (int r = 0; r < count; ++r) {
      for (int s = 0; s < streams; ++s) out.insert(out.end(), &e[r * width], &e[r * width] + width);
    }
    return out;
  }
};

struct ReadCase {
  using Args = backend::HcReadArgs;
  static constexpr float kEps = 1e-6f;
  int count, streams, width, rank;
  bool injects = true;
  std::vector<float> residual, norm;
  Weight down, up, inject;

  ReadCase(Random& random, QuantType type, int rows, int streams, int width, int rank)
      : count(rows),
        streams(streams),
        width(width),
        rank(rank),
        residual(random.normal(rows * streams * width, 3)),
        norm(random.normal(streams * width, 0.2, 1)),
        down(random_weight(random, type, streams * width, rank)),
        up(random_weight(random, type, rank, streams * width)),
        inject(random_weight(random, type, streams * width, streams)) {}

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return down.type; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    const int64_t wide = streams * width;
    std::vector<float> x(static_cast<size_t>(count * width), NAN);
    std::vector<float> weights(static_cast<size_t>(injects ? count * streams : 0), NAN);
    int64_t at = 0;
    for (int rows : calls) {
      std::vector<float> scratch(static_cast<size_t>(rows * (2 * wide + rank)), NAN);
      const Args args{.residual = &residual[at * wide],
                      .norm = norm.data(),
                      .down = down.ref(),
                      .up = up.ref(),
                      .inject = injects ? inject.ref() : backend::WeightRef{},
                      .eps = kEps,
                      .x = &x[at * width],
                      .inject_weight = injects ? &weights[at * streams] : nullptr,
                      .scratch = scratch.data(),
                      .rows = rows,
                      .streams = streams,
                      .width = width,
                      .rank = rank};
      launch(spec, device, &args);
      at += rows;
    }
    Outputs out;
    out.add(x);
    out.add(weights);
    return out;
  }

  template <class N>
  std::vector<N> expected() const {
    std::vector<N> out, weights;
    const N streams_n(streams);
    for (int r = 0; r < count; ++r) {
      std::vector<N> n;
      for (int s = 0; s < streams; ++s) {
        const auto part =
            rms_norm<N>(&residual[(r * streams + s) * width], width, kEps, &norm[s * width]);
        n.insert(n.end(), part.begin(), part.end());
      }
      std::vector<N> low = product<N>(down, 0, n.data());
      for (N& l : low) l = silu(l / streams_n);
      const std::vector<N> gate = product<N>(up, 0, low.data());
      for (int c = 0; c < width; ++c) {
        N sum(0);
        for (int s = 0; s < streams; ++s) {
          sum = sum + sigmoid(gate[s * width + c]) * n[s * width + c];
        }
        out.push_back(sum / streams_n);
      }
      if (!injects) continue;
      for (const N& j : product<N>(inject, 0, n.data())) {
        weights.push_back(N(2) * sigmoid(j / streams_n));
      }
    }
    out.insert(out.end(), weights.begin(), weights.end());
    return out;
  }
};

struct WriteCase {
  using Args = backend::HcWriteArgs;
  int count, streams, width;
  std::vector<float> residual, y, weight;

  WriteCase(Random& random, int rows, int streams, int width)
      : count(rows),
        streams(streams),
        width(width),
        residual(random.normal(rows * streams * width, 3)),
        y(random.normal(rows * width)),
        weight(random.normal(rows * streams, 0.5, 1)) {}

  int rows() const { return count; }
  std::optional<QuantType> weight_type() const { return std::nullopt; }

  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    std::vector<float> r = residual;
    int64_t at = 0;
    for (int rows : calls) {
      const Args args{
          &r[at * streams * width], &y[at * width], &weight[at * streams], rows, streams, width};
      launch(spec, device, &args);
      at += rows;
    }
    Outputs out;
    out.add(r);
    return out;
  }

  template <class N>
  std::vector<N> expected() const {
    std::vector<N> out;
    for (int r = 0; r < count; ++r) {
      for (int s = 0; s < streams; ++s) {
        for (int c = 0; c < width; ++c) {
          out.push_back(N(residual[(r * streams + s) * width + c]) +
                        N(weight[r * streams + s]) * N(y[r * width + c]));
        }
      }
    }
    return out;
  }
};

class HyperConnection : public OpTest {};

TEST_F(HyperConnection, BroadcastCopiesTheEmbeddingIntoEveryStream) {
  Random random(1);
  for (int rows : {1, 2, 9, 65}) {
    const BroadcastCase c(random, rows, 4, 37);
    check(c);
    for (const KernelSpec* spec : kernels_for(c)) {
      const std::vector<float> got = c.run(*spec, device(), {rows}).floats;
      const std::vector<Exact> want = c.expected<Exact>();
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i].v);
    }
  }
}

TEST_F(HyperConnection, ReadFollowsTheFormulaForFloatWeights) {
  Random random(2);
  for (QuantType type : {QuantType::kF32, QuantType::kF16, QuantType::kBF16}) {
    for (int rows : {1, 2, 3, 7, 8, 9}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", " << rows << " rows");
      check(ReadCase(random, type, rows, 4, 45, 11));
    }
  }
}

TEST_F(HyperConnection, ReadFollowsTheFormulaForQuantisedWeights) {
  Random random(3);
  for (QuantType type : {QuantType::kQ8_0, QuantType::kIQ4_NL, QuantType::kQ5_1}) {
    for (int rows : {1, 3, 8}) {
      SCOPED_TRACE(testing::Message() << quant_info(type).name << ", " << rows << " rows");
      check(ReadCase(random, type, rows, 4, 96, 32));
    }
  }
}

TEST_F(HyperConnection, ReadTakesManyRowsAndOtherStreamCounts) {
  Random random(4);
  for (int rows : {64, 65, 300}) {
    SCOPED_TRACE(rows);
    check(ReadCase(random, QuantType::kF32, rows, 2, 24, 8));
  }
}

TEST_F(HyperConnection, ReadMixesWeightTypes) {
  Random random(5);
  ReadCase c(random, QuantType::kF32, 5, 4, 64, 32);
  c.down = random_weight(random, QuantType::kQ8_0, 256, 32);
  c.inject = random_weight(random, QuantType::kBF16, 256, 4);
  check(c);
}

TEST_F(HyperConnection, ReadOfTheFinalMixerLeavesOutTheWriteWeights) {
  Random random(6);
  ReadCase c(random, QuantType::kF32, 3, 4, 32, 8);
  c.injects = false;
  check(c);
}

TEST_F(HyperConnection, ReadOfAZeroResidualIsZeroWithWeightsOfOne) {
  Random random(7);
  ReadCase c(random, QuantType::kF32, 2, 4, 32, 8);
  std::fill(c.residual.begin(), c.residual.end(), 0.0f);
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {2}).floats;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i < 64 ? 0.0f : 1.0f);
  }
}

TEST_F(HyperConnection, ReadAppliesTheScaleOfEachMatrix) {
  Random random(8);
  ReadCase c(random, QuantType::kF32, 3, 4, 32, 8);
  c.down.scale = {1.9f};
  c.up.scale = {0.6f};
  c.inject.scale = {3.1f};
  check(c);
}

TEST_F(HyperConnection, WriteAddsTheWeightedOutputToEveryStream) {
  Random random(9);
  for (int rows : {1, 2, 7, 65}) check(WriteCase(random, rows, 4, 41));
}

TEST_F(HyperConnection, ReadTakesTheModelsWidthAndWiderOnes) {
  Random random(9);
  expect_one_result(ReadCase(random, QuantType::kBF16, 2, 4, 2560, 24));
  expect_one_result(ReadCase(random, QuantType::kF32, 1, 2, 4501, 3));
}

}  // namespace
}  // namespace strata::ops_test
