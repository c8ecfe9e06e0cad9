// JSON schemas and tool calls: what is refused and how it is said, what calls look like, what is
// free before the language starts. That outputs validate is checked by grammar_schema_check.py.
#include <set>

#include <gtest/gtest.h>

#include "grammar_fixture.h"
#include "text/grammar/free_text.h"
#include "text/grammar/json_number.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/tool_call.h"

namespace strata::grammar {
namespace {

std::shared_ptr<const Vocabulary> usual() {
  static const auto made = vocabulary_of(usual_pieces());
  return made;
}

Status schema_error(const Json& schema) {
  GrammarBuilder builder;
  JsonText text(builder);
  const auto root = compile_json_schema(builder, text, schema);
  if (!root.ok()) return root.status();
  return builder.build(*root).status();
}

std::shared_ptr<MaskCache> schema(std::string_view text) {
  GrammarBuilder builder;
  JsonText json(builder);
  const Json parsed = Json::parse(text);
  const auto root = compile_json_schema(builder, json, parsed);
  EXPECT_TRUE(root.ok()) << root.status().message();
  return root.ok() ? compile(builder, *root, usual()) : nullptr;
}

TEST(JsonSchema, RefusalsNameTheJsonPointer) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"properties":{"a/b":{"items":{"not":{}}}}})", "#/properties/a~1b/items/not: "},
      {R"({"type":"strng"})", "#/type: "},
      {R"({"type":["string",3]})", "#/type: "},
      {R"({"items":5})", "#/items: "},
      {R"({"anyOf":[]})", "#/anyOf: "},
      {R"({"enum":5})", "#/enum: "},
      {R"({"minLength":-1})", "#/minLength: "},
      {R"({"maxItems":1.5})", "#/maxItems: "},
      {R"({"properties":[1]})", "#/properties: "},
      {R"({"required":"a"})", "#/required: "},
      {R"({"properties":{"x":{"pattern":"(?<!a)b"}}})", "#/properties/x: "},
      {R"({"properties":{"x":{"pattern":"[a"}}})", "#/properties/x: "},
      {R"({"multipleOf":0})", "#/multipleOf: "},
      {R"({"minimum":"1"})", "#/minimum: "},
      {R"({"$ref":"#/$defs/none"})", "#/$ref: "},
      {R"({"$ref":"other.json"})", "#/$ref: "},
      {R"({"allOf":[{"$ref":"#"}]})", "#: "},
      {R"({"type":"object","uniqueItems":true})", "#/uniqueItems: "},
      {R"({"type":"object","additionalProperties":{},"minProperties":2})", "#: "},
      {R"({"patternProperties":{"a":{},"b":{},"c":{},"d":{},"e":{}}})", "#/patternProperties: "},
      {R"("text")", "#: "},
  };
  for (const auto& [text, begin] : cases) {
    const Status status = schema_error(Json::parse(text));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(status.message().starts_with(begin)) << text << ": " << status.message();
  }
}

TEST(JsonSchema, HostileSchemasAreRefusedOrCheap) {
  const auto outcome = [](const Json& s) {
    const Status status = schema_error(s);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument) << status.message();
    return status;
  };
  Json deep = Json::object();
  for (int i = 0; i < 5000; ++i) deep = Json{{"items", std::move(deep)}};
  EXPECT_NE(outcome(deep).message().find("levels deep"), std::string::npos);

  Json long_enum = {{"enum", Json::array()}};
  for (int i = 0; i < 25000; ++i) long_enum["enum"].push_back(i);
  EXPECT_FALSE(outcome(long_enum).ok());

  // Twelve choices that all apply: 3^12 combinations.
  Json product = {{"allOf", Json::array()}};
  for (int i = 0; i < 12; ++i) {
    Json choice = {{"anyOf", Json::array()}};
    for (int k = 0; k < 3; ++k) {
      choice["anyOf"].push_back(
          {{"properties", {{"p" + std::to_string(3 * i + k), {{"type", "null"}}}}}});
    }
    product["allOf"].push_back(choice);
  }
  EXPECT_FALSE(outcome(product).ok());

  // References that double: 2^40 ways to one place.
  Json doubling = {{"$ref", "#/$defs/d0"}, {"$defs", Json::object()}};
  for (int i = 0; i < 40; ++i) {
    const Json next = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    doubling["$defs"]["d" + std::to_string(i)] = {
        {"anyOf", {{{"type", "array"}, {"items", next}}, next}}};
  }
  doubling["$defs"]["d40"] = {{"type", "integer"}};
  EXPECT_TRUE(outcome(doubling).ok());

  Json chain = {{"$ref", "#/$defs/d0"}, {"$defs", Json::object()}};
  for (int i = 0; i < 3000; ++i) {
    chain["$defs"]["d" + std::to_string(i)] = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
  }
  chain["$defs"]["d3000"] = true;
  outcome(chain);

  Json wide = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 400; ++i)
    wide["properties"]["name_" + std::to_string(i)] = {{"type", "integer"}};
  EXPECT_TRUE(outcome(wide).ok());
  const auto cache = schema(wide.dump());
  EXPECT_TRUE(
      accepts(cache, R"({"name_0": 1, "name_63": 1, "name_64": 2, "name_200": 3, "name_399": 4})"));
  EXPECT_TRUE(accepts(cache, R"({"name_399": 4})"));
  EXPECT_FALSE(accepts(cache, R"({"name_64": 1, "name_63": 2})"));

  outcome(
      Json{{"type", "string"}, {"pattern", "^(a{1,300}b{1,300}){1,300}$"}, {"maxLength", 2000}});
  outcome(Json{{"type", "string"}, {"pattern", ".*a.{60}"}, {"maxLength", 3000}});
  outcome(Json{{"type", "number"}, {"minimum", -1e308}, {"maximum", 1e308}, {"multipleOf", 9973}});
  outcome(Json{{"type", "array"}, {"minItems", 268435456}});
  outcome(Json{{"type", "array"}, {"minItems", 1e300}});
  outcome(Json{{"type", "object"},
               {"additionalProperties", {{"type", "null"}}},
               {"maxProperties", 250000000}});
}

