// Invented machines; each test says why the choice is right.
#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

#include "engine/planner/plan_text.h"
#include "engine/planner/planner.h"
#include "planner_fixture.h"

namespace strata::engine {
namespace {

using namespace test;

constexpr double kIq2Xs = 35.5, kIq3Xxs = 42.9, kCoder = 23.4;

Plan planned(const ModelCost& model, const std::vector<PlanDevice>& devices,
             const PlanOptions& options, const EngineAbilities& abilities = {}) {
  const auto plan = make_plan(model, devices, options, abilities);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *plan : Plan{};
}

const PlanStage* stage_of(const Plan& plan, std::string_view id) {
  for (const PlanStage& stage : plan.stages) {
    if (stage.id == id) return &stage;
  }
  return nullptr;
}

int layers_of(const Plan& plan, std::string_view id) {
  const PlanStage* stage = stage_of(plan, id);
  return stage == nullptr ? 0 : stage->last - stage->first + 1;
}

bool mentions(const std::vector<RejectedPlan>& rejected, std::string_view what) {
  return std::any_of(rejected.begin(), rejected.end(), [&](const RejectedPlan& other) {
    return other.what.find(what) != std::string::npos;
  });
}

// Hottest pairs spread evenly over the layers, as a profile of the real model ranks them.
const ExpertProfile& profile() {
  static const ExpertProfile kProfile = [] {
    std::vector<uint64_t> counts(48 * 512);
    for (size_t pair = 0; pair < counts.size(); ++pair) counts[pair] = 1'000'000 / (pair % 512 + 5);
    return ExpertProfile::from_counts(48, 512, counts);
  }();
  return kProfile;
}

PlanOptions profiled(int context) {
  PlanOptions out = options(context);
  out.profile = &profile();
  return out;
}

// Seed 000 with an engine that needs whole layers: 46 GB do not lie on 38 GB of cards, so the CPU
// must take a part. A layer costs it ten times a card's time, so it takes only what does not fit.
// The embedding costs no time but half a layer's room, so it goes with the CPU, which is first; the
// head is read by every window and stays on a card, which is last.
TEST(PlanChoice, Seed000WithoutACacheUsesTheCpuForTheRest) {
  const ModelCost model = flash_next(kIq3Xxs);
  const Plan plan = planned(model, {rx7900xtx(), rx9070xt(), cpu(60, 50)}, options(131072));
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages.front().id, "cpu");
  EXPECT_FALSE(plan.stages.back().cpu);
  const uint64_t layer = model.layers[0].dense_bytes + 512 * model.layers[0].expert_bytes;
  for (const char* id : {"gfx1100", "gfx1201"}) {
    const PlanStage* stage = stage_of(plan, id);
    ASSERT_NE(stage, nullptr);
    EXPECT_LE(stage->used_bytes(), stage->free_bytes);
    EXPECT_LT(stage->free_bytes - stage->used_bytes(), layer)
        << "one more layer would have fitted on " << id;
  }
  EXPECT_TRUE(mentions(plan.rejected, "gfx1100 alone"));
  EXPECT_TRUE(mentions(plan.rejected, "gfx1201 alone"));
  EXPECT_TRUE(mentions(plan.rejected, "cpu alone"));
  EXPECT_TRUE(mentions(plan.rejected, "without cpu"));
}

// Seed 000 with caches: the pair holds most of what is used, which one card cannot; the CPU
// computes what neither holds and is no stage.
TEST(PlanChoice, Seed000WithCachesIsFasterAsAPair) {
  const ModelCost model = flash_next(kIq3Xxs);
  const std::vector<PlanDevice> machine = {rx7900xtx(), rx9070xt(), cpu(60, 50, 2, false)};
  const Plan pair = planned(model, machine, profiled(131072), caching());
  ASSERT_EQ(pair.stages.size(), 2u);
  EXPECT_GT(layers_of(pair, "gfx1100"), layers_of(pair, "gfx1201")) << "more memory and bandwidth";
  EXPECT_GT(pair.resident_mass(), 0.8);
  for (const PlanDevice& alone : {machine[0], machine[1]}) {
    const Plan one = planned(model, {alone, machine[2]}, profiled(131072), caching());
    EXPECT_LT(pair.decode_ms, one.decode_ms);
    EXPECT_LT(pair.request_ms, one.request_ms);
    EXPECT_LT(one.resident_mass(), pair.resident_mass());
  }
}

// Seed 001: the desktop's card gives up 5 GiB. Which card the user named first changes nothing.
TEST(PlanChoice, Seed001TheOrderOfNamingDoesNotMatter) {
  const ModelCost model = flash_next(kIq2Xs);
  const PlanDevice xtx = rx7900xtx(23 - 5), xt = rx6950xt(), host = cpu(55, 36, 1, false);
  const Plan a = planned(model, {xtx, xt, host}, profiled(262144), caching());
  const Plan b = planned(model, {xt, xtx, host}, profiled(262144), caching());
  ASSERT_EQ(a.stages.size(), 2u);
  ASSERT_EQ(b.stages.size(), 2u);
  EXPECT_NEAR(a.request_ms, b.request_ms, a.request_ms * (kSearchTolerance + kWorthADevice));
  EXPECT_GT(layers_of(a, "gfx1100"), layers_of(a, "gfx1030"));
  EXPECT_GT(layers_of(b, "gfx1100"), layers_of(b, "gfx1030"));
}

// The reserve for the display moves layers to the other card.
TEST(PlanChoice, ADisplayReserveMovesLayersAway) {
  const ModelCost model = flash_next(kIq2Xs);
  const Plan without = planned(model, {rx7900xtx(23), rx6950xt(), cpu(55, 36)}, options(32768));
  const Plan with = planned(model, {rx7900xtx(18), rx6950xt(), cpu(55, 36)}, options(32768));
  EXPECT_LT(layers_of(with, "gfx1100"), layers_of(without, "gfx1100"));
  EXPECT_LE(stage_of(with, "gfx1100")->used_bytes(), gib(18));
  EXPECT_GT(with.decode_ms, without.decode_ms);
}

// The fault of engines that look at one card's memory for all: the second has less.
TEST(PlanChoice, EveryCardIsFilledByItsOwnMemory) {
  const ModelCost model = flash_next(kIq2Xs);
  PlanDevice first = rx7900xtx(23), second = rx7900xtx(17);
  first.id = "first";
  second.id = "second";
  for (const bool swapped : {false, true}) {
    const Plan plan = swapped ? planned(model, {second, first, cpu(60, 40)}, options())
                              : planned(model, {first, second, cpu(60, 40)}, options());
    ASSERT_NE(stage_of(plan, "second"), nullptr);
    EXPECT_LE(stage_of(plan, "first")->used_bytes(), gib(23));
    EXPECT_LE(stage_of(plan, "second")->used_bytes(), gib(17));
    EXPECT_GT(layers_of(plan, "first"), layers_of(plan, "second"));
  }
}

// Coder fits on the pair and on neither card. Both read about equally fast, so the split follows
// memory: the 5080 is nearly full or the prompt work is even.
TEST(PlanChoice, Rtx5080And3090HoldTheCoderTogether) {
  const ModelCost model = flash_next(kCoder);
  const Plan plan = planned(model, {rtx5080(), rtx3090()}, options(131072));
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.resident_pairs(), plan.pairs());
  EXPECT_GE(layers_of(plan, "sm86"), 22);
  EXPECT_LE(stage_of(plan, "sm120")->used_bytes(), gib(15));
  EXPECT_TRUE(mentions(plan.rejected, "sm120 alone"));
}

