// Chats with tools, thinking and several answers, through HTTP.
#include <set>

#include "server_fixture.h"

namespace strata::server {
namespace {

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"run","parameters":{"type":"object",
       "properties":{"command":{"type":"string"},"timeout":{"type":"integer"}}}}}])";
constexpr const char* kTwoCalls =
    "Let me see.\n\n<tool_call>\n<function=run>\n<parameter=command>\nls \"a\"\n</parameter>\n"
    "<parameter=timeout>\n5\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=run>\n"
    "<parameter=command>\npwd\n</parameter>\n</function>\n</tool_call>";

test::FakeAnswer cut(const std::string& text, size_t every) {
  test::FakeAnswer answer;
  for (size_t at = 0; at < text.size(); at += every) answer.pieces.push_back({text.substr(at, every)});
  return answer;
}

struct Streamed {
  std::string content;
  std::string reasoning;
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();  // as in a whole answer
  std::vector<std::string> reasons;
};

// Puts a stream's choice together as a client does.
Streamed gather(const test::HttpReply& reply, int index = 0) {
  Streamed out;
  for (const auto& event : reply.events()) {
    if (event == "[DONE]") continue;
    const auto json = nlohmann::ordered_json::parse(event);
    if (!json.contains("choices")) continue;
    for (const auto& choice : json["choices"]) {
      if (choice["index"] != index) continue;
      const auto& delta = choice["delta"];
      out.content += delta.value("content", "");
      out.reasoning += delta.value("reasoning_content", "");
      if (choice["finish_reason"].is_string()) out.reasons.push_back(choice["finish_reason"]);
      if (!delta.contains("tool_calls")) continue;
      for (const auto& call : delta["tool_calls"]) {
        if (call.contains("id")) {
          EXPECT_EQ(call["index"], out.calls.size());
          auto whole = call;
          whole.erase("index");
          out.calls.push_back(whole);
        } else {
          auto& arguments = out.calls[call["index"].get<size_t>()]["function"]["arguments"];
          arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
        }
      }
    }
  }
  return out;
}

TEST_F(ServerTest, ToolCallsAreTheSameStreamedAndWhole) {
  start();
  std::set<std::string> ids;
  for (const size_t every : {1u, 3u, 7u, 1000u}) {
    engine_.set_answer(cut(kTwoCalls, every));
    const Json choice = post(kChat, chat_body(kTools)).json()["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(choice["message"]["content"], "Let me see.");
    const Json& calls = choice["message"]["tool_calls"];
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0]["type"], "function");
    EXPECT_EQ(calls[0]["function"]["name"], "run");
    EXPECT_EQ(calls[0]["function"]["arguments"], R"({"command":"ls \"a\"","timeout":5})");
    EXPECT_EQ(calls[1]["function"]["arguments"], R"({"command":"pwd"})");

    const Streamed streamed =
        gather(post(kChat, chat_body(std::string("\"stream\":true,") + kTools)));
    EXPECT_EQ(streamed.content, "Let me see.");
    EXPECT_EQ(streamed.reasons, std::vector<std::string>{"tool_calls"});
    ASSERT_EQ(streamed.calls.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(streamed.calls[i]["function"], calls[i]["function"]);
      EXPECT_TRUE(ids.insert(streamed.calls[i]["id"]).second) << "ids are unique";
      EXPECT_TRUE(ids.insert(calls[i]["id"]).second);
    }
  }
}

