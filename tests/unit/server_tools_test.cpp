#include <chrono>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "server/tool_call_parser.h"
#include "server_mutations.h"

namespace strata::server {
namespace {

ToolSet tools() {
  ToolSet out;
  out.add({"run", "", Json::parse(R"({"type":"object","properties":{
      "command":{"type":"string"},"timeout":{"type":"integer"},"ratio":{"type":"number"},
      "wait":{"type":"boolean"},"env":{"type":"object"},"args":{"type":"array"},
      "maybe":{"type":["string","null"]},"ref":{"$ref":"#/$defs/count"},
      "either":{"anyOf":[{"type":"string"},{"type":"integer"}]},"level":{"enum":[1,2,3]},
      "word":{"enum":["on","off","3"]},"open":{}},"$defs":{"count":{"type":"integer"}}})"),
           false});
  out.add({"write", "", Json::parse(R"({"type":"object","properties":{
      "path":{"type":"string"},"content":{"type":"string"}}})"),
           false});
  out.add({"ping", "", Json::object(), false});
  return out;
}

struct Call {
  std::string name;
  std::string arguments;
  bool ended = false;
  bool operator==(const Call&) const = default;
};

struct Read {
  std::string text;
  std::vector<Call> calls;
  std::string order;  // one letter a piece, runs joined
  bool operator==(const Read&) const = default;
};

void add(Read& read, const std::vector<CallPiece>& pieces) {
  for (const CallPiece& piece : pieces) {
    char letter = 't';
    switch (piece.kind) {
      case CallPiece::Kind::kText: read.text += piece.text; break;
      case CallPiece::Kind::kBegin:
        letter = 'b';
        EXPECT_EQ(piece.call, static_cast<int>(read.calls.size()));
        read.calls.push_back({piece.text, {}, false});
        break;
      case CallPiece::Kind::kArguments:
        letter = 'a';
        EXPECT_EQ(piece.call, static_cast<int>(read.calls.size()) - 1);
        EXPECT_FALSE(read.calls.back().ended);
        read.calls.back().arguments += piece.text;
        break;
      case CallPiece::Kind::kEnd:
        letter = 'e';
        EXPECT_EQ(piece.call, static_cast<int>(read.calls.size()) - 1);
        read.calls.back().ended = true;
        break;
    }
    if (read.order.empty() || read.order.back() != letter) read.order += letter;
  }
}

Read parse(const std::vector<std::string>& cuts, int max_calls = 1000) {
  static const ToolSet kTools = tools();
  ToolCallParser parser(kTools, max_calls);
  Read read;
  for (const std::string& cut : cuts) {
    std::vector<CallPiece> pieces;
    parser.push(cut, pieces);
    add(read, pieces);
  }
  std::vector<CallPiece> rest;
  parser.finish(rest);
  add(read, rest);
  return read;
}

std::vector<std::string> bytes_of(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) out.emplace_back(1, c);
  return out;
}

// The arguments of the only call in `text`, whole and byte by byte.
std::string arguments_of(const std::string& text) {
  const Read read = parse({text});
  EXPECT_EQ(read, parse(bytes_of(text))) << text;
  if (read.calls.size() != 1) return fmt::format("{} calls", read.calls.size());
  EXPECT_TRUE(read.calls[0].ended);
  EXPECT_TRUE(Json::accept(read.calls[0].arguments)) << read.calls[0].arguments;
  return read.calls[0].arguments;
}

std::string run_with(const std::string& name, const std::string& value) {
  return arguments_of(call("run", parameter(name, value)));
}

TEST(ToolCalls, TextAndCallsAreToldApart) {
  const Read read = parse({"I look.\n\n" + call("run", parameter("command", "ls -l")) + "\n" +
                           call("ping", "") + "\n"});
  EXPECT_EQ(read.text, "I look.");
  ASSERT_EQ(read.calls.size(), 2u);
  EXPECT_EQ(read.calls[0], (Call{"run", R"({"command":"ls -l"})", true}));
  EXPECT_EQ(read.calls[1], (Call{"ping", "{}", true}));
  EXPECT_EQ(read.order, "tbaebae");
}

