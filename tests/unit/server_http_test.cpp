#include <ctime>
#include <sstream>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "server/http_message.h"
#include "server_fixture.h"

namespace strata::server {
namespace {

using test::HttpClient;

TEST_F(ServerTest, AnswersAChatInTheOpenAiShape) {
  start();
  const auto reply = post(kChat, chat_body(R"("model":"any-name","temperature":0)"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.header("content-type"), "application/json; charset=utf-8");
  EXPECT_TRUE(reply.header("x-request-id").starts_with("req-"));
  const Json body = reply.json();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "fake-model");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello world");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 8);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ("req-" + body["id"].get<std::string>().substr(9), reply.header("x-request-id"));
  const auto submitted = engine_.submitted();
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted[0].sampling.temperature, 0.0f);
  EXPECT_FALSE(submitted[0].sampling.top_p);
  EXPECT_FALSE(submitted[0].max_tokens);
  EXPECT_FALSE(submitted[0].emit_special);
  EXPECT_EQ(submitted[0].id, reply.header("x-request-id"));
}

TEST_F(ServerTest, PassesTheChatToTheTemplateUnchanged) {
  start();
  const std::string messages =
      R"([{"role":"user","z":1,"content":[{"type":"text","text":"a"}],"a":2}])";
  ASSERT_EQ(post(kChat, "{\"messages\":" + messages +
                            R"(,"enable_thinking":false,"chat_template_kwargs":{"k":[1]}})")
                .status,
            200);
  const auto rendered = engine_.rendered();
  ASSERT_EQ(rendered.size(), 1u);
  EXPECT_EQ(rendered[0].messages.dump(), messages);
  EXPECT_EQ(rendered[0].template_kwargs.dump(), R"({"k":[1],"enable_thinking":false})");
}

TEST_F(ServerTest, SeparatesReasoning) {
  engine_.set_starts_in_reasoning(true);
  test::FakeAnswer answer;
  answer.pieces = {{"why</"}, {"think>\n"}, {"\nso"}};
  engine_.set_answer(answer);
  start();
  const Json message = post(kChat, chat_body()).json()["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "why");
  EXPECT_EQ(message["content"], "so");
}

TEST_F(ServerTest, CompletesTextAndTokens) {
  start();
  const Json body =
      post("/v1/completions", R"({"prompt":"ab<think>","max_tokens":5,"echo":true})").json();
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["choices"][0]["text"], "ab<think>Hello world");
  EXPECT_EQ(
      post("/v1/completions", R"({"prompt":[97,98,257],"echo":true})").json()["choices"][0]["text"],
      "ab<think>Hello world");
  const auto submitted = engine_.submitted();
  EXPECT_EQ(submitted[0].prompt, (std::vector<TokenId>{97, 98, 257}));
  EXPECT_EQ(submitted[0].prompt, submitted[1].prompt);
  EXPECT_EQ(submitted[0].max_tokens, 5);
}

TEST_F(ServerTest, ServesTheEvaluationClientsCompletion) {
  test::FakeAnswer answer;
  answer.pieces = {{"x</think>"}, {"y<|im_end|>"}};
  engine_.set_answer(answer);
  start();
  const auto reply = post(
      "/completion",
      R"({"prompt":[1,2,3],"n_predict":256,"temperature":0,"top_k":1,"cache_prompt":false,"special":true})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["content"], "x</think>y<|im_end|>");
  EXPECT_EQ(reply.json()["stop_type"], "eos");
  EXPECT_TRUE(engine_.submitted()[0].emit_special);
  EXPECT_EQ(engine_.submitted()[0].max_tokens, 256);
}

TEST_F(ServerTest, TokenizesAndBack) {
  start();
  EXPECT_EQ(post("/tokenize", R"({"content":"a<think>"})").body, R"({"tokens":[97,257]})");
  EXPECT_EQ(
      post("/tokenize", R"({"content":"<think>","parse_special":false})").json()["tokens"].size(),
      7u);
  EXPECT_EQ(post("/tokenize", R"({"content":"é","with_pieces":true})").body,
            R"({"tokens":[{"id":195,"piece":[195]},{"id":169,"piece":[169]}]})");
  EXPECT_EQ(post("/tokenize", R"({"content":["a",98,"<think>"]})").body, R"({"tokens":[97,98,257]})");
  EXPECT_EQ(post("/tokenize", R"({"content":[]})").body, R"({"tokens":[]})");
  EXPECT_EQ(post("/tokenize", R"({"content":[5000]})").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[97,257,195]})").body,
            "{\"content\":\"a<think>\xEF\xBF\xBD\"}");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[5000]})").status, 400);
  EXPECT_EQ(post("/apply-template", chat_body()).body, R"({"prompt":"[user]hi"})");
}

