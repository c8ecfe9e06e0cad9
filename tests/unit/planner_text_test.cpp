#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/planner/plan_text.h"
#include "engine/planner/planner.h"
#include "planner_fixture.h"

namespace strata::engine {
namespace {

using namespace test;

// The plan of seed 001, as the founding report's log has it.
Plan seed001() {
  Plan plan;
  plan.layers = 48;
  plan.context = 262144;
  plan.chunk = 1024;
  plan.automatic = true;
  plan.profiled = true;
  plan.decode_ms = 32.41;
  plan.prompt_tokens = 8192;
  plan.prompt_tok_s = 633;
  plan.order = "hip:0, then hip:1: both orders cost the same";
  PlanStage a, b;
  a.id = "hip:0";
  a.title = "hip:0 gfx1100 AMD Radeon RX 7900 XTX";
  a.first = 0;
  a.last = 33;
  a.pairs = 34 * 512;
  a.resident_pairs = 12000;
  a.resident_mass = 0.99;
  a.decode_ms = 20;
  a.chunk_ms = 800;
  a.chunk_curve = {100, 100, 100, 110, 120, 140, 180, 230, 300, 480};
  b = a;
  b.id = "hip:1";
  b.title = "hip:1 gfx1030 AMD Radeon RX 6950 XT";
  b.device = 1;
  b.first = 34;
  b.last = 47;
  b.pairs = 14 * 512;
  b.resident_pairs = 7023;
  b.resident_mass = 0.9995;
  plan.stages = {a, b};
  return plan;
}

TEST(PlanText, TheLinesThatUsersKnow) {
  EXPECT_EQ(
      split_line(seed001()),
      "layer split auto: K=34 predicted 32.4 ms per decode window; the caches hold 19023 of 24576 "
      "profiled pairs (~99.3% of the routed mass)");
  EXPECT_EQ(layers_line(seed001()),
            "layers 0-33 (hip:0 gfx1100 AMD Radeon RX 7900 XTX), 34-47 (hip:1 gfx1030 AMD Radeon "
            "RX 6950 XT), "
            "one hand-off per window");
}

TEST(PlanText, TheLinesOfOtherPlans) {
  Plan plan = seed001();
  plan.automatic = false;
  plan.profiled = false;
  EXPECT_EQ(split_line(plan).find("layer split given: K=34 predicted"), 0u);
  EXPECT_NE(split_line(plan).find("of 24576 pairs ("), std::string::npos);
  plan.stages.push_back(plan.stages[1]);
  plan.stages[1].last = 40;
  plan.stages[2].first = 41;
  EXPECT_NE(split_line(plan).find("K=34,41 "), std::string::npos);
  EXPECT_NE(layers_line(plan).find(", two hand-offs per window"), std::string::npos);
  plan.stages.resize(1);
  plan.stages[0].last = 47;
  EXPECT_NE(split_line(plan).find("K=none "), std::string::npos);
  EXPECT_NE(layers_line(plan).find("layers 0-47 (hip:0 gfx1100"), std::string::npos);
  EXPECT_NE(layers_line(plan).find(", no hand-offs per window"), std::string::npos);
}

TEST(PlanText, JsonSaysTheSame) {
  const auto json = plan_json(seed001());
  EXPECT_EQ(json["split_points"], (std::vector<int>{34}));
  EXPECT_EQ(json["stages"].size(), 2u);
  EXPECT_EQ(json["stages"][1]["device"], "hip:1");
  EXPECT_EQ(json["stages"][1]["first_layer"], 34);
  EXPECT_EQ(json["stages"][1]["last_layer"], 47);
  EXPECT_EQ(json["resident_pairs"], 19023);
  EXPECT_EQ(json["pairs"], 24576);
  EXPECT_DOUBLE_EQ(json["predicted_ms_per_window"].get<double>(), 32.41);
  ASSERT_EQ(json["lines"].size(), 2u) << json["lines"].dump();
  EXPECT_EQ(json["lines"][0], split_line(seed001()));
  EXPECT_EQ(json["lines"][1], layers_line(seed001()));
}

TEST(PlanText, TheTableNamesStagesRejectedPlansAndWarnings) {
  Plan plan = seed001();
  plan.rejected = {{"hip:0 alone", "40.00 ms instead of 32.41 ms"}};
  plan.warnings = {"something"};
  const std::string table = plan_table(plan);
  for (const char* part : {"hip:1 gfx1030 AMD Radeon RX 6950 XT", "34-47", "7023/7168",
                           "rejected\n  hip:0 alone: 40.00", "warnings\n  something",
                           "order: hip:0, then hip:1", "prompts 633 tok/s"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(PlanText, APredictionIsComparedWithWhatWasMeasured) {
  const Plan plan = seed001();  // 32.41 ms, 633 tok/s
  EXPECT_FALSE(compare_prediction(plan, {}));
  EXPECT_FALSE(compare_prediction(plan, {.decode_ms = 40.5, .prompt_tok_s = 507}));
  EXPECT_FALSE(compare_prediction(plan, {.decode_ms = 26, .prompt_tok_s = 790}));
  const auto slow = compare_prediction(plan, {.decode_ms = 64.82, .prompt_tok_s = {}});
  ASSERT_TRUE(slow);
  EXPECT_EQ(*slow,
            "the plan was wrong: decode windows were predicted at 32.41 ms and measured at 64.82 "
            "ms (2.00 times as "
            "slow); the split may not be the best one, --layer-split sets another");
  const auto fast = compare_prediction(plan, {.decode_ms = 24, .prompt_tok_s = {}});
  ASSERT_TRUE(fast);
  EXPECT_NE(fast->find("1.35 times as fast"), std::string::npos) << *fast;
  const auto prompts = compare_prediction(plan, {.decode_ms = 33, .prompt_tok_s = 400});
  ASSERT_TRUE(prompts);
  EXPECT_NE(
      prompts->find(
          "prompts were predicted at 633 tok/s and measured at 400 tok/s (1.58 times as slow)"),
      std::string::npos)
      << *prompts;
  EXPECT_TRUE(compare_prediction(plan, {.decode_ms = 70, .prompt_tok_s = 100}));
}

TEST(CutPrompt, AShortPromptIsCutSoThatBothStagesWork) {
  const Plan plan = seed001();
  // 1,024 tokens in one step take 2 * 800 ms; in two of 512 2 * 480 + 480; in four of 256 2 * 300 +
  // 3 * 300.
  const PromptCut cut = cut_prompt(plan, 1024);
  EXPECT_EQ(cut.tokens, 512);
  EXPECT_DOUBLE_EQ(cut.ms, 3 * 480);
  // In turn nothing is gained by cutting.
  const PromptCut in_turn = cut_prompt(plan, 1024, false);
  EXPECT_EQ(in_turn.tokens, 1024);
  EXPECT_DOUBLE_EQ(in_turn.ms, 1600);
  // Nor on one device.
  Plan one = plan;
  one.stages.resize(1);
  EXPECT_EQ(cut_prompt(one, 1024).tokens, 1024);
  EXPECT_EQ(cut_prompt(one, 3).tokens, 3);
  EXPECT_EQ(cut_prompt(plan, 1).tokens, 1);
  EXPECT_EQ(cut_prompt(plan, 100000).tokens, 1024);
}

TEST(CutPrompt, AgreesWithThePlanForItsOwnPrompt) {
  PlanDevice a = h200(), b = h200();
  a.id = "a";
  const auto plan = make_plan(flash_next(42.9), std::vector{a, b}, options(131072), {});
  ASSERT_TRUE(plan.ok());
  const double ms = plan->prompt_tokens / plan->prompt_tok_s * 1e3;
  const PromptCut cut = cut_prompt(*plan, plan->prompt_tokens);
  EXPECT_LE(cut.ms, ms * 1.0001);
  EXPECT_GE(cut.ms, ms * 0.9);
}

std::string refused(const std::vector<PlanDevice>& devices, const PlanOptions& options,
                    double experts_gb = 42.9) {
  const auto plan = make_plan(flash_next(experts_gb), devices, options, {});
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.status().message();
}

TEST(PlanRefusals, AModelThatFitsNowhereSaysWhatIsMissing) {
  // Weights 42.9 GB + 3.02 GB + 0.88 GB = 43.6 GiB, cache 1.2 GiB, states 0.1 GiB, scratch; 38 GiB
  // are there.
  const std::string text =
      refused({rx7900xtx(), rx9070xt(), cpu(60, 50, 2, false)}, options(32768));
  EXPECT_NE(text.find("flash-next.gguf does not fit: "), std::string::npos) << text;
  EXPECT_NE(text.find("23.0 GiB on gfx1100"), std::string::npos) << text;
  EXPECT_NE(text.find("15.0 GiB on gfx1201"), std::string::npos) << text;
  EXPECT_NE(text.find("add cpu to --devices (60.0 GiB of RAM are free)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("use a model file that is "), std::string::npos) << text;
  double missing = 0;
  ASSERT_EQ(
      std::sscanf(text.c_str(), "flash-next.gguf does not fit: %lf GiB are missing", &missing), 1)
      << text;
  EXPECT_NEAR(missing, 43.6 + 1.3 + 0.2 - 38, 0.7);
}

TEST(PlanRefusals, AnOptionIsNamedWhereItHelps) {
  // The model leaves 1 GiB, the cache of 256K tokens wants 6 GiB in f16 and twice that in f32.
  PlanOptions wide = options(262144);
  wide.kv_type = backend::KvType::kF32;
  wide.prompt_chunk = 64;
  const std::string text = refused({card("only", 53, 1000, 100)}, wide);
  EXPECT_NE(text.find("use --kv f16"), std::string::npos) << text;
  int context = 0;
  const size_t at = text.find("use --context ");
  ASSERT_NE(at, std::string::npos) << text;
  ASSERT_EQ(std::sscanf(text.c_str() + at, "use --context %d", &context), 1);
  // And the advice is good.
  PlanOptions smaller = wide;
  smaller.context = context;
  EXPECT_TRUE(
      make_plan(flash_next(42.9), std::vector{card("only", 53, 1000, 100)}, smaller, {}).ok())
      << text;
  PlanOptions half = wide;
  half.kv_type = backend::KvType::kF16;
  EXPECT_TRUE(make_plan(flash_next(42.9), std::vector{card("only", 53, 1000, 100)}, half, {}).ok())
      << text;
}

TEST(PlanRefusals, AGivenSplitThatDoesNotFitNamesTheStage) {
  PlanOptions given = options();
  given.split = *parse_layer_split("40");
  PlanDevice a = rx7900xtx(), b = rx7900xtx();
  a.id = a.title = "hip:0";
  b.id = b.title = "hip:1";
  const std::string text = refused({a, b}, given, 35.5);
  EXPECT_NE(text.find("layer split 40 does not fit in any order: layers 0-39 need "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("more than the 23.0 GiB that are free on hip:0"), std::string::npos) << text;
  EXPECT_NE(text.find("use --layer-split auto"), std::string::npos) << text;
}

TEST(PlanRefusals, InputThatMakesNoSense) {
  const ModelCost model = flash_next(23.4);
  const auto code = [&](const std::vector<PlanDevice>& devices, const PlanOptions& o) {
    return make_plan(model, devices, o, {}).status();
  };
  EXPECT_EQ(code({}, options()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({cpu(60, 60, 2, false)}, options()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({cpu(60, 60), cpu(60, 60)}, options()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({h200()}, options(0)).code(), StatusCode::kInvalidArgument);
  PlanDevice broken = h200();
  broken.memory_gbs = 0;
  EXPECT_NE(code({broken}, options()).message().find("measure the device again"),
            std::string::npos);
  broken.memory_gbs = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(code({broken}, options()).code(), StatusCode::kInvalidArgument);
  PlanOptions split = options();
  split.split = *parse_layer_split("16,32");
  EXPECT_NE(code({h200(), h200()}, split).message().find("3 stages, but there are 2 devices"),
            std::string::npos);
  split.split = *parse_layer_split("48");
  EXPECT_NE(code({h200(), h200()}, split).message().find("at most 47"), std::string::npos);
  const ExpertProfile other = ExpertProfile::even(48, 256);
  PlanOptions profiled = options();
  profiled.profile = &other;
  EXPECT_NE(code({h200()}, profiled).message().find("is of another model"), std::string::npos);
}

}  // namespace
}  // namespace strata::engine