TEST(ToolCalls, NamesAndArgumentsComeWhileTheTextDoes) {
  const ToolSet set = tools();
  ToolCallParser parser(set);
  const auto push = [&](const std::string& text) {
    std::vector<CallPiece> pieces;
    parser.push(text, pieces);
    return pieces;
  };
  EXPECT_TRUE(push("<tool_call>\n<function=ru").empty());
  auto pieces = push("n>\n");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, "run");
  push("<parameter=command>\n");
  pieces = push("echo \"a");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, "echo \\\"a");
}

TEST(ToolCalls, ValuesHaveTheTypesOfTheSchema) {
  for (const auto& [name, value, expected] : std::vector<std::array<std::string, 3>>{
           {"command", "12", "\"12\""}, {"command", "null", "\"null\""},
           {"command", "{\"a\":1}", R"("{\"a\":1}")"}, {"command", "\"q\"", R"("\"q\"")"},
           {"command", " two\n\nlines ", R"(" two\n\nlines ")"}, {"command", "", "\"\""},
           {"timeout", "12", "12"}, {"timeout", "-3", "-3"}, {"timeout", "12.0", "12"},
           {"timeout", "12.5", "\"12.5\""}, {"timeout", "", "\"\""}, {"timeout", "None", "\"None\""},
           {"timeout", "2026-01-15", "\"2026-01-15\""}, {"timeout", "[1", "\"[1\""},
           {"timeout", "123456789012345678901234567890", "123456789012345678901234567890"},
           {"timeout", "007", "\"007\""}, {"timeout", "1e3", "1000"}, {"timeout", " 5 ", "5"},
           {"ratio", "0.1", "0.1"}, {"ratio", "3", "3"}, {"ratio", "1e-3", "1e-3"},
           {"ratio", "NaN", "\"NaN\""}, {"ratio", "0.10000000000000000001", "0.10000000000000000001"},
           {"wait", "true", "true"}, {"wait", "False", "false"}, {"wait", "yes", "\"yes\""},
           {"env", R"({"A":"b","n":1})", R"({"A":"b","n":1})"}, {"env", "{'A':1}", R"("{'A':1}")"},
           {"args", "[1, \"x\"]", "[1, \"x\"]"}, {"args", "[1", "\"[1\""}, {"args", "[]", "[]"},
           {"maybe", "null", "null"}, {"maybe", "nullable", "\"nullable\""},
           {"ref", "7", "7"}, {"either", "7", "7"}, {"either", "seven", "\"seven\""},
           {"level", "2", "2"}, {"word", "3", "\"3\""}, {"open", "7", "7"},
           {"open", "true", "true"}, {"open", "text", "\"text\""}, {"open", "{\"a\":[1]}", "{\"a\":[1]}"},
           {"unknown", "7", "7"}, {"unknown", "a b", "\"a b\""},
           {"open", std::string("4\0x", 3), R"("4\u0000x")"},
           {"args", std::string("[1]\0x", 5), R"("[1]\u0000x")"}}) {
    EXPECT_EQ(run_with(name, value), fmt::format("{{\"{}\":{}}}", name, expected)) << name << "=" << value;
  }
}

