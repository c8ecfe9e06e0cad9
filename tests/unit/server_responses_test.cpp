// What the Responses and the Messages API promise beyond the shape of their answers, through HTTP.
#include <ctime>

#include "server_fixture.h"

namespace strata::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMessages = "/v1/messages";
constexpr const char* kResponses = "/v1/responses";
constexpr const char* kFunction =
    R"("tools":[{"type":"function","name":"write","parameters":{"type":"object","properties":)"
    R"({"text":{"type":"string"}}}}])";
constexpr const char* kAnthropicTool =
    R"("tools":[{"name":"write","input_schema":{"type":"object","properties":)"
    R"({"text":{"type":"string"}}}}])";

std::string responses_body(const std::string& more = {}) {
  return R"({"model":"m","input":"hi")" + (more.empty() ? "" : "," + more) + "}";
}
std::string messages_body(const std::string& more = {}) {
  return R"({"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}])" +
         (more.empty() ? "" : "," + more) + "}";
}

test::FakeAnswer pieces_of(const std::string& text, size_t every,
                           engine::FinishReason reason = engine::FinishReason::kStop) {
  test::FakeAnswer answer;
  for (size_t at = 0; at < text.size(); at += every) answer.pieces.push_back({text.substr(at, every)});
  answer.reason = reason;
  return answer;
}

// One piece per token, each with its log-probability.
test::FakeAnswer with_logprobs(const std::vector<std::string>& tokens) {
  test::FakeAnswer answer;
  for (const std::string& bytes : tokens) {
    engine::TokenLogprob logprob;
    logprob.logprob = -0.5f;
    logprob.bytes = bytes;
    answer.pieces.push_back({bytes, {1}, {logprob}});
  }
  return answer;
}

std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> out;
  for (size_t at = body.find("data: "); at != std::string::npos; at = body.find("data: ", at)) {
    at += 6;
    out.push_back(Json::parse(body.substr(at, body.find('\n', at) - at)));
  }
  return out;
}

std::string tokens_in(const Json& logprobs) {
  std::string out;
  for (const Json& one : logprobs) out += "[" + one["token"].get<std::string>() + "]";
  return out;
}

std::string tokens_of_messages(const Json& response) {
  std::string out;
  for (const Json& item : response["output"]) {
    if (item["type"] == "message") out += tokens_in(item["content"][0]["logprobs"]);
  }
  return out;
}

// ---- what was cut

// A call that was cut is no call to be run.
TEST_F(ServerTest, ACallCutShortIsIncompleteInEveryApi) {
  start();
  const std::string whole_call =
      "<tool_call>\n<function=write>\n<parameter=text>\none\n</parameter>\n</function>\n</tool_call>\n";
  const std::string half_call = "<tool_call>\n<function=write>\n<parameter=text>\nrm -rf /tmp/ha";
  for (const size_t every : {1u, 7u, 1000u}) {
    engine_.set_answer(pieces_of(whole_call + half_call, every, engine::FinishReason::kLength));
    const Json response = post(kResponses, responses_body(kFunction)).json();
    EXPECT_EQ(response["status"], "incomplete");
    ASSERT_EQ(response["output"].size(), 2u);
    EXPECT_EQ(response["output"][0]["status"], "completed");
    EXPECT_EQ(response["output"][1]["status"], "incomplete");
    std::vector<std::string> done;
    for (const Json& event :
         events_of(post(kResponses, responses_body(std::string("\"stream\":true,") + kFunction)).body)) {
      if (event["type"] == "response.output_item.done") done.push_back(event["item"]["status"]);
      if (event["type"] == "response.function_call_arguments.done") {
        EXPECT_TRUE(Json::parse(event["arguments"].get<std::string>()).is_object());
      }
    }
    EXPECT_EQ(done, (std::vector<std::string>{"completed", "incomplete"}));

    const Json message = post(kMessages, messages_body(kAnthropicTool)).json();
    EXPECT_EQ(message["stop_reason"], "max_tokens");
    EXPECT_EQ(message["content"][1]["input"]["text"], "rm -rf /tmp/ha");
    std::vector<std::string> inputs;
    for (const Json& event :
         events_of(post(kMessages, messages_body(std::string("\"stream\":true,") + kAnthropicTool)).body)) {
      if (event["type"] == "content_block_start") inputs.emplace_back();
      if (event["type"] == "content_block_delta") inputs.back() += event["delta"].value("partial_json", "");
      if (event["type"] == "message_delta") {
        EXPECT_EQ(event["delta"]["stop_reason"], "max_tokens");
      }
    }
    ASSERT_EQ(inputs.size(), 2u);
    for (const std::string& input : inputs) EXPECT_TRUE(Json::accept(input)) << input;

    const Json chat = post(kChat, chat_body(kFunction)).json();
    EXPECT_EQ(chat["choices"][0]["finish_reason"], "length");
    const auto stream = post(kChat, chat_body(std::string("\"stream\":true,") + kFunction)).body;
    EXPECT_NE(stream.find(R"("finish_reason":"length")"), std::string::npos);
    EXPECT_EQ(stream.find(R"("finish_reason":"tool_calls")"), std::string::npos);
  }
  // Calls that were written to their end stay whole, wherever the answer was cut after them.
  engine_.set_answer(pieces_of(whole_call + "and", 3, engine::FinishReason::kLength));
  const Json response = post(kResponses, responses_body(kFunction)).json();
  EXPECT_EQ(response["output"][0]["status"], "completed");
  EXPECT_EQ(response["output"][1]["status"], "incomplete");
}