TEST_F(ServerTest, ChoiceNoneMeansNone) {
  engine_.set_answer(cut(kTwoCalls, 5));
  start();
  const Json choice =
      post(kChat, chat_body(std::string(R"("tool_choice":"none",)") + kTools)).json()["choices"][0];
  EXPECT_EQ(choice["message"]["content"], kTwoCalls);
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(engine_.rendered()[0].tools.is_null());
  const Streamed streamed =
      gather(post(kChat, chat_body(std::string(R"("stream":true,"tool_choice":"none",)") + kTools)));
  EXPECT_EQ(streamed.content, kTwoCalls);
  EXPECT_TRUE(streamed.calls.empty());
  EXPECT_EQ(streamed.reasons, std::vector<std::string>{"stop"});
  const Json message = post("/v1/messages", R"({"max_tokens":99,"messages":[{"role":"user","content":"hi"}],
      "tool_choice":{"type":"none"},"tools":[{"name":"run","input_schema":{"type":"object"}}]})")
                           .json();
  ASSERT_EQ(message["content"].size(), 1u);
  EXPECT_EQ(message["content"][0]["text"], kTwoCalls);
  EXPECT_EQ(message["stop_reason"], "end_turn");
  const Json response = post("/v1/responses", R"({"input":"hi","tool_choice":"none",
      "tools":[{"type":"function","name":"run","parameters":{"type":"object"}}]})")
                            .json();
  ASSERT_EQ(response["output"].size(), 1u);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], kTwoCalls);
}

// The engine may cut anywhere; what closes the thinking is never content.
TEST_F(ServerTest, TheEndOfThinkingIsNoContentWhereverItIsCut) {
  engine_.set_starts_in_reasoning(true);
  const std::string text = "e.\n</think>{\"a\":1}";
  start();
  const auto check = [&](const test::FakeAnswer& answer) {
    engine_.set_answer(answer);
    const Json message = post(kChat, chat_body(R"("stop":["zzz"])")).json()["choices"][0]["message"];
    EXPECT_EQ(message["content"], "{\"a\":1}");
    EXPECT_EQ(message["reasoning_content"], "e.");
    const Streamed streamed = gather(post(kChat, chat_body(R"("stream":true,"stop":["zzz"])")));
    EXPECT_EQ(streamed.content, "{\"a\":1}");
    EXPECT_EQ(streamed.reasoning, "e.");
  };
  check(says({{"e."}, {"\n</think"}, {">{"}, {"\"a\":1}"}}));
  for (size_t first = 1; first < text.size(); ++first) {
    check(says({{text.substr(0, first)}, {text.substr(first)}}));
  }
}

TEST_F(ServerTest, ACallThatMustBeMadeBindsTheEngine) {
  engine_.set_starts_in_reasoning(true);
  start();
  post(kChat, chat_body(std::string(R"("tool_choice":"required",)") + kTools));
  post(kChat, chat_body(R"("response_format":{"type":"json_object"})"));
  post(kChat, chat_body());
  const auto submitted = engine_.submitted();
  ASSERT_EQ(submitted.size(), 3u);
  ASSERT_TRUE(submitted[0].constraint);
  EXPECT_EQ(submitted[0].constraint->kind, engine::ConstraintKind::kToolCalls);
  EXPECT_TRUE(submitted[0].constraint->after_thinking);
  EXPECT_EQ(submitted[1].constraint->kind, engine::ConstraintKind::kJsonObject);
  EXPECT_FALSE(submitted[2].constraint);
}

TEST_F(ServerTest, ParallelCallsCanBeForbidden) {
  engine_.set_answer(cut(kTwoCalls, 4));
  start();
  const Json message =
      post(kChat, chat_body(std::string(R"("parallel_tool_calls":false,)") + kTools))
          .json()["choices"][0]["message"];
  EXPECT_EQ(message["tool_calls"].size(), 1u);
}

TEST_F(ServerTest, ACallCutByTheLimitIsStillJson) {
  test::FakeAnswer answer = cut("<tool_call>\n<function=run>\n<parameter=command>\nls -", 6);
  answer.reason = engine::FinishReason::kLength;
  engine_.set_answer(answer);
  start();
  const Json choice = post(kChat, chat_body(kTools)).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], R"({"command":"ls -"})");
}