// Every type with what models write for want of a value, or of the wrong type.
TEST(ToolCalls, WhatDoesNotFitItsTypeIsPassedAsTextAndNeverDropped) {
  const std::array<std::string, 6> given{"", "None", "null", "12", "2026-01-15", "[1"};
  const std::array<std::string, 6> text{R"("")", R"("None")", R"("null")",
                                        R"("12")", R"("2026-01-15")", R"("[1")"};
  for (const char* name : {"command", "timeout", "ratio", "wait", "args", "env"}) {
    for (size_t i = 0; i < given.size(); ++i) {
      const bool number = given[i] == "12" && (name == std::string("timeout") || name == std::string("ratio"));
      EXPECT_EQ(run_with(name, given[i]), fmt::format("{{\"{}\":{}}}", name, number ? "12" : text[i]))
          << name << "=" << given[i];
    }
  }
}

TEST(ToolCalls, SchemasThatReferToThemselvesAreReadQuickly) {
  Json parameters = Json::parse(R"({"properties":{"a":{"$ref":"#/$defs/x"},"b":{"$ref":"#/properties/b"}},
                                   "$defs":{"x":{"anyOf":[]}}})");
  for (int i = 0; i < 100; ++i) parameters["$defs"]["x"]["anyOf"].push_back({{"$ref", "#/$defs/x"}});
  const Tool tool{"f", "", parameters, false};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parameter_types(tool, "a"), kAnyType);
  EXPECT_EQ(parameter_types(tool, "b"), kAnyType);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(ToolCalls, ValuesNestedTooDeepArePassedAsText) {
  for (const size_t depth : {10u, 127u, 128u, 5000u}) {
    const std::string value = std::string(depth, '[') + std::string(depth, ']');
    const Json arguments = json_in(run_with("args", value));
    ASSERT_TRUE(arguments.is_object()) << depth;
    EXPECT_EQ(arguments["args"].is_array(), depth <= 127) << depth;
    EXPECT_TRUE(arguments["args"].is_array() || arguments["args"] == value);
  }
}

TEST(ToolCalls, CallsInJsonAreNotTakenBeyondTheirLimits) {
  // Nested too deep to be written again, and a string whose object ends before a zero byte.
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& arguments : {"{\"a\":" + deep + "}", std::string(R"("{}\u0000x")")}) {
    const std::string text =
        "<tool_call>\n{\"name\":\"run\",\"arguments\":" + arguments + "}\n</tool_call>";
    const Read read = parse({text});
    EXPECT_TRUE(read.calls.empty());
    EXPECT_EQ(read.text, text);
  }
}

TEST(ToolCalls, ClosingTagsInsideAValueSurvive) {
  const std::string whole = call("run", parameter("command", "x"));
  for (const std::string& value : std::vector<std::string>{
           "a</parameter>b", "a</tool_call>b", "a</function>b", "<parameter=x>1</parameter>",
           "see <parameter=x>1</parameter> there", "</parameter>", "a\n</parameter>\nb",
           "a\n</tool_call>\nb", "a\n</function>\nb", "x </parameter></function> y", whole,
           "Example:\n" + whole + "\nand more", whole + "\n" + whole, "<tool_call>", "<function=run>",
           "a\n<function=run>\nb", "if (a<b && c>d) { return \"</parameter\"; }", "<", "</", "a<",
           "tail\n\n", "\n\nhead", "\r\n", "\xF0\x9F\x98\x80<\xC3\xA9", "a\r\nb", "\t\"\\\b\x01"}) {
    const std::string text = call("write", parameter("path", "p") + parameter("content", value));
    const Json arguments = Json::parse(arguments_of(text), nullptr, false);
    EXPECT_EQ(arguments.value("content", "none"), value) << text;
    EXPECT_EQ(arguments.size(), 2u) << text;
  }
}

