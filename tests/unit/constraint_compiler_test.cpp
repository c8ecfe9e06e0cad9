// Constraints over the vocabulary of the tiny model: every kind and start, through the sampler.
#include "engine/constraint_compiler.h"

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "engine/sampler.h"
#include "tokenizer_fixture.h"

namespace strata::engine {
namespace {

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer made = test::make_tiny_tokenizer();
  return made;
}

struct Answer {
  std::string text;
  bool ended = false;
  Status status;
};

// Draws from random logits; with `text`, its tokens are by far the most probable.
Answer generate(const grammar::Matcher& start, uint64_t seed, const std::string& text = {}) {
  grammar::Matcher matcher = start;
  ResolvedSampling sampling;
  sampling.seed = seed;
  const int size = tokenizer().vocab_size();
  Sampler sampler(sampling, size);
  const auto wanted =
      text.empty() ? std::vector<TokenId>() : *tokenizer().encode(text, text::Special::kParse);
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> logits(static_cast<size_t>(size));
  std::vector<uint64_t> mask(matcher.words());
  Answer out;
  for (int i = 0; i < 400; ++i) {
    for (float& x : logits) x = normal(random);
    if (static_cast<size_t>(i) < wanted.size())
      logits[static_cast<size_t>(wanted[static_cast<size_t>(i)])] = 60.0f;
    out.status = matcher.fill_mask(mask);
    if (!out.status.ok()) return out;
    const auto sampled = sampler.sample(logits, i, mask);
    out.status = sampled.status();
    if (!out.status.ok()) return out;
    out.status = matcher.advance(sampled->token);
    if (!out.status.ok()) return out;
    if (matcher.ended()) {
      out.ended = true;
      return out;
    }
    out.text += tokenizer().token_bytes(sampled->token);
  }
  return out;
}

grammar::Matcher compile(const ConstraintSpec& spec) {
  ConstraintCompiler compiler(tokenizer());
  auto matcher = compiler.compile(spec);
  EXPECT_TRUE(matcher.ok()) << matcher.status().message();
  return std::move(matcher).value();
}

ConstraintSpec regex(std::string text) {
  ConstraintSpec spec;
  spec.kind = ConstraintKind::kRegex;
  spec.text = std::move(text);
  return spec;
}

TEST(Constraint, EveryKindHoldsUnderRandomLogits) {
  ConstraintSpec schema;
  schema.kind = ConstraintKind::kJsonSchema;
  schema.schema = nlohmann::ordered_json::parse(
      R"({"type":"object","properties":{"n":{"type":"integer","minimum":3,"maximum":40},"s":{"enum":["a","b"]}},"required":["n","s"],"additionalProperties":false})");
  ConstraintSpec gbnf;
  gbnf.kind = ConstraintKind::kGrammar;
  gbnf.text = "root ::= (\"yes\" | \"no\"){2}";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Answer word = generate(compile(regex("(yes|no)!{1,3}")), seed);
    EXPECT_TRUE(word.ended) << word.status.message();
    EXPECT_TRUE(word.text.starts_with("yes!") || word.text.starts_with("no!")) << word.text;
    const Answer two = generate(compile(gbnf), seed);
    EXPECT_TRUE(two.text == "yesyes" || two.text == "yesno" || two.text == "noyes" ||
                two.text == "nono");
    const Answer json = generate(compile(schema), seed);
    ASSERT_TRUE(json.ended) << json.text;
    const auto value = nlohmann::json::parse(json.text);
    EXPECT_GE(value["n"].get<int>(), 3);
    EXPECT_LE(value["n"].get<int>(), 40);
    EXPECT_TRUE(value["s"] == "a" || value["s"] == "b");
  }
  ConstraintSpec object;
  object.kind = ConstraintKind::kJsonObject;
  const Answer any = generate(compile(object), 1, "{\"a\": [1, true, null, \"x\"]}<|im_end|>");
  EXPECT_TRUE(any.ended);
  EXPECT_EQ(nlohmann::json::parse(any.text)["a"].size(), 4u);
}

TEST(Constraint, ThinkingIsFreeAndTheAnswerIsNot) {
  ConstraintSpec spec = regex("[0-9]{2}");
  spec.after_thinking = true;
  const Answer answer = generate(compile(spec), 3, "Let me see {\"x\": </thin\n</think>\n\nHello");
  EXPECT_TRUE(answer.ended);
  EXPECT_TRUE(answer.text.starts_with("Let me see {\"x\": </thin\n</think>\n\n")) << answer.text;
  const std::string rest = answer.text.substr(answer.text.find("</think>\n\n") + 10);
  EXPECT_EQ(rest.size(), 2u) << rest;
  EXPECT_EQ(rest.find_first_not_of("0123456789"), std::string::npos);
  // Thinking may not end the answer.
  std::vector<uint64_t> mask(compile(spec).words());
  ASSERT_TRUE(compile(spec).fill_mask(mask).ok());
  for (const TokenId end : tokenizer().end_of_generation()) {
    EXPECT_EQ((mask[static_cast<size_t>(end) / 64] >> (end % 64)) & 1, 0u);
  }
  spec.after_thinking = false;
  spec.start = ConstraintStart::kAfterText;
  spec.start_text = "Answer:";
  EXPECT_TRUE(generate(compile(spec), 3, "Well. Answer:42<|im_end|>").ended);
}

ConstraintSpec tools(ConstraintStart start) {
  ConstraintSpec spec;
  spec.kind = ConstraintKind::kToolCalls;
  spec.tools.push_back(
      {"now",
       nlohmann::ordered_json::parse(
           R"({"type":"object","properties":{"zone":{"enum":["utc","local"]}},"required":["zone"]})"),
       true});
  spec.start = start;
  if (start == ConstraintStart::kOnTrigger) spec.start_text = "<tool_call>";
  return spec;
}