TEST_F(ServerTest, AFailedResponseClaimsNoUsage) {
  start();
  test::FakeAnswer broken = pieces_of("part", 2);
  broken.failure = Status(StatusCode::kInternal, "Layer 3 failed.");
  engine_.set_answer(broken);
  const auto events = events_of(post(kResponses, responses_body("\"stream\":true")).body);
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_TRUE(events.back()["response"]["usage"].is_null());
}

TEST_F(ServerTest, AnErrorInAStreamOfMessagesTellsTheIdOfTheRequest) {
  start();
  test::FakeAnswer broken = pieces_of("part", 2);
  broken.failure = Status(StatusCode::kInternal, "Layer 3 failed.");
  engine_.set_answer(broken);
  for (const char* header : {"", "X-Request-Id: mine-7\r\n"}) {
    const auto reply = post(kMessages, messages_body("\"stream\":true"), header);
    EXPECT_EQ(events_of(reply.body).back()["request_id"], reply.header("request-id"));
  }
}

// ---- fields of the other APIs

TEST_F(ServerTest, FieldsThatChangeTheAnswerAreNeverDroppedSilently) {
  start();
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"("mirostat":2)", "mirostat"},
      {R"("min_tokens":5)", "min_tokens"},
      {R"("dry_multiplier":0.8)", "dry_multiplier"},
      {R"("stop_token_ids":[3])", "stop_token_ids"},
      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("modalities":["audio"])", "modalities"},
      {R"("n":2)", "n"},
      {R"("best_of":3)", "best_of"},
      {R"("response_format":{"type":"yaml"})", "response_format.type"},
      {R"("guided_regex":"a+","grammar":"root ::= \"a\"")", "guided_regex"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages"}};
  for (const auto& [field, name] : refused) {
    auto reply = post(kResponses, responses_body(field));
    EXPECT_EQ(reply.status, 400) << field;
    EXPECT_EQ(reply.json()["error"]["param"], name);
    reply = post(kMessages, messages_body(field));
    EXPECT_EQ(reply.status, 400) << field;
    EXPECT_NE(reply.json()["error"]["message"].get<std::string>().find(name + ": "), std::string::npos)
        << reply.body;
  }
  EXPECT_EQ(post(kMessages, messages_body(R"("logprobs":true)")).status, 400);
  EXPECT_EQ(post(kResponses, responses_body(R"("max_tool_calls":"x")")).status, 400);
  const std::string text_format = R"("text":{"format":{"type":"json_object"}})";
  EXPECT_EQ(post(kResponses, responses_body(text_format + R"(,"guided_regex":"a+")")).json()["error"]["param"],
            "text.format");
  EXPECT_EQ(post(kMessages, messages_body(R"("output_format":{"type":"json_object"},"guided_regex":"a")")).status,
            400);
  EXPECT_TRUE(engine_.submitted().empty());
  for (const char* off : {R"("mirostat":0)", R"("min_tokens":0)", R"("n":1)", R"("logprobs":false)",
                          R"("response_format":{"type":"text"})", R"("max_tool_calls":4)"}) {
    EXPECT_EQ(post(kResponses, responses_body(off)).status, 200) << off;
    EXPECT_EQ(post(kMessages, messages_body(off)).status, 200) << off;
  }
}