TEST_F(ServerTest, ListsTheModel) {
  start();
  const Json list = get("/v1/models").json();
  EXPECT_EQ(list["data"][0]["id"], "fake-model");
  EXPECT_EQ(list["data"][0]["meta"]["n_ctx"], 4096);
  EXPECT_EQ(get("/v1/models/fake-model").json()["id"], "fake-model");
  EXPECT_EQ(get("/v1/models/fake%2Dmodel").status, 200);
  const auto missing = get("/v1/models/other");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(get("/v1/models/").status, 404);
}

TEST_F(ServerTest, HealthTellsTheTruth) {
  engine_.set_state({engine::EngineStage::kLoading, 0.25, "Reading tensors."});
  start();
  auto health = get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.json()["status"], "loading");
  EXPECT_EQ(health.json()["progress"], 0.25);
  for (const auto& reply : {post(kChat, chat_body()), post("/completion", R"({"prompt":"a"})"),
                            post("/tokenize", R"({"content":"a"})"), get("/v1/models")}) {
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.json()["error"]["type"], "server_error");
    EXPECT_NE(reply.body.find("25 %"), std::string::npos) << reply.body;
    EXPECT_EQ(reply.header("retry-after"), "5");
  }
  EXPECT_EQ(get("/").status, 200);

  engine_.set_state({engine::EngineStage::kFailed, 0.0, "The file is cut short."});
  health = get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.json()["status"], "failed");
  EXPECT_EQ(health.json()["message"], "The file is cut short.");
  EXPECT_NE(post(kChat, chat_body()).body.find("The file is cut short."), std::string::npos);

  engine_.set_state({engine::EngineStage::kReady, 1.0, ""});
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/health").json()["status"], "ok");
  EXPECT_FALSE(get("/health").json().contains("degraded"));
  const std::string lost = "hip:1 is lost, the model runs on hip:0";
  engine_.set_state({engine::EngineStage::kReady, 1.0, "ready", lost});
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/health").json()["degraded"], lost);
  EXPECT_EQ(get("/v1/status").json()["status"], "degraded");
  EXPECT_EQ(get("/v1/status").json()["message"], lost);
  expect_alive();
}

TEST_F(ServerTest, EachBadBodyIsA400ThatNamesTheFault) {
  start();
  for (const char* path :
       {kChat, "/v1/completions", "/completion", "/tokenize", "/detokenize", "/apply-template"}) {
    for (const char* body :
         {"", "[]", "5", "\"\"", "null", "true", "{", "{}", "{\"messages\":[],\"prompt\":[]}",
          "{\"messages\":null}", "\xFF\xFE", "{\"messages\":\"x\",\"prompt\":{}}"}) {
      const auto reply = post(path, body);
      EXPECT_EQ(reply.status, 400) << path << " " << body << " " << reply.body;
      const Json error = reply.json()["error"];
      EXPECT_EQ(error["type"], "invalid_request_error");
      EXPECT_TRUE(error["message"].is_string());
      EXPECT_TRUE(error.contains("param") && error.contains("code"));
    }
  }
  const auto named = post(kChat, chat_body(R"("stream":"false")"));
  EXPECT_EQ(named.status, 400);
  EXPECT_EQ(named.json()["error"]["param"], "stream");
  EXPECT_TRUE(engine_.submitted().empty());
  expect_alive();
}