// Two equal cards: half the layers each, since any other cut makes one card the slower stage of
// prompts and decoding costs the same everywhere. Nothing is gained by another order, so it is the
// given one.
TEST(PlanChoice, EqualCardsShareEqually) {
  PlanDevice a = rx7900xtx(), b = rx7900xtx();
  a.id = "a";
  b.id = "b";
  const Plan plan = planned(flash_next(kIq2Xs), {a, b, cpu(60, 60)}, options(131072));
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].id, "a");
  EXPECT_NEAR(plan.stages[1].first, 24, 2);
  EXPECT_NE(plan.order.find("both orders cost the same"), std::string::npos) << plan.order;
  EXPECT_TRUE(mentions(plan.rejected, "cpu as a stage"));
}

// 9070 XT and R9700 are one chip with 16 and 32 GB: equally fast, so prompts want equal halves, and
// the small card takes as near to half as it can hold.
TEST(PlanChoice, TheSmallerOfTwoEquallyFastCardsIsFilled) {
  const ModelCost model = flash_next(kIq2Xs);
  PlanDevice small = rx9070xt(), large = r9700();
  small.id = "9070";
  large.id = "r9700";
  const Plan plan = planned(model, {small, large}, options(32768));
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.resident_pairs(), plan.pairs());
  const uint64_t layer = model.layers[0].dense_bytes + 512 * model.layers[0].expert_bytes;
  const PlanStage* filled = stage_of(plan, "9070");
  EXPECT_LT(layers_of(plan, "9070"), layers_of(plan, "r9700"));
  EXPECT_LT(filled->free_bytes - filled->used_bytes(), layer + gib(0.5));
}

