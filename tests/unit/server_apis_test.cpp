// The Messages and the Responses API, through HTTP.
#include <set>

#include "server/response_store.h"
#include "server_fixture.h"

namespace strata::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMessages = "/v1/messages";
constexpr const char* kResponses = "/v1/responses";
constexpr const char* kAnswer =
    "e.\n</think>\n\nLet me see.\n\n<tool_call>\n<function=run>\n<parameter=command>\nls \"a\"\n"
    "</parameter>\n<parameter=timeout>\n5\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
    "<function=run>\n<parameter=command>\npwd\n</parameter>\n</function>\n</tool_call>";
constexpr const char* kSchema =
    R"({"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"integer"}}})";

test::FakeAnswer cut(const std::string& text, size_t every) {
  test::FakeAnswer answer;
  for (size_t at = 0; at < text.size(); at += every) answer.pieces.push_back({text.substr(at, every)});
  return answer;
}

struct Named {
  std::string name;
  Json data;
};

std::vector<Named> events_of(const std::string& body) {
  std::vector<Named> out;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string block = body.substr(at, end - at);
    at = end + 2;
    if (block.starts_with(":")) continue;
    const size_t line = block.find('\n');
    EXPECT_TRUE(block.starts_with("event: ")) << block;
    EXPECT_EQ(block.compare(line, 7, "\ndata: "), 0) << block;
    out.push_back({block.substr(7, line - 7), Json::parse(block.substr(line + 7))});
    EXPECT_EQ(out.back().data["type"], out.back().name);
  }
  return out;
}

// ---- Messages

std::string messages_body(const std::string& more = {}) {
  return R"({"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}])" +
         (more.empty() ? "" : "," + more) + "}";
}
const std::string kMessagesTools =
    std::string(R"("thinking":{"type":"enabled","budget_tokens":2000},"tools":[{"name":"run",
      "description":"d","input_schema":)") + kSchema + "}]";

// What a client builds from the events.
Json message_of(const std::vector<Named>& events) {
  Json message;
  std::string partial;
  bool open = false;
  for (const auto& [name, data] : events) {
    if (name == "message_start") {
      message = data["message"];
      EXPECT_EQ(message["content"], Json::array());
    } else if (name == "content_block_start") {
      EXPECT_FALSE(std::exchange(open, true));
      EXPECT_EQ(data["index"], message["content"].size());
      message["content"].push_back(data["content_block"]);
      partial.clear();
    } else if (name == "content_block_delta") {
      EXPECT_TRUE(open);
      EXPECT_EQ(data["index"], message["content"].size() - 1);
      Json& block = message["content"].back();
      const Json& delta = data["delta"];
      const auto append = [&](const char* field) {
        block[field] = block[field].get<std::string>() + delta[field].get<std::string>();
      };
      if (delta["type"] == "text_delta") append("text");
      if (delta["type"] == "thinking_delta") append("thinking");
      if (delta["type"] == "signature_delta") append("signature");
      if (delta["type"] == "input_json_delta") partial += delta["partial_json"].get<std::string>();
    } else if (name == "content_block_stop") {
      EXPECT_TRUE(std::exchange(open, false));
      if (message["content"].back()["type"] == "tool_use") {
        message["content"].back()["input"] = Json::parse(partial);
      }
    } else if (name == "message_delta") {
      EXPECT_FALSE(open);
      message["stop_reason"] = data["delta"]["stop_reason"];
      message["stop_sequence"] = data["delta"]["stop_sequence"];
      message["usage"] = data["usage"];
    }
  }
  EXPECT_EQ(events.back().name, "message_stop");
  return message;
}