TEST_F(ServerTest, ACallAtTheEndOfThinkingThatWasNeverClosedCounts) {
  engine_.set_starts_in_reasoning(true);
  engine_.set_answer(cut(std::string("I must look. ") + kTwoCalls, 5));
  start();
  const Json choice = post(kChat, chat_body(kTools)).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u) << "the last one, which nothing follows";
  const Streamed streamed = gather(post(kChat, chat_body(std::string("\"stream\":true,") + kTools)));
  EXPECT_EQ(streamed.calls[0]["function"], choice["message"]["tool_calls"][0]["function"]);
  EXPECT_EQ(streamed.reasoning, choice["message"]["reasoning_content"]);
}

TEST_F(ServerTest, ThinkingAndCallsAndTextForEveryCut) {
  engine_.set_starts_in_reasoning(true);
  const std::string text = std::string("e.\n</think>\n\n") + kTwoCalls;
  start();
  for (size_t every = 1; every < 20; ++every) {
    engine_.set_answer(cut(text, every));
    const Streamed streamed =
        gather(post(kChat, chat_body(std::string("\"stream\":true,") + kTools)));
    EXPECT_EQ(streamed.reasoning, "e.");
    EXPECT_EQ(streamed.content, "Let me see.");
    EXPECT_EQ(streamed.calls.size(), 2u);
  }
}

TEST_F(ServerTest, HistoriesOfAgentsAreRendered) {
  start();
  const auto reply = post(
      kChat, R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
         "function":{"name":"run","arguments":"{\"command\":\"ls\"}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"a.txt"},
        {"role":"system","content":"be short"},{"role":"user","content":"go on"}],)" +
                 std::string(kTools) + "}");
  EXPECT_EQ(reply.status, 200) << reply.body;
  const auto rendered = engine_.rendered();
  ASSERT_EQ(rendered.size(), 1u);
  EXPECT_EQ(rendered[0].messages.size(), 6u);
  EXPECT_EQ(rendered[0].messages[2]["tool_calls"][0]["function"]["name"], "run");
  EXPECT_EQ(rendered[0].messages[4]["role"], "user");
}