// A layer on the 4060 Ti reads 70 MB at 162 GB/s: 0.4 ms instead of 0.13 ms on the 5080, which with
// most of the work in its cache misses only 0.1 ms per layer. So the slow card gets next to
// nothing, and never a part that makes the pair slower than the 5080 alone.
TEST(PlanChoice, ASlowSecondCardDoesNotSlowTheFastOne) {
  const ModelCost model = flash_next(kCoder);
  const PlanDevice host = cpu(60, 60, 2, false);
  const Plan pair = planned(model, {rtx4060ti(), rtx5080(), host}, profiled(131072), caching());
  const Plan alone = planned(model, {rtx5080(), host}, profiled(131072), caching());
  EXPECT_LE(pair.request_ms, alone.request_ms * (1 + kWorthADevice));
  EXPECT_LE(layers_of(pair, "sm89"), 6);
  ASSERT_NE(stage_of(pair, "sm120"), nullptr);
}

// 24 + 8 GB with whole layers: what the 8 GB card holds the CPU need not compute.
TEST(PlanChoice, AnEightGigabyteCardHelpsWhereTheCpuWouldWork) {
  const ModelCost model = flash_next(kIq2Xs);
  const PlanDevice small = card("gfx1102", 7, 250, 20);
  const Plan plan = planned(model, {rtx3090(), small, cpu(60, 60)}, options(32768));
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_GT(layers_of(plan, "sm86"), layers_of(plan, "gfx1102"));
  EXPECT_GT(layers_of(plan, "gfx1102"), 0);
  const Plan without = planned(model, {rtx3090(), cpu(60, 60)}, options(32768));
  EXPECT_LT(plan.decode_ms, without.decode_ms);
}

TEST(PlanChoice, NoGpuIsOneStageOnTheCpu) {
  const Plan plan = planned(flash_next(kIq3Xxs), {cpu(60, 60)}, options());
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_TRUE(plan.stages[0].cpu);
  EXPECT_TRUE(plan.warnings.empty());
  // At 42 GB/s a window of 3.1 GB dense, 0.4 GB head and 0.85 GB experts takes about 105 ms.
  EXPECT_NEAR(plan.decode_ms, 105, 15);
  const Plan small = planned(flash_next(kIq3Xxs), {cpu(32, 60)}, options());
  ASSERT_EQ(small.warnings.size(), 1u);
  EXPECT_NE(small.warnings[0].find("RAM lacks"), std::string::npos);
  EXPECT_GT(small.decode_ms, plan.decode_ms);
}

// Everything fits on the large card, and the small one reads eight times slower: it stays out.
TEST(PlanChoice, OneHugeCardIsBetterThanAnySplit) {
  const Plan plan = planned(flash_next(kIq3Xxs),
                            {card("small", 15, 500, 60), h200(), cpu(200, 200)}, options(131072));
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.stages[0].id, "sm90");
  EXPECT_EQ(plan.decode_ms, plan.stages[0].decode_ms);
  EXPECT_TRUE(mentions(plan.rejected, "cpu as a stage"));
  EXPECT_TRUE(mentions(plan.rejected, "small as a stage"));
  EXPECT_NE(plan.order.find("one device is better"), std::string::npos) << plan.order;
}

// Two huge cards: decoding costs a hand-off more, prompts run in a pipeline; so they share.
TEST(PlanChoice, TwoHugeCardsShareForPromptsAndHardlyLoseInDecoding) {
  const ModelCost model = flash_next(kIq3Xxs);
  PlanDevice a = h200(), b = h200();
  a.id = "a";
  b.id = "b";
  const Plan pair = planned(model, {a, b}, options(131072));
  const Plan alone = planned(model, {a}, options(131072));
  ASSERT_EQ(pair.stages.size(), 2u);
  EXPECT_LE(pair.decode_ms, alone.decode_ms / 0.97);
  EXPECT_GE(pair.prompt_tok_s, 1.35 * alone.prompt_tok_s);
  PlanOptions single = options(131072);
  single.skip_split_if_fits = true;
  const Plan skipped = planned(model, {a, b}, single);
  EXPECT_EQ(skipped.stages.size(), 1u);
}