TEST_F(ServerTest, FormsLimitsAndVariablesOfOtherApisAreHonoured) {
  start();
  const auto check = [&](const std::string& field, engine::ConstraintKind kind) {
    for (const bool responses : {true, false}) {
      const auto reply = responses ? post(kResponses, responses_body(field)) : post(kMessages, messages_body(field));
      ASSERT_EQ(reply.status, 200) << reply.body;
      const auto constraint = engine_.submitted().back().constraint;
      ASSERT_TRUE(constraint) << field;
      EXPECT_EQ(constraint->kind, kind);
    }
  };
  check(R"("guided_regex":"a+")", engine::ConstraintKind::kRegex);
  check(R"("grammar":"root ::= \"a\"")", engine::ConstraintKind::kGrammar);
  check(R"("json_schema":{"type":"object"})", engine::ConstraintKind::kJsonSchema);
  check(R"("response_format":{"type":"json_object"})", engine::ConstraintKind::kJsonObject);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    post(kResponses, responses_body("\"" + std::string(name) + "\":7"));
    EXPECT_EQ(engine_.submitted().back().max_tokens, 7) << name;
  }
  post(kResponses, responses_body(R"("max_tokens":7,"max_output_tokens":9)"));
  EXPECT_EQ(engine_.submitted().back().max_tokens, 9);
  const std::string variables = R"("chat_template_kwargs":{"enable_thinking":true,"own":1})";
  post(kResponses, responses_body(variables));
  post(kMessages, messages_body(variables));
  for (const auto& chat : {engine_.rendered().end()[-1], engine_.rendered().end()[-2]}) {
    EXPECT_EQ(chat.template_kwargs.dump(), R"({"enable_thinking":true,"own":1})");
  }
  post(kMessages, messages_body(R"("reasoning_effort":"low")"));
  EXPECT_EQ(engine_.rendered().back().template_kwargs.dump(),
            R"({"enable_thinking":true,"reasoning_effort":"low"})");
}

TEST_F(ServerTest, WhatTheTemplateRefusesIsCalledByTheNameThatWasSent) {
  engine_.set_refused_variable("reasoning_effort");
  start();
  for (const auto& [path, body, field] : std::vector<std::tuple<const char*, std::string, std::string>>{
           {kResponses, responses_body(R"("reasoning":{"effort":"odd"})"), "reasoning.effort"},
           {kMessages, messages_body(R"("output_config":{"effort":"odd"})"), "output_config.effort"},
           {kChat, chat_body(R"("reasoning_effort":"odd")"), "reasoning_effort"},
           {kChat, chat_body(R"("chat_template_kwargs":{"reasoning_effort":"odd"})"),
            "chat_template_kwargs.reasoning_effort"}}) {
    const auto reply = post(path, body);
    EXPECT_EQ(reply.status, 400);
    const std::string message = reply.json()["error"]["message"];
    EXPECT_TRUE(message.starts_with(field + ": ")) << message;
    EXPECT_NE(message.find("none, off, disabled, minimal, low, medium, high, xhigh, max"), std::string::npos)
        << message;
  }
  engine_.set_render_error(Status(StatusCode::kInvalidArgument, "The template says no."));
  EXPECT_EQ(post(kResponses, responses_body()).json()["error"]["param"], "input");
  EXPECT_EQ(post(kChat, chat_body()).json()["error"]["param"], "messages");
}

// ---- log-probabilities

TEST_F(ServerTest, LogprobsOfResponsesAreThoseOfTheTextAlone) {
  start();
  const std::string ask = R"("include":["message.output_text.logprobs","reasoning.encrypted_content"],)";
  const auto check = [&](const std::vector<std::string>& tokens, const std::string& more,
                         const std::string& expected) {
    engine_.set_answer(with_logprobs(tokens));
    const Json whole = post(kResponses, responses_body(ask + more)).json();
    EXPECT_EQ(tokens_of_messages(whole), expected);
    std::string streamed;
    for (const Json& event : events_of(post(kResponses, responses_body(ask + more + ",\"stream\":true")).body)) {
      if (event["type"] == "response.output_text.delta") streamed += tokens_in(event["logprobs"]);
    }
    EXPECT_EQ(streamed, expected);
  };
  check({"Hel", "lo"}, R"("temperature":0)", "[Hel][lo]");
  EXPECT_EQ(engine_.submitted().back().sampling.top_logprobs, 0);
  const std::string call = "<tool_call>\n<function=write>\n<parameter=text>\nHi\n</parameter>\n</function>\n</tool_call>";
  check({"Hi", " there", "\n\n", call, "\n", "Hi", "!"}, kFunction, "[Hi][ there][Hi][!]");
  engine_.set_starts_in_reasoning(true);
  check({"so", " it", "\n", "</think>", "\n\n", "Hi", " th", "ere"}, R"("temperature":0)", "[Hi][ th][ere]");
  check({"Hi", "</think>\n\nHi", " th"}, R"("temperature":0)", "[</think>\n\nHi][ th]");
  check({"thinking only"}, R"("temperature":0)", "");

  post(kResponses, responses_body());
  EXPECT_FALSE(engine_.submitted().back().sampling.top_logprobs);
  for (const char* bad : {R"("include":["message.odd"])", R"("include":[5])", R"("include":"x")"}) {
    const auto reply = post(kResponses, responses_body(bad));
    EXPECT_EQ(reply.status, 400) << bad;
    EXPECT_TRUE(reply.json()["error"]["param"].get<std::string>().starts_with("include"));
  }
}