TEST_F(ServerTest, MessagesAreTheSameStreamedAndWhole) {
  engine_.set_starts_in_reasoning(true);
  start();
  for (const size_t every : {1u, 4u, 9u, 1000u}) {
    engine_.set_answer(cut(kAnswer, every));
    const auto reply = post(kMessages, messages_body(kMessagesTools));
    ASSERT_EQ(reply.status, 200) << reply.body;
    Json whole = reply.json();
    EXPECT_EQ(whole["type"], "message");
    EXPECT_EQ(whole["role"], "assistant");
    EXPECT_EQ(whole["stop_reason"], "tool_use");
    const Json& content = whole["content"];
    ASSERT_EQ(content.size(), 4u);
    EXPECT_EQ(content[0]["thinking"], "e.");
    EXPECT_NE(content[0]["signature"], "");
    EXPECT_EQ(content[1]["text"], "Let me see.");
    EXPECT_EQ(content[2]["name"], "run");
    EXPECT_EQ(content[2]["input"].dump(), R"({"command":"ls \"a\"","timeout":5})");
    EXPECT_NE(content[2]["id"], content[3]["id"]);
    EXPECT_TRUE(content[2]["id"].get<std::string>().starts_with("toolu_"));
    const Json usage = whole["usage"];
    EXPECT_EQ(usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>(), 8);
    EXPECT_TRUE(reply.header("request-id").starts_with("req-"));

    const auto events = events_of(post(kMessages, messages_body("\"stream\":true," + kMessagesTools)).body);
    Json streamed = message_of(events);
    for (Json* one : {&whole, &streamed}) {
      one->erase("id");
      for (Json& block : (*one)["content"]) block.erase("id");
    }
    EXPECT_EQ(streamed.dump(), whole.dump());
    EXPECT_EQ(events[0].name, "message_start");
    EXPECT_EQ(events[1].name, "ping");
  }
}

TEST_F(ServerTest, MessagesThinkOnlyWhenAsked) {
  start();
  post(kMessages, messages_body());
  post(kMessages, messages_body(R"("thinking":{"type":"enabled","budget_tokens":1500})"));
  post(kMessages, messages_body(R"("output_config":{"effort":"low"})"));
  const auto rendered = engine_.rendered();
  EXPECT_EQ(rendered[0].template_kwargs.dump(), R"({"enable_thinking":false})");
  EXPECT_EQ(rendered[1].template_kwargs.dump(), R"({"enable_thinking":true})");
  EXPECT_EQ(rendered[2].template_kwargs.dump(), R"({"enable_thinking":true,"reasoning_effort":"low"})");
}

TEST_F(ServerTest, AThinkingBudgetReachesTheEngineOnlyWithThinking) {
  start();
  const std::string body = messages_body(R"("thinking":{"type":"enabled","budget_tokens":1500})");
  post(kMessages, body);
  engine_.set_starts_in_reasoning(true);
  post(kMessages, body);
  post(kChat, chat_body("\"reasoning_budget_tokens\":7"));
  const auto submitted = engine_.submitted();
  EXPECT_FALSE(submitted[0].reasoning_budget);
  ASSERT_TRUE(submitted[1].reasoning_budget);
  EXPECT_EQ(submitted[1].reasoning_budget->tokens, 1500);
  EXPECT_EQ(submitted[1].reasoning_budget->end, test::FakeEngine::kThinkClose);
  EXPECT_EQ(submitted[1].reasoning_budget->closing,
            (std::vector<TokenId>{'\n', test::FakeEngine::kThinkClose, '\n', '\n'}));
  EXPECT_EQ(submitted[2].reasoning_budget->tokens, 7);
}

TEST_F(ServerTest, MessagesCarryTheConversationOfAnAgent) {
  start();
  const auto reply = post(kMessages, R"({"max_tokens":5,"system":[{"type":"text","text":"s1"},
      {"type":"text","text":"s2","cache_control":{"type":"ephemeral"}}],"messages":[
      {"role":"user","content":"u"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"},
        {"type":"text","text":"a"},{"type":"tool_use","id":"c1","name":"run","input":{"command":"ls"}},
        {"type":"tool_use","id":"c2","name":"run","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r1"},
        {"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"r2"}],"is_error":true},
        {"type":"text","text":"go on"}]}]})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(
      engine_.rendered()[0].messages.dump(),
      R"([{"role":"system","content":"s1\n\ns2"},{"role":"user","content":"u"},)"
      R"({"role":"assistant","content":"a","reasoning_content":"t","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"run","arguments":{"command":"ls"}}},)"
      R"({"id":"c2","type":"function","function":{"name":"run","arguments":{}}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"r1"},{"role":"tool","tool_call_id":"c2","content":"r2"},)"
      R"({"role":"user","content":"go on"}])");
}

TEST_F(ServerTest, MessagesEndForTheRightReason) {
  start();
  const auto reason = [&](engine::FinishReason why, const std::string& word) {
    test::FakeAnswer answer = cut("text", 2);
    answer.reason = why;
    answer.stop_string = word;
    engine_.set_answer(answer);
    return post(kMessages, messages_body(R"("stop_sequences":["END"])")).json();
  };
  EXPECT_EQ(reason(engine::FinishReason::kStop, "")["stop_reason"], "end_turn");
  EXPECT_EQ(reason(engine::FinishReason::kLength, "")["stop_reason"], "max_tokens");
  const Json word = reason(engine::FinishReason::kStop, "END");
  EXPECT_EQ(word["stop_reason"], "stop_sequence");
  EXPECT_EQ(word["stop_sequence"], "END");
  EXPECT_EQ(engine_.submitted()[0].stop, std::vector<std::string>{"END"});
  EXPECT_EQ(engine_.submitted()[0].max_tokens, 100);
}