TEST(JsonSchema, WhiteSpaceIsBounded) {
  const auto cache = schema(R"({"type":"array","items":{"type":"integer"}})");
  EXPECT_TRUE(accepts(cache, "[1,2]"));
  EXPECT_TRUE(accepts(cache, "[\n  1,\n  2\n]"));
  EXPECT_TRUE(accepts(cache, "[ 1, 2 ]"));
  EXPECT_FALSE(accepts(cache, "[1,  2]"));
  EXPECT_FALSE(accepts(cache, "[\n\n\n1]"));
  EXPECT_FALSE(accepts(cache, " [1]"));
  EXPECT_FALSE(accepts(cache, "[1] "));
  EXPECT_FALSE(accepts(cache, "[\n" + std::string(25, ' ') + "1]"));
}

TEST(JsonSchema, StringsAreWellFormedUtf8AndEscapes) {
  const auto cache = schema(R"({"type":"string","maxLength":2})");
  EXPECT_TRUE(accepts(cache, "\"\xf0\x9f\x98\x80\xc3\xa9\""));
  EXPECT_TRUE(accepts(cache, R"("\ud83d\ude00\u00e9")"));  // one character by a pair, one by itself
  EXPECT_TRUE(accepts(cache, R"("\/\n")"));
  EXPECT_FALSE(accepts(cache, R"("\ud83d")"));
  EXPECT_FALSE(accepts(cache, R"("\ude00")"));
  EXPECT_FALSE(accepts(cache, R"("\x41")"));
  EXPECT_FALSE(accepts(cache, "\"\n\""));
  EXPECT_FALSE(accepts(cache, "\"\xc3\""));
  EXPECT_FALSE(accepts(cache, "\"\xed\xa0\x80\""));  // a surrogate as UTF-8
  EXPECT_FALSE(accepts(cache, "\"abc\""));
}

