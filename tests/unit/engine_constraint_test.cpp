// Constrained requests on the tiny model.
#include <gtest/gtest.h>

#include "engine_fixture.h"

namespace strata::engine {
namespace {

class EngineConstraint : public testing::Test {
 protected:
  void SetUp() override {
    engine_ = start_local_engine(tiny_options());
    ASSERT_EQ(wait_until_loaded(*engine_).stage, EngineStage::kReady);
  }
  GenerateRequest request(ConstraintSpec spec) {
    GenerateRequest out;
    out.id = "test";
    out.prompt = *engine_->tokenize("Once there was", false);
    out.sampling.temperature = 1.5f;
    out.sampling.seed = 11;
    out.constraint = std::move(spec);
    return out;
  }
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineConstraint, TheAnswerIsInTheLanguage) {
  ConstraintSpec spec;
  spec.kind = ConstraintKind::kJsonSchema;
  spec.schema = nlohmann::ordered_json::parse(
      R"({"type":"object","properties":{"ok":{"type":"boolean"},"n":{"type":"integer","minimum":1,"maximum":9}},"required":["ok","n"],"additionalProperties":false})");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    GenerateRequest r = request(spec);
    r.sampling.seed = seed;
    r.sampling.top_logprobs = 3;
    Record record;
    ASSERT_TRUE(engine_->submit(std::move(r), record.sink()).ok());
    EXPECT_EQ(record.wait_for_end().reason, FinishReason::kStop);
    const auto value = nlohmann::json::parse(record.text());
    EXPECT_TRUE(value["ok"].is_boolean());
    EXPECT_GE(value["n"].get<int>(), 1);
    EXPECT_LE(value["n"].get<int>(), 9);
    EXPECT_EQ(record.logprobs().size(), record.tokens().size());
  }
}

TEST_F(EngineConstraint, ABadConstraintIsRefusedBeforeAnythingRuns) {
  ConstraintSpec spec;
  spec.kind = ConstraintKind::kRegex;
  spec.text = "a{3";
  spec.text += ",2}";
  Record record;
  const auto refused = engine_->submit(request(spec), record.sink());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().field(), "response_format");
  spec.text = "a";
  GenerateRequest endless = request(spec);
  endless.ignore_eos = true;
  EXPECT_EQ(engine_->submit(std::move(endless), record.sink()).status().field(), "ignore_eos");
  EXPECT_EQ(record.endings(), 0);
}

TEST_F(EngineConstraint, MaxTokensCutsTheAnswer) {
  ConstraintSpec spec;
  spec.kind = ConstraintKind::kRegex;
  spec.text = "[a-f]{400}";
  GenerateRequest r = request(spec);
  r.max_tokens = 5;
  Record record;
  ASSERT_TRUE(engine_->submit(std::move(r), record.sink()).ok());
  EXPECT_EQ(record.wait_for_end().reason, FinishReason::kLength);
  EXPECT_FALSE(record.text().empty());
  EXPECT_EQ(record.text().find_first_not_of("abcdef"), std::string::npos);
}

}  // namespace
}  // namespace strata::engine