// ---- long conversations

TEST_F(ServerTest, TruncationDropsTheOldestTurnsAndKeepsTheSystem) {
  engine_.set_context_length(130);
  start();
  const std::string input =
      R"("input":[{"role":"system","content":"S"},{"role":"user","content":"first)" + std::string(40, '.') +
      R"("},{"role":"assistant","content":"a"},{"role":"user","content":"second"},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":")" + std::string(40, '.') +
      R"("},{"role":"developer","content":"D"},{"role":"user","content":"last"}])";
  EXPECT_EQ(post(kResponses, "{" + input + "}").json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(post(kResponses, "{" + input + R"(,"truncation":"disabled"})").status, 400);
  const auto reply = post(kResponses, "{" + input + R"(,"truncation":"auto"})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["truncation"], "auto");
  Json kept = Json::array();
  const Json messages = engine_.rendered().back().messages;
  for (const Json& message : messages) kept.push_back(message["role"]);
  EXPECT_EQ(kept.dump(), R"(["system","user","assistant","tool","user","user"])");
  EXPECT_EQ(messages[1]["content"], "second");

  const auto odd = post(kResponses, responses_body(R"("truncation":"bogus")"));
  EXPECT_EQ(odd.status, 400);
  EXPECT_EQ(odd.json()["error"]["param"], "truncation");
  const auto long_turn =
      post(kResponses, R"({"truncation":"auto","input":[{"role":"user","content":"a"},{"role":"user","content":")" +
                           std::string(200, 'x') + "\"}]}");
  EXPECT_EQ(long_turn.status, 400) << "the last turn is never dropped";
  EXPECT_EQ(long_turn.json()["error"]["param"], "input");
}

// ---- stored answers

TEST_F(ServerTest, InputItemsComeInPagesAndInTheirLongForm) {
  start();
  const Json response = post(kResponses, R"({"input":[{"role":"user","content":"a","id":"msg_a"},
      {"role":"assistant","content":"b","type":null},
      {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"c","output":"r"},
      {"role":"user","content":[{"type":"input_text","text":"e"}]}]})").json();
  const std::string path = "/v1/responses/" + response["id"].get<std::string>() + "/input_items";
  const Json all = get(path + "?order=asc").json();
  ASSERT_EQ(all["data"].size(), 5u);
  EXPECT_EQ(all["data"][0].dump(),
            R"({"type":"message","role":"user","content":[{"type":"input_text","text":"a"}],"id":"msg_a",)"
            R"("status":"completed"})");
  EXPECT_EQ(all["data"][1]["type"], "message");
  EXPECT_EQ(all["data"][1]["content"][0]["type"], "output_text");
  EXPECT_EQ(all["data"][4]["content"][0]["text"], "e");
  for (const std::string order : {"asc", "desc"}) {
    Json joined = Json::array();
    std::string after;
    for (int pages = 0; pages < 9; ++pages) {
      const Json page = get(path + "?limit=2&order=" + order + (after.empty() ? "" : "&after=" + after)).json();
      for (const Json& item : page["data"]) joined.push_back(item);
      EXPECT_EQ(page["last_id"], page["data"].back()["id"]);
      after = page["last_id"];
      if (!page["has_more"].get<bool>()) break;
    }
    Json expected = all["data"];
    if (order == "desc") std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(joined, expected);
  }
  for (const auto& [query, field] : std::vector<std::pair<std::string, std::string>>{
           {"limit=0", "limit"}, {"limit=101", "limit"}, {"limit=x", "limit"}, {"order=up", "order"},
           {"after=nothing", "after"}}) {
    const auto reply = get(path + "?" + query);
    EXPECT_EQ(reply.status, 400) << query;
    EXPECT_EQ(reply.json()["error"]["param"], field);
  }
}