TEST(JsonNumber, AutomataAgreeWithArithmetic) {
  // In hundredths, so that integers decide.
  for (const auto& [low, high, multiple] : {std::tuple{-250, 300, 0},
                                            {0, 0, 0},
                                            {-7, 5, 0},
                                            {-1000, 1000, 25},
                                            {99, 1001, 3},
                                            {-999, -10, 0}}) {
    for (const bool exclusive : {false, true}) {
      NumberConditions conditions;
      conditions.at_least.push_back({Decimal::of(Json(low / 100.0)), exclusive});
      conditions.at_most.push_back({Decimal::of(Json(high / 100.0)), exclusive});
      if (multiple > 0) conditions.multiple_of.push_back(Decimal::of(Json(multiple / 100.0)));
      const auto automaton = number_automaton(conditions);
      ASSERT_TRUE(automaton.ok()) << automaton.status().message();
      for (int v = -1200; v <= 1200; ++v) {
        const bool inside = (exclusive ? v > low && v < high : v >= low && v <= high) &&
                            (multiple == 0 || v % multiple == 0);
        const std::string sign = v < 0 ? "-" : "";
        const int a = std::abs(v);
        const std::string text = fmt::format("{}{}.{:02}", sign, a / 100, a % 100);
        EXPECT_EQ(automaton->accepts(text), inside) << text << " in " << low << " " << high;
        if (a % 10 == 0) {
          EXPECT_EQ(automaton->accepts(text.substr(0, text.size() - 1)), inside) << text;
        }
        if (a % 100 == 0) {
          EXPECT_EQ(automaton->accepts(text.substr(0, text.size() - 3)), inside) << text;
        }
      }
    }
  }
}

ToolSignature weather(bool strict) {
  return {"get_weather", Json::parse(R"({"type":"object","properties":{"city":{"type":"string"},
    "days":{"type":"integer","minimum":1,"maximum":14},"unit":{"enum":["c","f"]},
    "options":{"type":"object","properties":{"x":{"type":"boolean"}},"required":["x"]}},
    "required":["city","unit"],"additionalProperties":false})"),
          strict};
}

std::shared_ptr<MaskCache> calls(const std::vector<ToolSignature>& tools, bool several,
                                 size_t skip = 0) {
  GrammarBuilder builder;
  JsonText text(builder);
  const auto root = compile_tool_calls(builder, text, tools, several, skip);
  EXPECT_TRUE(root.ok()) << root.status().message();
  return root.ok() ? compile(builder, *root, usual()) : nullptr;
}

std::string call(std::string_view name,
                 const std::vector<std::pair<std::string, std::string>>& arguments) {
  std::string out = fmt::format("<tool_call>\n<function={}>\n", name);
  for (const auto& [key, value] : arguments) {
    out += fmt::format("<parameter={}>\n{}\n</parameter>\n", key, value);
  }
  return out + "</function>\n</tool_call>";
}

TEST(ToolCalls, StrictOnesStandInOrderAndObeyTheirSchema) {
  const auto cache = calls({weather(true), {"now", nullptr, true}}, false);
  EXPECT_TRUE(
      accepts(cache, call("get_weather", {{"city", "Z\xc3\xbcrich <b>\n\n</a>"}, {"unit", "c"}})));
  EXPECT_TRUE(accepts(
      cache, call("get_weather",
                  {{"city", ""}, {"days", "14"}, {"unit", "f"}, {"options", "{\"x\": true}"}})));
  EXPECT_TRUE(accepts(cache, call("now", {})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"unit", "c"}, {"city", "x"}})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"city", "x"}})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"city", "x"}, {"days", "15"}, {"unit", "c"}})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"city", "x"}, {"unit", "k"}})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"city", "x"}, {"unit", "c"}, {"q", "1"}})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"city", "a\n</parameter>b"}, {"unit", "c"}})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"city", "</parameter>b"}, {"unit", "c"}})));
  EXPECT_FALSE(accepts(cache, call("now", {{"x", "1"}})));
  EXPECT_FALSE(accepts(cache, call("other", {})));
  EXPECT_FALSE(accepts(cache, call("now", {}) + "\n" + call("now", {})));
}