TEST(PlanChoice, SkipSplitMeansACardThatHoldsEverything) {
  PlanOptions single = options();
  single.skip_split_if_fits = true;
  // The CPU always "holds" the model; that is not what the option is about.
  const Plan plan = planned(flash_next(kCoder), {rtx5080(), rtx3090(), cpu(60, 60)}, single);
  EXPECT_EQ(plan.stages.size(), 2u);
}

TEST(PlanChoice, AGivenSplitIsKept) {
  const ModelCost model = flash_next(kIq2Xs);
  PlanDevice a = h200(), b = h200(), c = h200();
  a.id = "a";
  b.id = "b";
  c.id = "c";
  PlanOptions given = options();
  given.split = *parse_layer_split("10,40");
  const Plan plan = planned(model, {a, b, c}, given);
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.split_points(), (std::vector<int>{10, 40}));
  EXPECT_FALSE(plan.automatic);
  EXPECT_TRUE(mentions(plan.rejected, "layer split auto"));
}

// As given, the slow card comes first although the head is cheaper on the fast one.
TEST(PlanChoice, AGivenOrderIsKept) {
  const ModelCost model = flash_next(kCoder);
  PlanDevice slow = card("slow", 15, 200, 50), fast = card("fast", 20, 1500, 300);
  PlanOptions given = options();
  given.order_as_given = true;
  for (const bool slow_first : {true, false}) {
    const Plan plan =
        slow_first ? planned(model, {slow, fast}, given) : planned(model, {fast, slow}, given);
    ASSERT_EQ(plan.stages.size(), 2u);
    EXPECT_EQ(plan.stages[0].id, slow_first ? "slow" : "fast");
  }
  const Plan free = planned(model, {fast, slow}, options());
  EXPECT_EQ(free.stages.back().id, "fast");
}

TEST(PlanChoice, OnlyWhatTheEngineCanRunIsPlanned) {
  const ModelCost model = flash_next(kCoder);
  EngineAbilities one;
  one.layer_split = false;
  const Plan plan = planned(model, {rtx5080(), rtx3090(), cpu(60, 60)}, options(), one);
  EXPECT_EQ(plan.stages.size(), 1u);
  PlanOptions given = options();
  given.split = *parse_layer_split("10");
  EXPECT_EQ(make_plan(model, std::vector{rtx5080(), rtx3090()}, given, one).status().code(),
            StatusCode::kUnimplemented);
  PlanOptions drafts = options();
  drafts.window_rows = 5;
  const Plan undrafted = planned(model, {h200()}, drafts);
  EXPECT_EQ(undrafted.window_rows, 1);
  ASSERT_EQ(undrafted.warnings.size(), 1u);
  EXPECT_NE(undrafted.warnings[0].find("drafts are not built yet"), std::string::npos);
  // Without a pipeline a second equal card only adds hand-offs.
  EngineAbilities in_turn;
  in_turn.prompt_pipeline = false;
  PlanDevice a = h200(), b = h200();
  EXPECT_EQ(planned(model, {a, b}, options(), in_turn).stages.size(), 1u);
}

TEST(PlanChoice, TheChunkIsTheUsersWhereGiven) {
  PlanOptions given = options();
  given.prompt_chunk = 512;
  EXPECT_EQ(planned(flash_next(kCoder), {h200()}, given).chunk, 512);
  // No chunk is longer than the context.
  EXPECT_EQ(planned(flash_next(kCoder), {h200()}, options(40)).chunk, 40);
}

TEST(PlanChoice, EqualInputGivesEqualOutput) {
  const std::vector<PlanDevice> machine = {rx7900xtx(), rx9070xt(), rx6950xt(), cpu(60, 50)};
  const Plan a = planned(flash_next(kIq3Xxs), machine, profiled(65536), caching());
  const Plan b = planned(flash_next(kIq3Xxs), machine, profiled(65536), caching());
  EXPECT_EQ(plan_table(a), plan_table(b));
}

TEST(PlanChoice, EightDifferentCardsArePlannedAtOnce) {
  std::vector<PlanDevice> machine;
  for (int i = 0; i < 8; ++i)
    machine.push_back(card(fmt::format("d{}", i), 60 + i, 900 + 50 * i, 100 + 13 * (i * 5 % 8)));
  const auto start = std::chrono::steady_clock::now();
  planned(flash_next(kIq3Xxs), machine, options(131072));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // About 0.1 s of an idle core; the limit leaves room for slow builds and busy machines.
  EXPECT_LT(seconds, 10);
}

}  // namespace
}  // namespace strata::engine