TEST_F(ServerTest, ResponsesAreCountedAndNotCancelled) {
  start();
  const auto counted = post("/v1/responses/input_tokens", R"({"input":"hi","instructions":"s"})");
  EXPECT_EQ(counted.body, R"({"object":"response.input_tokens","input_tokens":17})") << "[system]s[user]hi";
  EXPECT_EQ(post("/v1/responses/input_tokens", "{}").status, 400);
  EXPECT_TRUE(engine_.submitted().empty());
  const std::string id = post(kResponses, responses_body()).json()["id"];
  EXPECT_EQ(post("/v1/responses/" + id + "/cancel", "").status, 400);
  EXPECT_EQ(post("/v1/responses/resp_odd/cancel", "").status, 404);
  EXPECT_EQ(post("/v1/responses/" + id, "{}").status, 405);
  EXPECT_EQ(get("/v1/responses/" + id + "/other").status, 404);
  for (const char* path : {kResponses, "/v1/responses/input_tokens"}) {
    const auto gone = post(path, responses_body(R"("previous_response_id":"resp_odd")"));
    EXPECT_EQ(gone.status, 400);
    EXPECT_EQ(gone.json()["error"]["code"], "previous_response_not_found");
    EXPECT_EQ(gone.json()["error"]["param"], "previous_response_id");
  }
}

TEST_F(ServerTest, ToolsThatNobodyRunsAreNotOfferedUnderAnyName) {
  start();
  const auto reply = post(kResponses, responses_body(R"("tools":[{"type":"web_search_2025_08_26"},
      {"type":"web_search_preview_2025_03_11"},{"type":"file_search"},{"type":"function","name":"own"}])"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["tools"].dump(), R"([{"type":"function","name":"own"}])");
  EXPECT_EQ(engine_.rendered()[0].tools.size(), 1u);
  const auto odd = post(kResponses, responses_body(R"("tools":[{"type":"web_search"},{"type":"web_searching"}])"));
  EXPECT_EQ(odd.status, 400);
  EXPECT_EQ(odd.json()["error"]["param"], "tools[1].type") << "places are those of the request";
  const auto allowed = post(kResponses, responses_body(R"("tools":[{"type":"web_search"},{"type":"function",
      "name":"own"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"},
      {"type":"function","name":"own"}]})"));
  EXPECT_EQ(allowed.status, 200) << allowed.body;
}

TEST_F(ServerTest, ModelsAreListedInTheFormOfBothSdks) {
  start();
  const Json list = get("/v1/models").json();
  const Json& model = list["data"][0];
  EXPECT_EQ(model["object"], "model");
  EXPECT_EQ(model["type"], "model");
  EXPECT_EQ(model["display_name"], model["id"]);
  const std::string created = model["created_at"];
  tm parts{};
  const char* end = strptime(created.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  ASSERT_NE(end, nullptr) << created;
  EXPECT_EQ(*end, '\0');
  EXPECT_EQ(timegm(&parts), model["created"].get<int64_t>());
  EXPECT_EQ(list["first_id"], model["id"]);
  EXPECT_EQ(list["last_id"], model["id"]);
  EXPECT_EQ(list["has_more"], false);
}

TEST_F(ServerTest, ThinkingEndsWithItsLastWordInEveryApi) {
  engine_.set_starts_in_reasoning(true);
  start();
  for (const size_t every : {1u, 3u, 100u}) {
    engine_.set_answer(pieces_of("well,\n\nthen \n\n</think>\n\nyes", every));
    const std::string thought = "well,\n\nthen";
    EXPECT_EQ(post(kChat, chat_body()).json()["choices"][0]["message"]["reasoning_content"], thought);
    EXPECT_EQ(post(kResponses, responses_body()).json()["output"][0]["content"][0]["text"], thought);
    EXPECT_EQ(post(kMessages, messages_body()).json()["content"][0]["thinking"], thought);
    std::string streamed;
    for (const Json& event : events_of(post(kResponses, responses_body("\"stream\":true")).body)) {
      if (event["type"] == "response.reasoning_text.delta") streamed += event["delta"].get<std::string>();
    }
    EXPECT_EQ(streamed, thought);
    streamed.clear();
    for (const Json& event : events_of(post(kMessages, messages_body("\"stream\":true")).body)) {
      if (event["type"] == "content_block_delta") streamed += event["delta"].value("thinking", "");
    }
    EXPECT_EQ(streamed, thought);
  }
}

}  // namespace
}  // namespace strata::server