TEST(ToolCalls, OthersStandInAnyOrderEachOnce) {
  const auto cache = calls({weather(false)}, true);
  const std::string good = call("get_weather", {{"unit", "c"}, {"days", "3"}, {"city", "x"}});
  EXPECT_TRUE(accepts(cache, good));
  EXPECT_TRUE(accepts(cache, good + "\n" + good));
  EXPECT_FALSE(accepts(cache, good + good));
  EXPECT_FALSE(accepts(cache, good + "\n"));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"unit", "c"}})));
  EXPECT_FALSE(accepts(cache, call("get_weather", {{"unit", "c"}, {"unit", "c"}, {"city", "x"}})));
}

TEST(ToolCalls, AnUnsupportedSchemaIsRefusedOnlyWhenStrict) {
  const Json odd = Json::parse(
      R"({"type":"object","properties":{"a":{"not":{"type":"string"}},"b":{"type":"integer"}},"required":["a"]})");
  GrammarBuilder builder;
  JsonText text(builder);
  const ToolSignature strict{"f", odd, true};
  const auto refused = compile_tool_calls(builder, text, {&strict, 1}, true, 0);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("function f: #/properties/a/not"), std::string::npos)
      << refused.status().message();
  const auto cache = calls({{"f", odd, false}}, false);
  EXPECT_TRUE(accepts(cache, call("f", {{"a", "anything"}, {"b", "1"}})));
  EXPECT_FALSE(accepts(cache, call("f", {{"a", "anything"}, {"b", "x"}})));
  for (const Json& no_object :
       {Json("text"), Json{{"type", "array"}}, Json{{"anyOf", {true, false}}}}) {
    EXPECT_TRUE(accepts(calls({{"f", no_object, false}}, false), call("f", {{"k", "v"}})));
  }
}

TEST(ToolCalls, ManyParametersAndUndeclaredOnes) {
  Json many = {{"type", "object"},
               {"properties", Json::object()},
               {"additionalProperties", {{"type", "integer"}}}};
  for (int i = 0; i < 30; ++i) many["properties"]["p" + std::to_string(i)] = {{"type", "boolean"}};
  const auto loose = calls({{"f", many, false}}, false);
  EXPECT_TRUE(accepts(loose, call("f", {{"p29", "true"}, {"p3", "false"}, {"other", "12"}})));
  EXPECT_FALSE(accepts(loose, call("f", {{"p29", "12"}})));
  const auto strict = calls({{"f", many, true}}, false);
  EXPECT_TRUE(accepts(strict, call("f", {{"p3", "false"}, {"p29", "true"}, {"other", "12"}})));
  EXPECT_FALSE(accepts(strict, call("f", {{"p29", "true"}, {"p3", "false"}})));
}