TEST_F(ServerTest, SeveralAnswersToOnePrompt) {
  start();
  const Json whole = post(kChat, chat_body(R"("n":3,"seed":7)")).json();
  ASSERT_EQ(whole["choices"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(whole["choices"][i]["index"], i);
    EXPECT_EQ(whole["choices"][i]["message"]["content"], "Hello world");
  }
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 8) << "the prompt counts once";
  EXPECT_EQ(whole["usage"]["completion_tokens"], 3 * 12);
  const auto submitted = engine_.submitted();
  ASSERT_EQ(submitted.size(), 3u);
  std::set<uint64_t> seeds;
  std::set<std::string> ids;
  for (const auto& request : submitted) {
    seeds.insert(request.sampling.seed.value());
    ids.insert(request.id);
  }
  EXPECT_EQ(seeds, (std::set<uint64_t>{7, 8, 9}));
  EXPECT_EQ(ids.size(), 3u);

  const auto reply =
      post(kChat, chat_body(R"("n":3,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_EQ(reply.events().back(), "[DONE]");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(gather(reply, i).content, "Hello world");
    EXPECT_EQ(gather(reply, i).reasons, std::vector<std::string>{"stop"});
  }
  EXPECT_EQ(Json::parse(reply.events()[reply.events().size() - 2])["usage"], whole["usage"]);
  const Json text = post("/v1/completions", R"({"prompt":"a","n":2,"best_of":2})").json();
  EXPECT_EQ(text["choices"][1]["text"], "Hello world");
  EXPECT_EQ(text["choices"][1]["index"], 1);
}

TEST_F(ServerTest, SeveralPromptsInOneRequestAreAnsweredPromptByPrompt) {
  for (const char* key : {"ab", "cde"}) {
    engine_.set_answer_for(key, says({{std::string("after ") + key[0]}, {"!"}}));
  }
  start();
  const std::string fields = R"("n":2,"echo":true,"seed":7)";
  const Json whole =
      post("/v1/completions", R"({"prompt":["ab","cde"],)" + fields + "}").json();
  const std::vector<std::string> expected{"abafter a!", "abafter a!", "cdeafter c!",
                                          "cdeafter c!"};
  ASSERT_EQ(whole["choices"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(whole["choices"][i]["index"], i);
    EXPECT_EQ(whole["choices"][i]["text"], expected[i]);
    EXPECT_EQ(whole["choices"][i]["finish_reason"], "stop");
  }
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 2 + 3) << "each prompt counts once";
  EXPECT_EQ(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 1 + 1);
  EXPECT_EQ(whole["usage"]["completion_tokens"], 4 * 9);
  EXPECT_EQ(whole["usage"]["total_tokens"], 5 + 4 * 9);
  std::set<std::string> ids;
  std::vector<uint64_t> seeds;
  for (const auto& request : engine_.submitted()) {
    ids.insert(request.id);
    seeds.push_back(request.sampling.seed.value());
  }
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(seeds, (std::vector<uint64_t>{7, 8, 7, 8})) << "as if asked one by one";

  // The same as ids, streamed.
  const auto reply = post("/v1/completions",
                          R"({"prompt":[[97,98],[99,100,101]],"stream":true,)" + fields +
                              R"(,"stream_options":{"include_usage":true}})");
  std::vector<std::string> texts(expected.size());
  std::vector<int> ends(expected.size());
  const auto events = reply.events();
  ASSERT_EQ(events.back(), "[DONE]");
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json event = Json::parse(events[i]);
    if (event["choices"].empty()) {
      EXPECT_EQ(i, events.size() - 2) << "the usage comes last";
      EXPECT_EQ(event["usage"], whole["usage"]);
      continue;
    }
    const Json& choice = event["choices"][0];
    texts.at(choice["index"].get<size_t>()) += choice["text"].get<std::string>();
    ends.at(choice["index"].get<size_t>()) += choice["finish_reason"] == "stop";
  }
  EXPECT_EQ(texts, expected);
  EXPECT_EQ(ends, std::vector<int>(expected.size(), 1));

  const auto longer = post("/v1/completions",
                           Json{{"prompt", {"a", std::string(4096, 'x')}}}.dump());
  EXPECT_EQ(longer.status, 400);
  EXPECT_EQ(longer.json()["error"]["param"], "prompt[1]");
  EXPECT_EQ(longer.json()["error"]["code"], "context_length_exceeded");
}

TEST_F(ServerTest, WhenOneOfSeveralAnswersFailsTheRequestDoes) {
  test::FakeAnswer answer;
  answer.pieces = {{"part"}};
  answer.failure = Status(StatusCode::kInternal, "Layer 3 failed.");
  engine_.set_answer(answer);
  start();
  EXPECT_EQ(post(kChat, chat_body("\"n\":3")).status, 500);
  const auto reply = post(kChat, chat_body("\"n\":3,\"stream\":true"));
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(Json::parse(reply.events().back())["error"]["message"], "Layer 3 failed.");
  engine_.set_answer({});
  expect_alive();
}

TEST_F(ServerTest, RequestsCanBeNamedByTheClient) {
  start();
  const auto named = post(kChat, chat_body(), "X-Request-Id: job-7.a:1\r\n");
  EXPECT_EQ(named.header("x-request-id"), "job-7.a:1");
  const auto odd = post(kChat, chat_body(), "X-Request-Id: a b<c>\r\n");
  EXPECT_TRUE(odd.header("x-request-id").starts_with("req-"));
  const auto submitted = engine_.submitted();
  EXPECT_TRUE(submitted[0].id.starts_with("req-")) << "two clients may use the same name";
}

}  // namespace
}  // namespace strata::server