TEST_F(ServerTest, MessagesRefuseInTheirOwnShape) {
  options_.api_keys = {"key"};
  start();
  const auto with_key = [&](const std::string& body) { return post(kMessages, body, "x-api-key: key\r\n"); };
  auto reply = post(kMessages, messages_body(), "x-api-key: wrong\r\n");
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.json()["type"], "error");
  EXPECT_EQ(reply.json()["error"]["type"], "authentication_error");
  EXPECT_EQ(reply.json()["request_id"], reply.header("request-id"));
  EXPECT_EQ(with_key(messages_body()).status, 200);
  for (const auto& [body, words] : std::vector<std::pair<std::string, std::string>>{
           {"{", "JSON"},
           {"{}", "messages"},
           {R"({"messages":[{"role":"user","content":"x"}]})", "max_tokens"},
           {R"({"max_tokens":5,"messages":[]})", "messages"},
           {R"({"max_tokens":5,"messages":[{"role":"system","content":"x"}]})", "messages[0].role"},
           {R"({"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})", "images"},
           {R"({"max_tokens":5,"messages":[{"role":"user","content":[{"type":"document"}]}]})", "documents"},
           {R"({"max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]})",
            "last message"},
           {messages_body(R"("tools":[{"type":"bash_20250124","name":"bash"}])"), "tools[0].type"},
           {messages_body(R"("tool_choice":{"type":"any"})"), "tool_choice"},
           {messages_body(R"("thinking":{"type":"odd"})"), "thinking.type"},
           {messages_body(R"("mcp_servers":[{}])"), "mcp_servers"},
           {R"({"max_tokens":0,"messages":[{"role":"user","content":"x"}]})", "max_tokens"}}) {
    reply = with_key(body);
    EXPECT_EQ(reply.status, 400) << body << reply.body;
    EXPECT_EQ(reply.json()["error"]["type"], "invalid_request_error");
    EXPECT_NE(reply.json()["error"]["message"].get<std::string>().find(words), std::string::npos)
        << reply.body;
  }
  test::FakeAnswer broken;
  broken.pieces = {{"part"}};
  broken.failure = Status(StatusCode::kInternal, "Layer 3 failed.");
  engine_.set_answer(broken);
  const auto events = events_of(with_key(messages_body("\"stream\":true")).body);
  EXPECT_EQ(events.back().name, "error");
  EXPECT_EQ(events.back().data["error"]["type"], "api_error");
  EXPECT_EQ(events.back().data["error"]["message"], "Layer 3 failed.");
}