TEST(ToolCalls, BadNamesAreRefused) {
  GrammarBuilder builder;
  JsonText text(builder);
  for (const auto& tools : {std::vector<ToolSignature>{},
                            {{"", nullptr, true}},
                            {{"a>b", nullptr, true}},
                            {{"f", nullptr, true}, {"f", nullptr, true}}}) {
    EXPECT_EQ(compile_tool_calls(builder, text, tools, true, 0).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(ToolCalls, RandomCallsAreWellFormed) {
  const auto cache = calls({weather(true), {"now", nullptr, true}}, true);
  const auto vocabulary = usual();
  std::mt19937 random(2);
  int finished = 0;
  for (int round = 0; round < 40; ++round) {
    Matcher matcher(cache);
    std::vector<uint64_t> mask(matcher.words());
    std::string text;
    for (int i = 0; i < 3000 && !matcher.ended(); ++i) {
      ASSERT_TRUE(matcher.fill_mask(mask).ok());
      const auto allowed = members(mask, vocabulary->size());
      TokenId token = allowed[random() % allowed.size()];
      for (const std::string_view close : {"\n</parameter>\n", "</function>\n", "</tool_call>"}) {
        for (const TokenId t : allowed) {
          if (i > 60 && vocabulary->bytes(t) == close) token = t;
        }
      }
      if (i > 60 && in_mask(mask, vocabulary->size() - 1)) token = vocabulary->size() - 1;
      ASSERT_TRUE(matcher.advance(token).ok());
      text += vocabulary->bytes(token);
    }
    if (!matcher.ended()) continue;
    ++finished;
    EXPECT_TRUE(text.starts_with("<tool_call>\n<function="));
    EXPECT_TRUE(text.ends_with("\n</tool_call>"));
    const auto count = [&](std::string_view what) {
      size_t n = 0;
      for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
      return n;
    };
    EXPECT_GE(count("<parameter="), count("\n</parameter>\n"));
    EXPECT_GE(count("<function="), count("</function>\n</tool_call>"));
  }
  EXPECT_GT(finished, 5);
}

TEST(FreeText, RunsThroughTheFirstMarker) {
  GrammarBuilder builder;
  const auto cache = compile(
      builder, builder.concat({builder.embed(bytes_through("</think>")), builder.literal("ok")}),
      usual());
  EXPECT_TRUE(accepts(cache, "a < b </thin </</think>ok"));
  EXPECT_TRUE(accepts(cache, "\xff\xfe\n</think>ok"));
  EXPECT_FALSE(accepts(cache, "a</think>no</think>ok"));
  EXPECT_FALSE(accepts(cache, "no marker"));
}

TEST(FreeText, WithoutTheMarkerLooksBackToWhatStandsBefore) {
  const Automaton plain = bytes_without("\n<");
  const Automaton after_line = bytes_without("\n<", "\n");
  EXPECT_TRUE(plain.accepts("<a"));
  EXPECT_FALSE(after_line.accepts("<a"));
  EXPECT_TRUE(after_line.accepts("a<\n"));
  EXPECT_TRUE(after_line.accepts(""));
  for (const Automaton* a : {&plain, &after_line}) {
    EXPECT_FALSE(a->accepts("a\n<"));
    EXPECT_FALSE(a->accepts("\n\n<b"));
    EXPECT_TRUE(a->accepts("\n <"));
  }
}

TEST(FreeText, ATriggerStartsTheLanguageWhereverTokensAreCut) {
  GrammarBuilder builder;
  JsonText text(builder);
  const std::string_view trigger = "<tool_call>";
  const ToolSignature tool{"now", nullptr, true};
  const auto rest = compile_tool_calls(builder, text, {&tool, 1}, true, trigger.size());
  const auto cache =
      compile(builder,
              builder.either({builder.embed(bytes_without(trigger)),
                              builder.concat({builder.embed(bytes_through(trigger)), *rest})}),
              usual());
  EXPECT_TRUE(accepts(cache, ""));
  EXPECT_TRUE(accepts(cache, "Hello <tool_cal"));
  EXPECT_TRUE(accepts(cache, "Hello\n" + call("now", {})));
  EXPECT_FALSE(accepts(cache, "Hello " + call("later", {})));
  EXPECT_FALSE(accepts(cache, "Hello <tool_call>"));
  EXPECT_FALSE(accepts(cache, call("now", {}) + " and text"));
  const std::string whole = "Hi " + call("now", {});
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    Matcher matcher(cache);
    ASSERT_TRUE(matcher.advance_text(whole.substr(0, cut)).ok());
    ASSERT_TRUE(matcher.advance_text(whole.substr(cut)).ok()) << cut;
    EXPECT_TRUE(matcher.may_end());
  }
}

}  // namespace
}  // namespace strata::grammar
