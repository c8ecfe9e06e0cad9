// The forward pass against the original implementation (reference file) and against an exact
// evaluation of the default file.
#include "golden/golden_data.h"
#include "support/shared_material.h"

namespace strata::test {
namespace {

// Two float32 implementations agree to about 5e-5 on logits of RMS 4.2; the goal is 1e-4 of the RMS.
constexpr double kLogitTolerance = 1e-4;
// After an exact tie at the indexer's cut either choice is right; golden/README.md states this bound.
constexpr double kTieTolerance = 2e-2;

std::string reference_file() {
  const std::string shared = shared_material();
  return shared.empty() ? "" : shared + "/tiny-model/strata-tiny-bf16-00001-of-00002.gguf";
}

// Compares the last rows with a golden file; rows from an indexer tie on get the tie tolerance.
void expect_last_rows(const Prompt& prompt, std::span<const float> logits, size_t vocabulary,
                      const std::string& golden_path) {
  const std::vector<float> golden = read_f32(golden_path);
  ASSERT_GT(golden.size(), 0u);
  ASSERT_LE(golden.size(), logits.size());
  const std::span<const float> last = logits.last(golden.size());
  const double scale = rms(golden);
  const size_t rows = golden.size() / vocabulary;
  double tolerance = kLogitTolerance * scale;
  for (size_t row = 0; row < rows; ++row) {
    if (prompt.gaps.size() == rows && prompt.gaps[row] == 0.0) tolerance = kTieTolerance;
    double worst = 0;
    for (size_t i = row * vocabulary; i < (row + 1) * vocabulary; ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(last[i]) - golden[i]));
    }
    EXPECT_LE(worst, tolerance) << prompt.name << " row " << row;
  }
}

class GoldenLogits : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    reference_ = GetParam();
    path_ = reference_ ? reference_file() : default_model();
    if (path_.empty()) GTEST_SKIP() << "the bf16 reference file is not on this machine";
  }
  std::string golden(const std::string& name) const {
    return reference_ ? tiny_dir() + "/golden/" + name + ".last16.f32"
                      : tiny_dir() + "/golden/iq-mix/" + name + ".iq-mix.last16.f32";
  }
  bool reference_ = false;
  std::string path_;
};

TEST_P(GoldenLogits, AreWithinToleranceForEveryPromptAndChunkSize) {
  TestModel model(path_, float_activations());
  for (const Prompt& prompt : golden_prompts()) {
    const bool longest = prompt.ids.size() > 160;
    for (const size_t chunk : {prompt.ids.size(), size_t{512}, size_t{64}, size_t{7}, size_t{1}}) {
      if (longest && chunk < 64) continue;  // the shorter ones cover these, many times faster
      const auto logits = model.logits(prompt.ids, chunk);
      expect_last_rows(prompt, logits, model.vocabulary(), golden(prompt.name));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenLogits, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Reference" : "Default"; });

TEST(GoldenReference, EveryPositionMatches) {
  if (reference_file().empty()) GTEST_SKIP() << "the bf16 reference file is not on this machine";
  TestModel model(reference_file(), float_activations());
  for (const char* name : {"01-hello", "02-sum"}) {
    const auto logits = model.logits(golden_prompt(name).ids, 7);
    const auto golden = read_f32(tiny_dir() + "/golden/" + name + ".all.f32");
    ASSERT_EQ(logits.size(), golden.size());
    const double scale = rms(golden);
    for (size_t i = 0; i < golden.size(); ++i) {
      ASSERT_NEAR(logits[i], golden[i], kLogitTolerance * scale) << name << " at " << i;
    }
  }
}

TEST(GoldenReference, ResidualStreamsMatchLayerByLayer) {
  if (reference_file().empty()) GTEST_SKIP() << "the bf16 reference file is not on this machine";
  TestModel model(reference_file(), float_activations());
  const auto golden = read_f32(tiny_dir() + "/golden/02-sum.residual.f32");
  const Prompt prompt = golden_prompt("02-sum");
  const size_t per_layer = golden.size() / 9;
  ASSERT_EQ(per_layer, prompt.ids.size() * 1024);
  int layers_seen = 0;
  model.model().set_observer(
      {.on_residual =
           [&](int layer, std::span<const float> residual) {
             ++layers_seen;
             ASSERT_EQ(residual.size(), per_layer);
             const auto expected =
                 std::span(golden).subspan(static_cast<size_t>(layer + 1) * per_layer, per_layer);
             const double scale = rms(expected);
             for (size_t i = 0; i < per_layer; ++i) {
               ASSERT_NEAR(residual[i], expected[i], kLogitTolerance * scale)
                   << "layer " << layer << " at " << i;
             }
           },
       .on_routes = {}});
  model.logits(prompt.ids, prompt.ids.size());
  EXPECT_EQ(layers_seen, 9);
}

TEST(GoldenReference, RoutesMatchLayerByLayer) {
  if (reference_file().empty()) GTEST_SKIP() << "the bf16 reference file is not on this machine";
  TestModel model(reference_file(), float_activations());
  const auto routes = read_json(tiny_dir() + "/golden/11-recall-150.routes.json");
  const Prompt prompt = golden_prompt("11-recall-150");
  const size_t last_rows = prompt.ids.size() - prompt.gaps.size();
  const size_t tie = last_rows + static_cast<size_t>(std::find(prompt.gaps.begin(),
                                                               prompt.gaps.end(), 0.0) -
                                                     prompt.gaps.begin());
  ASSERT_LT(tie, prompt.ids.size()) << "this prompt is known to have a tie";
  int layers_seen = 0;
  model.model().set_observer(
      {.on_residual = {},
       .on_routes = [&](int layer, std::span<const int32_t> ids, std::span<const float> weights) {
         ++layers_seen;
         const auto& golden = routes["layers"][static_cast<size_t>(layer)];
         for (size_t t = 0; t < prompt.ids.size(); ++t) {
           for (size_t j = 0; j < 4; ++j) {
             ASSERT_EQ(ids[t * 4 + j], golden["experts"][t][j].get<int>())
                 << "layer " << layer << " token " << t << " choice " << j;
             ASSERT_NEAR(weights[t * 4 + j], golden["weights"][t][j].get<double>(),
                         t < tie ? kLogitTolerance : kTieTolerance)
                 << "layer " << layer << " token " << t;
           }
         }
       }});
  model.logits(prompt.ids, prompt.ids.size());
  EXPECT_EQ(layers_seen, 8);
}

TEST(GoldenReference, GreedyContinuationsMatchAsFarAsMarginsAreSafe) {
  if (reference_file().empty()) GTEST_SKIP() << "the bf16 reference file is not on this machine";
  TestModel model(reference_file(), float_activations());
  for (const Prompt& prompt : golden_prompts()) {
    const auto greedy = model.greedy(prompt.ids, prompt.greedy_safe, 64);
    EXPECT_EQ(greedy, std::vector<TokenId>(
                          prompt.greedy.begin(),
                          prompt.greedy.begin() + static_cast<ptrdiff_t>(prompt.greedy_safe)))
        << prompt.name;
  }
}

}  // namespace
}  // namespace strata::test