TEST_F(ServerTest, MessagesAreCounted) {
  start();
  const auto reply = post("/v1/messages/count_tokens",
                          R"({"model":"m","system":"s","messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(reply.body, R"({"input_tokens":17})") << "[system]s[user]hi";
  EXPECT_TRUE(engine_.submitted().empty());
}

TEST_F(ServerTest, MessagesKeepTheStreamAliveWithPings) {
  options_.keepalive_interval = std::chrono::milliseconds(50);
  test::FakeAnswer answer = cut("late", 4);
  answer.prompt_delay = std::chrono::milliseconds(400);
  engine_.set_answer(answer);
  start();
  size_t pings = 0;
  for (const Named& event : events_of(post(kMessages, messages_body("\"stream\":true")).body)) {
    pings += event.name == "ping" ? 1 : 0;
  }
  EXPECT_GE(pings, 3u);
}

// ---- Responses

const std::string kResponsesTools =
    std::string(R"("tools":[{"type":"function","name":"run","parameters":)") + kSchema +
    R"(},{"type":"web_search"}])";

std::string responses_body(const std::string& more = {}) {
  return R"({"model":"m","input":"hi")" + (more.empty() ? "" : "," + more) + "}";
}

TEST_F(ServerTest, ResponsesAreTheSameStreamedAndWhole) {
  engine_.set_starts_in_reasoning(true);
  start();
  for (const size_t every : {1u, 4u, 1000u}) {
    engine_.set_answer(cut(kAnswer, every));
    const auto reply = post(kResponses, responses_body(kResponsesTools));
    ASSERT_EQ(reply.status, 200) << reply.body;
    Json whole = reply.json();
    EXPECT_EQ(whole["object"], "response");
    EXPECT_EQ(whole["status"], "completed");
    EXPECT_EQ(whole["usage"]["input_tokens"], 8);
    const Json& output = whole["output"];
    ASSERT_EQ(output.size(), 4u);
    EXPECT_EQ(output[0]["type"], "reasoning");
    EXPECT_EQ(output[0]["content"][0]["text"], "e.");
    EXPECT_EQ(output[1]["content"][0]["text"], "Let me see.");
    EXPECT_EQ(output[2]["type"], "function_call");
    EXPECT_EQ(output[2]["arguments"], R"({"command":"ls \"a\"","timeout":5})");
    EXPECT_EQ(output[2]["status"], "completed");
    EXPECT_NE(output[2]["call_id"], output[3]["call_id"]);

    const auto events =
        events_of(post(kResponses, responses_body("\"stream\":true," + kResponsesTools)).body);
    Json built = Json::array();
    std::string text;
    std::string arguments;
    for (size_t i = 0; i < events.size(); ++i) {
      const Json& data = events[i].data;
      EXPECT_EQ(data["sequence_number"], i);
      const std::string& name = events[i].name;
      if (name == "response.output_item.added") {
        EXPECT_EQ(data["output_index"], built.size());
        text.clear();
        arguments.clear();
      }
      if (data.contains("item_id")) {
        EXPECT_EQ(data["output_index"], built.size());
      }
      if (name == "response.output_text.delta") text += data["delta"].get<std::string>();
      if (name == "response.output_text.done") {
        EXPECT_EQ(data["text"], text);
      }
      if (name == "response.function_call_arguments.delta") arguments += data["delta"].get<std::string>();
      if (name == "response.function_call_arguments.done") {
        EXPECT_EQ(data["arguments"], arguments);
      }
      if (name == "response.output_item.done") built.push_back(data["item"]);
    }
    EXPECT_EQ(events[0].name, "response.created");
    EXPECT_EQ(events[1].name, "response.in_progress");
    EXPECT_EQ(events.back().name, "response.completed");
    Json last = events.back().data["response"];
    EXPECT_EQ(last["output"], built);
    EXPECT_GE(last["created_at"], whole["created_at"]);
    for (Json* one : {&whole, &last}) {
      one->erase("id");
      one->erase("created_at");
      for (Json& item : (*one)["output"]) {
        item.erase("id");
        item.erase("call_id");
      }
    }
    EXPECT_EQ(last.dump(), whole.dump());
  }
}

TEST_F(ServerTest, ResponsesGoOnFromStoredOnes) {
  start();
  const Json first = post(kResponses, responses_body(R"("instructions":"be kind")")).json();
  const std::string id = first["id"];
  EXPECT_EQ(post(kResponses, R"({"input":[{"role":"user","content":[{"type":"input_text","text":"more"}]}],
                                  "previous_response_id":")" + id + "\"}").status,
            200);
  const auto rendered = engine_.rendered();
  EXPECT_EQ(rendered[0].messages.dump(),
            R"([{"role":"system","content":"be kind"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(rendered[1].messages.dump(),
            R"([{"role":"user","content":"hi"},{"role":"assistant","content":"Hello world"},)"
            R"({"role":"user","content":"more"}])")
      << "instructions are not carried over";

  EXPECT_EQ(get(std::string("/v1/responses/") + id).json(), first);
  EXPECT_EQ(get("/v1/responses/" + id + "/input_items").json()["data"][0]["role"], "user");
  const Json two = post(kResponses, R"({"input":[{"role":"user","content":"a","id":"msg_own"},
                                                 {"role":"user","content":"b"}]})").json();
  const std::string items = "/v1/responses/" + two["id"].get<std::string>() + "/input_items";
  for (const auto& [query, first, last] : {std::tuple{"", "item_1", "msg_own"},
                                           std::tuple{"?order=asc", "msg_own", "item_1"}}) {
    const Json list = get(items + query).json();
    EXPECT_EQ(list["first_id"], first);
    EXPECT_EQ(list["last_id"], last);
    EXPECT_EQ(list["data"][0]["id"], first);
    EXPECT_EQ(list["data"].size(), 2u);
  }
  test::HttpClient client(port());
  client.send_raw(test::HttpClient::request("DELETE", "/v1/responses/" + id, {}));
  EXPECT_EQ(client.read_reply().json()["deleted"], true);
  EXPECT_EQ(get("/v1/responses/" + id).status, 404);
  const auto gone = post(kResponses, responses_body("\"previous_response_id\":\"" + id + "\""));
  EXPECT_EQ(gone.status, 400);
  EXPECT_EQ(gone.json()["error"]["param"], "previous_response_id");

  const Json unkept = post(kResponses, responses_body(R"("store":false)")).json();
  EXPECT_EQ(get("/v1/responses/" + unkept["id"].get<std::string>()).status, 404);
}

