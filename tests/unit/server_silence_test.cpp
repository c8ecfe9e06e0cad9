// An engine that falls silent, and a full queue.
#include "server_fixture.h"

namespace strata::server {
namespace {

using std::chrono::milliseconds;
using test::HttpClient;

constexpr milliseconds kLimit{1'000};  // far above what an answer takes here on a busy machine
constexpr milliseconds kGrace{100};
constexpr milliseconds kForever{3'600'000};

struct Api {
  std::string path, body;  // without the closing brace
  std::string text;        // of which a stream's event tells the first word
};

std::vector<Api> apis() {
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  return {{"/v1/chat/completions", "{" + messages, R"("content":"Hel")"},
          {"/v1/completions", R"({"prompt":"hi")", R"("text":"Hel")"},
          {"/v1/responses", R"({"input":"hi")", R"("delta":"Hel")"},
          {"/v1/messages", R"({"max_tokens":9,)" + messages, R"("text":"Hel")"},
          {"/completion", R"({"prompt":"hi")", R"("content":"Hel")"}};
}

class SilenceTest : public ServerTest {
 protected:
  explicit SilenceTest(int parallel = 64) : ServerTest(parallel) {
    options_.silence_timeout = kLimit;
    options_.cancel_grace = kGrace;
  }

  static test::FakeAnswer falls_silent(milliseconds pause = kForever) {
    test::FakeAnswer answer;
    answer.pieces = {{"Hel"}, {"lo", {}, {}, pause}};
    return answer;
  }
};
class SilentOneAtATime : public SilenceTest {
 protected:
  SilentOneAtATime() : SilenceTest(1) {}
};

TEST_F(SilenceTest, AWholeAnswerEndsInTheShapeOfItsApi) {
  engine_.set_answer(falls_silent());
  start();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (const Api& api : apis()) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send_raw(HttpClient::request("POST", api.path, api.body + "}"));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const auto reply = clients[i]->read_reply();
    EXPECT_EQ(reply.status, 503) << apis()[i].path << reply.body;
    const Json error = reply.json()["error"];
    EXPECT_EQ(error["type"], apis()[i].path == "/v1/messages" ? "api_error" : "server_error");
    EXPECT_NE(error["message"].get<std::string>().find("no sign of life for 1 seconds"),
              std::string::npos)
        << reply.body;
  }
  EXPECT_EQ(engine_.cancelled(), static_cast<int>(clients.size()));
  engine_.set_answer(says({{"well"}}));
  expect_alive();
  EXPECT_EQ(get("/health").json()["status"], "ok") << "the engine has heeded the end";
}

TEST_F(SilenceTest, AStreamEndsWithTheErrorEventOfItsApi) {
  engine_.set_answer(falls_silent());
  start();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (const Api& api : apis()) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send_raw(
        HttpClient::request("POST", api.path, api.body + ",\"stream\":true}"));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const Api api = apis()[i];
    const auto reply = clients[i]->read_reply();
    EXPECT_EQ(reply.status, 200) << api.path;
    EXPECT_TRUE(reply.complete) << api.path;
    const size_t text = reply.body.find(api.text);
    const size_t error = reply.body.find("no sign of life", text);
    EXPECT_NE(text, std::string::npos) << api.path << reply.body;
    EXPECT_NE(error, std::string::npos) << api.path << reply.body;
    if (api.path == "/v1/messages") {
      EXPECT_NE(reply.body.find("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                                "\"api_error\""),
                std::string::npos)
          << reply.body;
    } else if (api.path == "/v1/responses") {
      EXPECT_NE(reply.body.find("event: response.failed\n"), std::string::npos) << reply.body;
    } else {
      EXPECT_EQ(Json::parse(reply.events().back())["error"]["type"], "server_error");
    }
    EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos) << api.path;
  }
  EXPECT_EQ(engine_.cancelled(), static_cast<int>(clients.size()));
  engine_.set_answer(says({{"well"}}));
  expect_alive();
  EXPECT_NE(get("/metrics").body.find("strata_generations_total{reason=\"error\"} 5\n"),
            std::string::npos);
}

TEST_F(SilenceTest, ReadingALongPromptIsNoSilence) {
  test::FakeAnswer slow;
  slow.progress = 25;
  slow.prompt_delay = 2 * kLimit;
  slow.pieces = {{"read"}};
  engine_.set_answer(slow);
  start();
  const auto reply = post(kChat, chat_body());
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(engine_.cancelled(), 0);
}