TEST_F(ServerTest, EveryFieldOfEveryApiSurvivesEveryType) {
  struct Endpoint {
    std::string path, needed;  // `needed`: the fields without which nothing is read further
    std::string names;         // of its own
  };
  const std::string message = R"("messages":[{"role":"user","content":"hi"}])";
  const std::string shared =
      "model stream stream_options temperature top_p top_k min_p typical_p repetition_penalty "
      "presence_penalty frequency_penalty logit_bias seed stop max_tokens logprobs top_logprobs n "
      "tools tool_choice parallel_tool_calls response_format user metadata chat_template_kwargs "
      "enable_thinking reasoning_effort reasoning thinking reasoning_budget_tokens store grammar "
      "json_schema guided_json guided_regex guided_choice structured_outputs ignore_eos ";
  start();
  for (const Endpoint& endpoint : std::vector<Endpoint>{
           {kChat, message, "messages max_completion_tokens modalities functions"},
           {"/v1/completions", R"("prompt":"a")", "prompt echo suffix best_of"},
           {"/v1/responses", R"("input":"a")",
            "input instructions previous_response_id text include background truncation prompt "
            "conversation max_output_tokens"},
           {"/v1/messages", R"("max_tokens":5,)" + message,
            "messages system stop_sequences output_config output_format service_tier container"},
           {"/v1/messages/count_tokens", message, "messages system"},
           {"/completion", R"("prompt":"a")",
            "prompt n_predict n_probs cache_prompt special return_tokens id_slot samplers"},
           {"/tokenize", R"("content":"a")", "content add_special parse_special with_pieces"},
           {"/detokenize", R"("tokens":[1])", "tokens"},
           {"/apply-template", message, "messages add_generation_prompt"}}) {
    HttpClient client(port());
    std::istringstream names(shared + endpoint.names);
    for (std::string name; names >> name;) {
      for (const char* value :
           {"null", "\"x\"", "1", "[]", "{}", "true", "-1", "1e99", "[[[]]]", "[null]", "[{}]",
            "{\"a\":{\"b\":[]}}", "{\"type\":5}", "{\"type\":\"x\"}"}) {
        const auto reply = client.post(
            endpoint.path, fmt::format("{{{},\"{}\":{}}}", endpoint.needed, name, value));
        EXPECT_TRUE(reply.status == 200 || reply.status == 400)
            << endpoint.path << " " << name << ":" << value << " " << reply.body;
        EXPECT_TRUE(reply.complete);
        if (reply.status == 400) {
          EXPECT_TRUE(reply.json()["error"]["message"].is_string()) << reply.body;
        }
      }
    }
  }
  expect_alive();
}

TEST_F(ServerTest, HugeNestingIsRefusedQuickly) {
  start();
  const auto begin = std::chrono::steady_clock::now();
  const auto reply = post(kChat, std::string(10'000'000, '['));
  EXPECT_EQ(reply.status, 400);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  expect_alive();
}

TEST_F(ServerTest, APromptOverTheContextIs400BeforeAnyStreamInEveryApi) {
  start();
  const std::string over(4096, 'x');
  const std::string chat = R"("messages":[{"role":"user","content":")" + over + "\"}]";
  for (const auto& [path, body, field] : std::vector<std::array<std::string, 3>>{
           {"/v1/responses", R"("input":")" + over + "\"", "input"},
           {"/v1/messages", R"("max_tokens":5,)" + chat, "messages"},
           {"/completion", R"("prompt":")" + over + "\"", "prompt"}}) {
    for (const char* stream : {",\"stream\":true}", "}"}) {
      const auto reply = post(path, "{" + body + stream);
      EXPECT_EQ(reply.status, 400) << path << reply.body;
      const Json error = reply.json()["error"];
      EXPECT_EQ(error["type"], "invalid_request_error");
      if (path != "/v1/messages") {
        EXPECT_EQ(error["param"], field);
        EXPECT_EQ(error["code"], "context_length_exceeded");
      }
      const std::string message = error["message"];
      EXPECT_TRUE(message.starts_with(field + ": the prompt has 4")) << message;
      EXPECT_NE(message.find("the context holds 4096 tokens"), std::string::npos) << message;
    }
  }
  for (const char* stream : {"\"stream\":true", "\"stream\":false"}) {
    const auto reply = post(kChat, chat_body(stream, std::string(4096, 'x')));
    EXPECT_EQ(reply.status, 400);
    const Json error = reply.json()["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_NE(error["message"].get<std::string>().find("4102 tokens"), std::string::npos);
    EXPECT_NE(error["message"].get<std::string>().find("4096 tokens"), std::string::npos);
  }
  EXPECT_EQ(post("/v1/completions", R"({"prompt":")" + std::string(4096, 'x') + "\"}").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":")" + std::string(4095, 'x') + "\"}").status, 200);
}