TEST(Constraint, ToolCallsAtOnceOrOnTheirTrigger) {
  const Answer forced = generate(compile(tools(ConstraintStart::kAtOnce)), 5);
  ASSERT_TRUE(forced.ended);
  EXPECT_TRUE(forced.text.starts_with("<tool_call>\n<function=now>\n<parameter=zone>\n"))
      << forced.text;
  EXPECT_TRUE(forced.text.ends_with("\n</parameter>\n</function>\n</tool_call>"));

  const auto lazy = compile(tools(ConstraintStart::kOnTrigger));
  EXPECT_EQ(generate(lazy, 1, "Just text.<|im_end|>").text, "Just text.");
  const Answer called = generate(lazy, 1, "I look.\n\n<tool_call> and then nonsense");
  EXPECT_TRUE(called.text.starts_with("I look.\n\n<tool_call>\n<function=now>\n<parameter=zone>\n"))
      << called.text;
}

TEST(Constraint, ATextOrACall) {
  ConstraintSpec spec = tools(ConstraintStart::kAtOnce);
  spec.kind = ConstraintKind::kRegex;
  spec.text = "fine";
  const auto matcher = compile(spec);
  EXPECT_EQ(generate(matcher, 1, "fine<|im_end|>").text, "fine");
  EXPECT_TRUE(generate(matcher, 1, "<tool_call>").text.starts_with("<tool_call>\n<function=now>"));
}

TEST(Constraint, RefusalsNameTheFieldAndThePlace) {
  ConstraintCompiler compiler(tokenizer());
  const auto refused = [&](ConstraintSpec spec, std::string_view field, std::string_view part) {
    const Status status = compiler.compile(spec).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.field(), field);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused(regex("(a"), "response_format", "a ( without a )");
  ConstraintSpec spec;
  spec.kind = ConstraintKind::kJsonSchema;
  spec.schema = nlohmann::ordered_json::parse(R"({"properties":{"a":{"not":{}}}})");
  refused(spec, "response_format", "#/properties/a/not");
  spec.kind = ConstraintKind::kGrammar;
  spec.text = "root ::= \"a\" root";
  refused(spec, "response_format", "nothing finite");
  spec = tools(ConstraintStart::kAtOnce);
  spec.tools[0].parameters = {{"type", "array"}};
  refused(spec, "tools", "function now");
  spec = tools(ConstraintStart::kOnTrigger);
  spec.start_text = "[TOOL]";
  refused(spec, "tools", "trigger");
  spec = regex("a");
  spec.start = ConstraintStart::kAfterText;
  refused(spec, "response_format", "needs that text");
}

TEST(Constraint, RequestsThatRepeatOneShareItsMasks) {
  ConstraintCompiler compiler(tokenizer());
  const auto first = compiler.compile(regex("[a-z]{3}"));
  const auto again = compiler.compile(regex("[a-z]{3}"));
  const auto other = compiler.compile(regex("[a-z]{4}"));
  EXPECT_EQ(&first->cache(), &again->cache());
  EXPECT_NE(&first->cache(), &other->cache());
}

TEST(Constraint, CompilesAndMasksFromSeveralThreads) {
  ConstraintCompiler compiler(tokenizer());
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const auto matcher = compiler.compile(regex("[ab]{" + std::to_string(1 + i % 10) + "}c"));
        const Answer answer = generate(*matcher, t * 100 + static_cast<unsigned>(i) + 1);
        good += answer.ended && answer.text.size() == static_cast<size_t>(2 + i % 10) ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 48);
}

TEST(SamplerMask, ExcludesBeforeEveryOtherStep) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  ResolvedSampling sampling;
  sampling.temperature = 0.0f;
  sampling.logit_bias = {{3, 50.0f}};
  sampling.top_logprobs = 2;
  Sampler sampler(sampling, 130);
  std::vector<float> logits(130, 0.0f);
  logits[3] = 5.0f;
  logits[100] = 2.0f;
  std::vector<uint64_t> mask(3, 0);
  mask[0] = 1u << 7;
  mask[1] = uint64_t{1} << (100 - 64);
  const auto sampled = sampler.sample(logits, 0, mask);
  ASSERT_TRUE(sampled.ok());
  EXPECT_EQ(sampled->token, 100);
  // Log-probabilities are those of the raw logits: 128 zeros, a 5 and a 2.
  const double total = std::log(128.0 + std::exp(5.0) + std::exp(2.0));
  EXPECT_NEAR(*sampled->logprob, 2.0 - total, 1e-5);
  EXPECT_EQ(sampled->best()[0].token, 3);

  mask.assign(3, ~uint64_t{0});
  EXPECT_EQ(sampler.sample(logits, 0, mask)->token, 3);
  mask.assign(3, 0);
  EXPECT_EQ(sampler.sample(logits, 0, mask).status().code(), StatusCode::kFailedPrecondition);
  logits[7] = -kInf;
  mask[0] = 1u << 7;
  EXPECT_EQ(sampler.sample(logits, 0, mask).status().code(), StatusCode::kFailedPrecondition);
  // The mask hides no fault of the model.
  logits[50] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sampler.sample(logits, 0, mask).status().code(), StatusCode::kInternal);

  ResolvedSampling banned;
  banned.logit_bias = {{7, -kInf}};
  std::vector<float> flat(130, 0.0f);
  const auto status = Sampler(banned, 130).sample(flat, 0, mask).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "logit_bias");
}

}  // namespace
}  // namespace strata::engine