TEST_F(SilentOneAtATime, WaitingForAPlaceIsNoSilence) {
  test::FakeAnswer slow;
  slow.pieces = {{"x", {}, {}, kLimit / 10}};
  slow.repeat = 20;
  engine_.set_answer_for("first", slow);
  start();
  HttpClient first(port()), second(port());
  first.send_raw(HttpClient::request("POST", kChat, chat_body({}, "first")));
  ASSERT_TRUE(eventually([&] { return engine_.queue().running == 1; }));
  second.send_raw(HttpClient::request("POST", kChat, chat_body({}, "second")));
  EXPECT_EQ(first.read_reply().status, 200);
  EXPECT_EQ(second.read_reply().status, 200);
}

TEST_F(SilentOneAtATime, AnEngineThatIgnoresTheEndMakesTheServerDegradedUntilItGoesOn) {
  test::FakeAnswer deaf = falls_silent(4 * kLimit);
  deaf.deaf = true;
  engine_.set_answer_for("deaf", deaf);
  start();
  EXPECT_EQ(post(kChat, chat_body({}, "deaf")).status, 503);
  test::HttpReply health;
  ASSERT_TRUE(eventually([&] { return (health = get("/health")).status == 503; }));
  EXPECT_EQ(health.json()["status"], "degraded");
  EXPECT_NE(health.json()["degraded"].get<std::string>().find("no sign of life"),
            std::string::npos);
  const Json status = get("/v1/status").json();
  EXPECT_EQ(status["status"], "degraded");
  EXPECT_EQ(status["message"], health.json()["degraded"]);
  ASSERT_TRUE(eventually([&] { return (health = get("/health")).status == 200; }));
  EXPECT_EQ(health.json()["status"], "ok");
  expect_alive();
}

TEST_F(SilenceTest, ARequestThatNeverEndsDoesNotHoldUpTheOthers) {
  test::FakeAnswer deaf = falls_silent();
  deaf.deaf = true;
  engine_.set_answer_for("deaf", deaf);
  start();
  EXPECT_EQ(post(kChat, chat_body({}, "deaf")).status, 503);
  std::this_thread::sleep_for(2 * kGrace);
  expect_alive();
  const auto health = get("/health");
  EXPECT_EQ(health.status, 200) << "it still serves";
  EXPECT_EQ(health.json()["status"], "degraded");
  EXPECT_EQ(health.json()["degraded"],
            "1 cancelled request has not ended in the engine, which goes on with others.");
}

TEST_F(ServerTest, ZeroIsNoLimitForSilence) {
  options_.silence_timeout = milliseconds(0);
  test::FakeAnswer slow;
  slow.pieces = {{"a"}, {"b", {}, {}, milliseconds(300)}};
  engine_.set_answer(slow);
  start();
  EXPECT_EQ(post(kChat, chat_body()).status, 200);
}

TEST_F(ServerTest, ALimitBelowZeroIsRefused) {
  options_.silence_timeout = milliseconds(-1);
  const auto server = Server::start(options_, engine_);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().message(), "The limit for the engine's silence may not be negative.");
}

TEST_F(ServerTest, AFullQueueIsAnErrorThatSdksTryAgain) {
  test::FakeAnswer full;
  full.refusal = Status(StatusCode::kResourceExhausted, "8 requests are waiting already");
  engine_.set_answer(full);
  start();
  for (const Api& api : apis()) {
    for (const char* stream : {"}", ",\"stream\":true}"}) {
      const auto reply = post(api.path, api.body + stream);
      const bool messages = api.path == "/v1/messages";
      EXPECT_EQ(reply.status, messages ? 529 : 503) << api.path << reply.body;
      EXPECT_EQ(reply.header("retry-after"), "5");
      const Json error = reply.json()["error"];
      EXPECT_EQ(error["type"], messages ? "overloaded_error" : "server_error");
      EXPECT_NE(error["message"].get<std::string>().find("8 requests"), std::string::npos);
      if (!messages) {
        EXPECT_EQ(error["code"], "overloaded");
      }
    }
  }
  EXPECT_NE(get("/metrics").body.find("strata_http_requests_total{status=\"529\"} 2\n"),
            std::string::npos);
}

}  // namespace
}  // namespace strata::server
