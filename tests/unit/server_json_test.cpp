#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "server/errors.h"
#include "server/json_input.h"

namespace strata::server {
namespace {

TEST(JsonInput, RefusesWhatIsNotJsonWithThePlace) {
  for (const char* text :
       {"{", "[1,", "{\"a\":}", "nul", "\"\\q\"", "{} {}", "{'a':1}", "01", "[1e999]",
        "\xEF\xBB\xBF", "\"\xC3\x28\"", "\"\xED\xA0\x80\"", "\"a\nb\""}) {
    const auto result = parse_json(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << text;
  }
  for (const std::string_view text : {std::string_view("{}\0", 3), std::string_view("{}\0x", 4),
                                      std::string_view("{\"a\":\0 1}", 9), std::string_view("\0", 1),
                                      std::string_view("\"a\0\"", 4)}) {
    const auto result = parse_json(text);
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find("a zero byte"), std::string::npos) << result.status().message();
    EXPECT_TRUE(json_in(text).is_discarded());
  }
  EXPECT_EQ(parse_json("{\"a\": 1,\n \"b\" 2}").status().message(),
            "The request body is not valid JSON: a syntax error at line 2, column 6.");
  EXPECT_NE(parse_json("\"\xC3\x28\"").status().message().find("not UTF-8"), std::string::npos);
  EXPECT_NE(parse_json("").status().message().find("empty"), std::string::npos);
}

TEST(JsonInput, NamesTheFieldInWhichTheTextWentWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"temperature\":1e999}", "temperature"},
      {"{\"a\":1,\"temperature\":NaN}", "temperature"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xFF\"}]}", "messages[0].content"},
      {"{\"messages\":[{\"a\":[]},{\"a\":{\"b\":1},\"content\":\"\\ud800\"}]}", "messages[1].content"},
      {"{\"logit_bias\":{\"5\":-1e999}}", "logit_bias.5"},
      {"{\"stop\":[\"a\",[1,2],\"b", "stop[2]"},
      {"{\"a\":1,", ""},
      {"{\"a\":{\"b\":1} \"c\":2}", ""},
      {"{\"a\":{\"b\":1},\"\xFF\":2}", ""},
      {"1e999", ""},
  };
  for (const auto& [text, field] : cases) {
    const auto result = parse_json(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().field(), field) << text;
  }
  EXPECT_NE(parse_json("[\"\\ud800\"]").status().message().find("surrogate"), std::string::npos);

  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "{\"" + std::string(5000, 'k') + "\":";
  EXPECT_LT(parse_json(deep).status().field().size(), 1000u);
}

TEST(JsonInput, RefusesDeepNestingQuicklyAndKeepsAllowedDepth) {
  const auto begin = std::chrono::steady_clock::now();
  for (const char* unit : {"[", "{\"a\":"}) {
    std::string text;
    while (text.size() < 10'000'000) text += unit;
    const auto result = parse_json(text);
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find("128 levels"), std::string::npos);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(parse_json(std::string(128, '[') + std::string(128, ']')).ok());
  EXPECT_FALSE(parse_json(std::string(129, '[') + std::string(129, ']')).ok());
  EXPECT_TRUE(parse_json(fmt::format("\"{}\"", std::string(1000, '['))).ok());
}

TEST(JsonInput, BoundsTheNumberOfValues) {
  std::string text = "[";
  for (int i = 0; i < 3'000'000; ++i) text += "0,";
  text += "0]";
  const auto result = parse_json(text);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("2000000 JSON values"), std::string::npos);
}

TEST(JsonInput, ReadsManyKeysInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("\"k{}\":{},", i, i);
  text += "\"k7\":-1}";
  const auto begin = std::chrono::steady_clock::now();
  const auto result = parse_json(text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->size(), 300'000u);
  EXPECT_EQ((*result)["k7"], -1);
}

TEST(JsonInput, TheLastOfEqualKeysWinsAndOrderStays) {
  const auto result = parse_json(R"({"b":1,"a":[1],"b":{"c":2},"a":3})");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(to_text(*result), R"({"b":{"c":2},"a":3})");
}

TEST(JsonInput, WritesInvalidUtf8AsReplacementCharacters) {
  EXPECT_EQ(to_text(Json("a\xFF\x62")), "\"a\xEF\xBF\xBD\x62\"");
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98\x80 \xE2\x82"), "\xF0\x9F\x98\x80 \xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_TRUE(is_valid_utf8("h\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80"));
  for (const char* bad : {"\xC0\x80", "\xE0\x80\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80",
                          "\xED\xA0\x80", "\x80", "\xC3"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
  }
}

TEST(FieldReader, TreatsNullAsAbsentAndNamesTheFieldAtFault) {
  const Json object = Json::parse(R"({"a":null,"s":5,"i":1.5,"big":1e30,"n":"x","w":7.0,"b":0})");
  FieldReader reader(object, "outer");
  EXPECT_FALSE(reader.integer("a", 0, 9));
  EXPECT_FALSE(reader.string("missing"));
  EXPECT_EQ(reader.integer("w", 0, 9), 7);
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.string("s"));
  EXPECT_EQ(reader.status().message(), "outer.s: expected a string, got a number");
  EXPECT_EQ(reader.status().field(), "outer.s");
  EXPECT_FALSE(reader.integer("w", 0, 9)) << "after a failure everything reads as absent";

  const auto message = [&](auto read) {
    FieldReader fresh(object);
    read(fresh);
    return fresh.status().message();
  };
  EXPECT_EQ(message([](FieldReader& r) { r.integer("i", 0, 9); }),
            "i: expected an integer, got 1.5");
  EXPECT_EQ(message([](FieldReader& r) { r.integer("big", 0, 9); }),
            "big: 1e+30 is out of range; it must be from 0 to 9");
  EXPECT_EQ(message([](FieldReader& r) {
              r.number("n", {0, 1});
            }),
            "n: expected a number, got a string");
  EXPECT_EQ(message([](FieldReader& r) { r.boolean("b"); }), "b: expected a boolean, got a number");
  EXPECT_EQ(message([](FieldReader& r) {
              r.number("b", {0, 1, true, false});
            }),
            "b: 0 is out of range; it must be greater than 0 and at most 1");
}

TEST(Errors, TheTableCoversEveryStatusAndBlamesTheRightSide) {
  const std::set<StatusCode> client{StatusCode::kInvalidArgument, StatusCode::kOutOfRange,
                                    StatusCode::kNotFound};
  std::set<StatusCode> seen;
  for (const ErrorRow& row : error_table()) {
    EXPECT_TRUE(seen.insert(row.status).second) << "one row per status";
    const bool blames_client = std::string(row.type) == "invalid_request_error";
    EXPECT_EQ(blames_client, client.contains(row.status)) << status_code_name(row.status);
    EXPECT_EQ(row.http_status / 100, blames_client ? 4 : 5) << status_code_name(row.status);

    const Status status(row.status, "It broke.", "field");
    const Response response = error_response(status);
    EXPECT_EQ(response.status, row.http_status);
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["message"], "It broke.");
    EXPECT_EQ(error["type"], row.type);
    EXPECT_EQ(error["param"], "field");

    // What fails after the engine took the request is never the client's fault.
    EXPECT_GE(error_response(fault_of_ours(status)).status, 500) << status_code_name(row.status);
    EXPECT_EQ(fault_of_ours(status).message(), "It broke.");
  }
  for (int code = 1; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    EXPECT_TRUE(seen.contains(static_cast<StatusCode>(code))) << code;
  }
}

}  // namespace
}  // namespace strata::server