TEST_F(ServerTest, ResponsesTakeBackTheirOwnItems) {
  start();
  const auto reply = post(kResponses, R"({"input":[
      {"type":"message","role":"developer","content":"d"},{"role":"user","content":"u"},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"t"}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"run","arguments":"{\"command\":\"ls\"}"},
      {"type":"function_call_output","call_id":"c1","output":"r"},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]},
      {"role":"user","content":"go on"}]})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(engine_.rendered()[0].messages.dump(),
            R"([{"role":"developer","content":"d"},{"role":"user","content":"u"},)"
            R"({"role":"assistant","content":"","reasoning_content":"t","tool_calls":[{"id":"c1","type":"function",)"
            R"("function":{"name":"run","arguments":"{\"command\":\"ls\"}"}}]},)"
            R"({"role":"tool","tool_call_id":"c1","content":"r"},{"role":"assistant","content":"a"},)"
            R"({"role":"user","content":"go on"}])");
}

TEST_F(ServerTest, ResponsesRefuseWhatTheyCannotDo) {
  start();
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "input"},
           {R"({"input":[]})", "input"},
           {R"({"input":5})", "input"},
           {R"({"input":[{"type":"item_reference","id":"x"}]})", "input[0].type"},
           {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})",
            "input[0].content[0].type"},
           {R"({"input":[{"role":"user","content":[{"type":"input_file"}]}]})", "input[0].content[0].type"},
           {responses_body(R"("background":true)"), "background"},
           {responses_body(R"("conversation":"c")"), "conversation"},
           {responses_body(R"("prompt":{"id":"p"})"), "prompt"},
           {responses_body(R"("tools":[{"type":"local_shell"}])"), "tools[0].type"},
           {responses_body(R"("text":{"format":{"type":"yaml"}})"), "text.format.type"},
           {responses_body(R"("max_output_tokens":0)"), "max_output_tokens"}}) {
    const auto reply = post(kResponses, body);
    EXPECT_EQ(reply.status, 400) << body << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], param);
  }
  test::FakeAnswer cut_short = cut("text", 2);
  cut_short.reason = engine::FinishReason::kLength;
  engine_.set_answer(cut_short);
  const Json incomplete = post(kResponses, responses_body()).json();
  EXPECT_EQ(incomplete["status"], "incomplete");
  EXPECT_EQ(incomplete["incomplete_details"]["reason"], "max_output_tokens");
  cut_short.failure = Status(StatusCode::kInternal, "Layer 3 failed.");
  engine_.set_answer(cut_short);
  const auto events = events_of(post(kResponses, responses_body("\"stream\":true")).body);
  EXPECT_EQ(events[events.size() - 2].name, "error");
  EXPECT_EQ(events.back().data["response"]["status"], "failed");
  EXPECT_EQ(events.back().data["response"]["error"]["message"], "Layer 3 failed.");
}

TEST(ResponseStore, ForgetsWhatWasUsedLongestAgo) {
  ResponseStore store(3, 1 << 20);
  for (const char* id : {"a", "b", "c"}) store.put(id, {Json{{"id", id}}, Json(), Json()});
  EXPECT_NE(store.find("a"), nullptr);
  store.put("d", {});
  EXPECT_EQ(store.find("b"), nullptr);
  EXPECT_NE(store.find("a"), nullptr);
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  ResponseStore small(100, 100);
  small.put("big", {Json(std::string(200, 'x')), Json(), Json()});
  EXPECT_EQ(small.find("big"), nullptr);
  for (int i = 0; i < 20; ++i) small.put(std::to_string(i), {Json(std::string(30, 'x')), Json(), Json()});
  EXPECT_EQ(small.find("0"), nullptr);
  EXPECT_NE(small.find("19"), nullptr);
}

// ---- what surrounds them