TEST(ToolCalls, DamagedCallsAreReadAsFarAsTheyGo) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"<tool_call>\n<function=\"run\">\n<parameter=\"command\">\nls\n</parameter>\n</function>\n</tool_call>",
            R"({"command":"ls"})"},
           {"<tool_call><function=run><parameter=command>ls</parameter></function></tool_call>",
            R"({"command":"ls"})"},
           {"<tool_call>\n<function name=\"run\">\n<parameter name=\"command\">\nls\n</parameter>\n</function>\n</tool_call>",
            R"({"command":"ls"})"},
           {"<function=run>\n<parameter=command>\nls\n</parameter>\n</function>", R"({"command":"ls"})"},
           {"<function=run>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
            R"({"command":"ls"})"},
           {"<tool_call>\n<function=run>\n<parameter=command>\nls\n<parameter=timeout>\n5\n</parameter>\n</function>\n</tool_call>",
            R"({"command":"ls","timeout":5})"},
           {"<tool_call>\n<function=run>\n<parameter=command>\nls\n</function>\n</tool_call>",
            R"({"command":"ls"})"},
           {"<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\n</tool_call>",
            R"({"command":"ls"})"},
           {"<tool_call>\n<function=run>\n<parameter=command>\nls\n</tool_call>", R"({"command":"ls"})"},
           {"<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>", R"({"command":"ls"})"},
           {"<tool_call>\n<function=run>\n<parameter=command>\nls", R"({"command":"ls"})"},
           {"<tool_call>\n<function=run>\n<parameter=command>\nls\n</para", R"({"command":"ls"})"},
           {"<tool_call>\n<function=run>\n<parameter=timeout>\n1", R"({"timeout":1})"},
           {"<tool_call>\n<function=run>\n<parameter=comm", "{}"},
           {"<tool_call>\n<function=run>\n", "{}"},
           {"<tool_call>\n<function=run>\nnoise\n<parameter=timeout>\n1\n</parameter>\n</function>\n</tool_call>",
            R"({"timeout":1})"},
           {"<tool_call>\n{\"name\": \"run\", \"arguments\": {\"command\": \"a}b\"}}\n</tool_call>",
            R"({"command":"a}b"})"},
           {"<tool_call>\n{\"name\":\"run\",\"arguments\":\"{\\\"timeout\\\":1}\"}\n</tool_call>", R"({"timeout":1})"},
           {"<tool_call>{\"name\":\"ping\"}</tool_call>", "{}"},
           {"<tool_call>\n<function=other>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
            R"({"a":1})"}}) {
    EXPECT_EQ(arguments_of(text), expected) << text;
    EXPECT_EQ(parse({text}).text, "") << text;
  }
}

TEST(ToolCalls, WhatIsNoCallStaysText) {
  for (const std::string& text : std::vector<std::string>{
           "", " ", "plain\n", "a <b> c", "<tool_call>", "<tool_call>\n", "<tool_call> is a tag",
           "<tool_call>\n<function=", "<tool_call>\n<func", "<tool_", "<function=stranger>\nx",
           "use <function=run> for that", "<tool_call>\n{\"nam", "<tool_call>\n{\"a\":1}\n</tool_call>",
           "<tool_call>\n{bad}\n", "</tool_call>", "<<<", "x\n\n", "<tool_call>\n<function=>\n"}) {
    const Read read = parse({text});
    EXPECT_TRUE(read.calls.empty()) << text;
    EXPECT_EQ(read.text, text);
    EXPECT_EQ(parse(bytes_of(text)), read) << text;
  }
}

TEST(ToolCalls, SeveralCallsEvenWithoutTheirEnds) {
  const Read read = parse({"<tool_call>\n<function=run>\n<parameter=command>\na\n</parameter>\n"
                           "<tool_call>\n<function=ping>\n</function>\n<function=ping>\n</function>\n</tool_call>done"});
  ASSERT_EQ(read.calls.size(), 3u);
  EXPECT_EQ(read.calls[0].arguments, R"({"command":"a"})");
  EXPECT_EQ(read.calls[2], (Call{"ping", "{}", true}));
  EXPECT_EQ(read.text, "done");
  EXPECT_EQ(parse({call("ping", "") + call("run", parameter("command", "x"))}, 1).calls.size(), 1u);
}

// ---- a thousand damaged answers, cut everywhere

TEST(ToolCalls, AThousandMutationsReadTheSameForEveryCut) {
  std::mt19937 random(20);
  size_t with_calls = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::string text = mutated_answer(round, random);
    const Read whole = parse({text});
    for (const Call& one : whole.calls) {
      EXPECT_TRUE(one.ended) << text;
      EXPECT_TRUE(json_in(valid_utf8(one.arguments)).is_object()) << text << "\n" << one.arguments;
      EXPECT_FALSE(one.name.empty());
    }
    with_calls += whole.calls.empty() ? 0 : 1;
    EXPECT_EQ(parse(bytes_of(text)), whole) << text;
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      ASSERT_EQ(parse({text.substr(0, cut), text.substr(cut)}), whole) << text << "\ncut at " << cut;
    }
  }
  EXPECT_GT(with_calls, 500u) << "the mutations leave calls to look at";
}

}  // namespace
}  // namespace strata::server