TEST_F(ServerTest, RefusalsOfTheEngineKeepTheirMeaning) {
  start();
  engine_.set_submit_error(Status(StatusCode::kResourceExhausted, "The queue is full."));
  auto reply = post(kChat, chat_body("\"stream\":true"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.json()["error"]["type"], "server_error");
  EXPECT_EQ(reply.header("retry-after"), "5");
  engine_.set_submit_error(Status(StatusCode::kInvalidArgument, "min_p is odd.", "min_p"));
  reply = post(kChat, chat_body());
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["param"], "min_p");
  engine_.set_submit_error(std::nullopt);
  engine_.set_render_error(
      Status(StatusCode::kInvalidArgument, "The template says no.", "messages"));
  reply = post(kChat, chat_body("\"stream\":true"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("The template says no."), std::string::npos);
  // A template knows no request fields; the server finds out which one it was.
  engine_.set_render_error(Status(StatusCode::kInvalidArgument, "The template says no."));
  for (const char* path : {kChat, "/apply-template"}) {
    reply = post(path, chat_body("\"reasoning_effort\":\"low\""));
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(reply.json()["error"]["param"], "messages");
  }
  engine_.set_render_error(std::nullopt);
  expect_alive();
}

TEST_F(ServerTest, AFaultDuringARequestIsNeverBlamedOnTheClient) {
  start();
  for (const auto code :
       {StatusCode::kInvalidArgument, StatusCode::kOutOfRange, StatusCode::kNotFound,
        StatusCode::kUnavailable, StatusCode::kInternal, StatusCode::kUnimplemented}) {
    test::FakeAnswer answer;
    answer.pieces = {{"part"}};
    answer.failure = Status(code, "Device 1 (gfx1201) failed in layer 7.");
    engine_.set_answer_for("broken", answer);
    const auto reply = post(kChat, chat_body("", "broken"));
    EXPECT_GE(reply.status, 500);
    EXPECT_EQ(reply.json()["error"]["type"], "server_error");
    EXPECT_EQ(reply.json()["error"]["message"], "Device 1 (gfx1201) failed in layer 7.");
  }
  expect_alive();
}

TEST_F(ServerTest, UnknownPathsAndMethodsAreToldApart) {
  start();
  auto reply = get("/nothing");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.json()["error"]["code"], "not_found");
  reply = get(kChat);
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("allow"), "POST, OPTIONS");
  reply = post("/health", "{}");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("allow"), "GET, HEAD, OPTIONS");

  HttpClient client(port());
  client.send_raw(HttpClient::request("OPTIONS", kChat, {}));
  reply = client.read_reply();
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.header("allow"), "POST, OPTIONS");
  EXPECT_EQ(reply.header("access-control-allow-origin"), "");
  client.send_raw(HttpClient::request("HEAD", "/v1/models", {}));
  reply = client.read_reply(true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.header("content-length"), "0");
  EXPECT_EQ(client.get("/health").status, 200) << "no body followed the HEAD";
}

TEST_F(ServerTest, KeepsConnectionsAndAnswersPipelinedRequestsInOrder) {
  start();
  HttpClient client(port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.post(kChat, chat_body()).status, 200);
  client.send_raw(HttpClient::request("POST", kChat, chat_body()) +
                  HttpClient::request("GET", "/health", {}) +
                  HttpClient::request("POST", kChat, chat_body("\"stream\":true")) +
                  HttpClient::request("POST", "/tokenize", R"({"content":"a"})"));
  EXPECT_EQ(client.read_reply().json()["object"], "chat.completion");
  EXPECT_EQ(client.read_reply().json()["status"], "ok");
  EXPECT_EQ(client.read_reply().events().back(), "[DONE]");
  EXPECT_EQ(client.read_reply().body, R"({"tokens":[97]})");
}