TEST_F(ServerTest, CountsWhatItDoes) {
  start();
  post(kChat, chat_body());
  post(kChat, chat_body("\"stream\":true"));
  post(kChat, "{");
  const auto reply = get("/metrics");
  EXPECT_EQ(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  std::map<std::string, double> values;
  std::set<std::string> typed;
  size_t at = 0;
  while (at < reply.body.size()) {
    const size_t end = reply.body.find('\n', at);
    const std::string line = reply.body.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(typed.insert(line.substr(7, line.rfind(' ') - 7)).second) << line;
    } else if (!line.starts_with("#")) {
      values[line.substr(0, line.rfind(' '))] = std::stod(line.substr(line.rfind(' ') + 1));
    }
  }
  EXPECT_EQ(values["llamacpp:tokens_predicted_total"], 24);
  EXPECT_EQ(values["llamacpp:prompt_tokens_total"], 8);
  EXPECT_EQ(values["llamacpp:requests_processing"], 0);
  EXPECT_EQ(values["vllm:prompt_tokens_total{model_name=\"fake-model\"}"], 16);
  EXPECT_EQ(values["vllm:generation_tokens_total{model_name=\"fake-model\"}"], 24);
  EXPECT_EQ(values["vllm:num_requests_waiting{model_name=\"fake-model\"}"], 0);
  EXPECT_EQ(values["vllm:time_to_first_token_seconds_count{model_name=\"fake-model\"}"], 2);
  EXPECT_EQ(values["vllm:time_to_first_token_seconds_bucket{model_name=\"fake-model\",le=\"+Inf\"}"], 2);
  EXPECT_EQ(values["strata_http_requests_total{status=\"200\"}"], 2);
  EXPECT_EQ(values["strata_http_requests_total{status=\"400\"}"], 1);
  EXPECT_EQ(values["strata_generations_total{reason=\"stop\"}"], 2);
}

TEST_F(ServerTest, MetricsCarryTheModelsNameWhateverItIs) {
  engine_.set_id("a\"b\\c");
  start();
  const std::string text = get("/metrics").body;
  for (const char* line : {"\nvllm:prompt_tokens_total{model_name=\"a\\\"b\\\\c\"} 0\n",
                           "\n# TYPE vllm:e2e_request_latency_seconds histogram\n",
                           "\n# TYPE llamacpp:n_tokens_max counter\n",
                           "\n# TYPE strata_requests_waiting gauge\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST_F(ServerTest, TellsAboutItselfToThoseWhoMayAsk) {
  options_.api_keys = {"key"};
  start();
  const std::string key = "Authorization: Bearer key\r\n";
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_FALSE(get("/health").json().contains("model"));
  EXPECT_EQ(get("/health?verbose").status, 401);
  EXPECT_EQ(get("/health?verbose=1", key).json()["model"]["id"], "fake-model");
  for (const char* path : {"/props", "/slots", "/metrics", "/v1/models"}) {
    EXPECT_EQ(get(path).status, 401) << path;
    EXPECT_EQ(get(path, key).status, 200) << path;
  }
  const Json props = get("/props", key).json();
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(props["default_generation_settings"]["params"]["temperature"], 0.75);
  EXPECT_EQ(props["chat_template"], "{{ messages }}");
  EXPECT_EQ(props["eos_token"], "<|im_end|>");
  EXPECT_EQ(props["bos_token"], "");
  EXPECT_EQ(get("/slots", key).json()[0]["is_processing"], false);
  const auto embeddings = post("/v1/embeddings", R"({"input":"x"})", key);
  EXPECT_EQ(embeddings.status, 400);
  EXPECT_EQ(embeddings.json()["error"]["code"], "unsupported_endpoint");
}

TEST_F(ServerTest, BrowsersOfAllowedOriginsMaySendTheHeadersOfSdks) {
  options_.allowed_origins = {"http://app.example"};
  start();
  const auto preflight = [&](const std::string& origin, const std::string& headers) {
    test::HttpClient client(port());
    client.send_raw(test::HttpClient::request(
        "OPTIONS", kMessages, {},
        "Origin: " + origin + "\r\nAccess-Control-Request-Headers: " + headers + "\r\n"));
    return client.read_reply();
  };
  const std::string headers = "content-type,x-api-key,anthropic-version,x-stainless-os";
  EXPECT_EQ(preflight("http://app.example", headers).header("access-control-allow-headers"), headers);
  EXPECT_EQ(preflight("http://app.example", "a;b").header("access-control-allow-headers"),
            "Authorization, Content-Type");
  EXPECT_EQ(preflight("http://other.example", headers).header("access-control-allow-headers"), "");
}

}  // namespace
}  // namespace strata::server