TEST_F(ServerTest, EmptyLinesBeforeARequestAreNoRequest) {
  start();
  HttpClient client(port());
  client.send_raw("\r\n" + HttpClient::request("GET", "/health", {}) + "\r\n\r\n" +
                  HttpClient::request("POST", "/tokenize", R"({"content":"a"})") + "\r");
  EXPECT_EQ(client.read_reply().json()["status"], "ok");
  EXPECT_EQ(client.read_reply().body, R"({"tokens":[97]})");
  client.send_raw("\n" + HttpClient::request("GET", "/health", {}));
  EXPECT_EQ(client.read_reply().json()["status"], "ok");
}

TEST_F(ServerTest, SaysWhenItAnswered) {
  start();
  const auto date = get("/health").header("date");
  std::tm told = {};
  ASSERT_NE(strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &told), nullptr) << date;
  EXPECT_NEAR(static_cast<double>(timegm(&told)), static_cast<double>(std::time(nullptr)), 5.0);
  // The example of RFC 9110.
  EXPECT_EQ(server::http_date(std::chrono::system_clock::from_time_t(784'111'777)),
            "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST_F(ServerTest, ReadsARequestThatArrivesByteByByte) {
  start();
  HttpClient client(port());
  for (const char c : HttpClient::request("POST", "/tokenize", R"({"content":"a"})")) {
    client.send_raw({&c, 1});
  }
  EXPECT_EQ(client.read_reply().body, R"({"tokens":[97]})");
  client.send_raw(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\n{\"con\r\nd\r\ntent\":\"abc\"}\n\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, R"({"tokens":[97,98,99]})");
}

TEST_F(ServerTest, SendsContinueWhenAsked) {
  start();
  HttpClient client(port());
  const std::string body = R"({"content":"a"})";
  client.send_raw(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 100);
  client.send_raw(body);
  EXPECT_EQ(client.read_reply().body, R"({"tokens":[97]})");

  HttpClient refused(port());
  refused.send_raw(
      "POST /nothing HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
      "5\r\n\r\n");
  EXPECT_EQ(refused.read_reply().status, 404);
}

TEST_F(ServerTest, OldClientsGetTheirStreamWithoutChunks) {
  start();
  HttpClient client(port());
  const std::string body = chat_body("\"stream\":true");
  client.send_raw("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("transfer-encoding"), "");
  EXPECT_EQ(reply.events().back(), "[DONE]");
}

TEST_F(ServerTest, RefusesWhatIsNotHttp) {
  options_.max_header_bytes = 4096;
  options_.max_body_bytes = 100'000;
  start();
  const auto reply_to = [&](const std::string& bytes) {
    HttpClient client(port());
    client.send_raw(bytes);
    return client.read_reply();
  };
  EXPECT_EQ(reply_to("hello there\r\n\r\n").status, 400);
  EXPECT_EQ(reply_to("GET /health HTTP/1.1\r\n\r\n").status, 400) << "no Host";
  EXPECT_EQ(reply_to("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n").status,
            400);
  EXPECT_EQ(reply_to("GET health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 400);
  EXPECT_EQ(reply_to("GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n").status,
            200);
  EXPECT_EQ(
      reply_to("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n").status,
      400);
  EXPECT_EQ(
      reply_to(
          "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n")
          .status,
      417);
  EXPECT_EQ(reply_to("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, "
                     "chunked\r\n\r\n0\r\n\r\n")
                .status,
            501);
  const auto packed = reply_to(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: "
      "1\r\n\r\nx");
  EXPECT_EQ(packed.status, 415);
  EXPECT_EQ(packed.header("accept-encoding"), "identity");
  EXPECT_EQ(reply_to("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(5000, 'x') +
                     "\r\n\r\n")
                .status,
            431);
  EXPECT_EQ(reply_to("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100001\r\n\r\n")
                .status,
            413);
  const auto late = post("/tokenize", std::string(300'000, 'x'));
  EXPECT_EQ(late.status, 413) << "the answer arrives although the body was not read";
  EXPECT_EQ(late.json()["error"]["code"], "body_too_large");
  expect_alive();
}

TEST_F(ServerTest, SlowSendersAreTimedOut) {
  options_.header_timeout = std::chrono::milliseconds(150);
  options_.body_timeout = std::chrono::milliseconds(150);
  options_.idle_timeout = std::chrono::milliseconds(200);
  start();
  HttpClient head(port());
  head.send_raw("GET /health HT");
  EXPECT_EQ(head.read_reply().status, 408);
  EXPECT_TRUE(head.closed_within(std::chrono::seconds(5)));
  HttpClient body(port());
  body.send_raw("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{");
  const auto reply = body.read_reply();
  EXPECT_EQ(reply.status, 408);
  EXPECT_EQ(reply.json()["error"]["code"], "timeout");
  HttpClient silent(port());
  EXPECT_TRUE(silent.closed_within(std::chrono::seconds(5)));
  HttpClient idle(port());
  EXPECT_EQ(idle.get("/health").status, 200);
  EXPECT_TRUE(idle.closed_within(std::chrono::seconds(5)));
}

// What is logged while it lives.
class LoggedLines {
 public:
  LoggedLines() {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  }
  ~LoggedLines() { spdlog::set_default_logger(before_); }
  std::string text() const { return lines_.str(); }

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream lines_;
};

TEST_F(ServerTest, SaysWhenAnybodyMayUseIt) {
  const auto warnings = [&](const char* host, std::vector<std::string> keys) {
    const LoggedLines logged;
    options_.host = host;
    options_.api_keys = std::move(keys);
    start();
    server_->stop();
    return logged.text();
  };
  EXPECT_NE(warnings("0.0.0.0", {}).find("0.0.0.0 can be reached from other machines"),
            std::string::npos);
  EXPECT_EQ(warnings("0.0.0.0", {"key"}), "");
  EXPECT_EQ(warnings("127.0.0.1", {}), "");
}

TEST_F(ServerTest, TheLogHasOneLinePerRequestAndNoText) {
  const LoggedLines logged;
  start();
  const auto reply = post(std::string(kChat) + "?token=swordfish", chat_body("", "swordfish"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(post(kChat, chat_body(R"("stop":[5,"swordfish"])")).status, 400);
  get("/a%0Ab");
  server_->stop();
  const std::string log = logged.text();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 3) << log;
  EXPECT_NE(log.find("access method=POST path=/v1/chat/completions status=200 "), std::string::npos)
      << log;
  EXPECT_NE(log.find(reply.header("x-request-id")), std::string::npos) << log;
  EXPECT_NE(log.find("method=GET path=/a?b status=404 "), std::string::npos) << log;
  EXPECT_EQ(log.find("swordfish"), std::string::npos) << log;
  EXPECT_EQ(log.find("Hello"), std::string::npos) << log;
}

TEST_F(ServerTest, ServesThePageWithAStrictPolicy) {
  start();
  for (const auto& [path, type] : std::vector<std::pair<std::string, std::string>>{
           {"/", "text/html; charset=utf-8"},
           {"/index.html", "text/html; charset=utf-8"},
           {"/app.js", "text/javascript; charset=utf-8"},
           {"/style.css", "text/css; charset=utf-8"},
           {"/icon.svg", "image/svg+xml"}}) {
    const auto reply = get(path);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("content-type"), type);
    EXPECT_TRUE(reply.header("content-security-policy").starts_with("default-src 'none'"));
    EXPECT_EQ(reply.header("x-content-type-options"), "nosniff");
    EXPECT_GT(reply.body.size(), 300u) << path;
  }
  const std::string page = get("/").body;
  EXPECT_EQ(page.find("http://"), std::string::npos) << "the page needs no network";
  EXPECT_EQ(page.find("https://"), std::string::npos);
  EXPECT_EQ(page.find(" style="), std::string::npos) << "the policy forbids inline styles";
  EXPECT_EQ(page.find("onclick"), std::string::npos) << "the policy forbids inline scripts";
}

}  // namespace
}  // namespace strata::server
