#include "server_fixture.h"

namespace strata::server {
namespace {

using std::chrono::milliseconds;
using test::HttpClient;

// 1,000 pieces, 10 ms apart: a request that only ends early when it is cancelled.
test::FakeAnswer long_answer() {
  test::FakeAnswer answer;
  answer.pieces = {{"tick ", {}, {}, milliseconds(10)}};
  answer.repeat = 1000;
  return answer;
}

class OneAtATimeTest : public ServerTest {
 protected:
  OneAtATimeTest() : ServerTest(1) {}
};

std::string text_of(const test::HttpReply& reply) {
  std::string text;
  for (const auto& event : reply.events()) {
    if (event == "[DONE]") continue;
    const auto json = nlohmann::ordered_json::parse(event);
    if (!json.contains("choices") || json["choices"].empty()) continue;
    text += json["choices"][0]["delta"].value("content", "");
  }
  return text;
}

TEST_F(ServerTest, StreamsWhatTheWholeAnswerSays) {
  start();
  const auto reply =
      post(kChat, chat_body(R"("stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply.header("cache-control"), "no-cache");
  EXPECT_TRUE(reply.complete);
  const Json whole = post(kChat, chat_body()).json();
  EXPECT_EQ(text_of(reply), whole["choices"][0]["message"]["content"]);
  const auto events = reply.events();
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(Json::parse(events[4])["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(Json::parse(events[4]).contains("timings"));
  EXPECT_EQ(Json::parse(events[5])["usage"], whole["usage"]);
  EXPECT_EQ(Json::parse(events[5])["choices"], Json::array());
  EXPECT_EQ(events[6], "[DONE]");
}

TEST_F(ServerTest, LlamaStreamsEndWithTheirFinalObject) {
  start();
  const auto events = post("/completion", R"({"prompt":"a","stream":true})").events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(Json::parse(events[0])["content"], "Hello");
  EXPECT_EQ(Json::parse(events[3])["stop_type"], "eos");
}

TEST_F(ServerTest, AFaultInsideAStreamIsAnEventAndTheEnd) {
  start();
  test::FakeAnswer answer;
  answer.pieces = {{"part"}};
  answer.failure = Status(StatusCode::kInvalidArgument, "Layer 3 failed.");
  engine_.set_answer(answer);
  HttpClient client(port());
  const auto reply = client.post(kChat, chat_body("\"stream\":true"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.complete);
  const Json error = Json::parse(reply.events().back())["error"];
  EXPECT_EQ(error["message"], "Layer 3 failed.");
  EXPECT_EQ(error["type"], "server_error");
  engine_.set_answer({});
  EXPECT_EQ(client.post(kChat, chat_body()).status, 200) << "the connection goes on";
}

TEST_F(ServerTest, HeadersComeAtOnceAndCommentsKeepTheStreamAlive) {
  EXPECT_LT(ServerOptions().keepalive_interval, milliseconds(15'000)) << "clients count on it";
  options_.keepalive_interval = milliseconds(100);
  test::FakeAnswer answer;
  answer.pieces = {{"late"}};
  answer.prompt_delay = milliseconds(700);
  engine_.set_answer(answer);
  start();
  HttpClient client(port());
  const auto begin = std::chrono::steady_clock::now();
  client.send_raw(HttpClient::request("POST", kChat, chat_body("\"stream\":true")));
  ASSERT_TRUE(client.read_until("\"role\""));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(600));
  const auto reply = client.read_reply();
  size_t comments = 0;
  for (size_t at = 0; (at = reply.body.find(": keep-alive\n\n", at)) != std::string::npos; ++at)
    ++comments;
  EXPECT_GE(comments, 2u);
  EXPECT_LE(comments, 8u);
  EXPECT_EQ(text_of(reply), "late");
}

TEST_F(OneAtATimeTest, AClientThatLeavesAStreamCancelsIt) {
  engine_.set_answer_for("long", long_answer());
  start();
  {
    HttpClient client(port());
    client.send_raw(HttpClient::request("POST", kChat, chat_body("\"stream\":true", "long")));
    ASSERT_TRUE(client.read_until("tick"));
  }
  EXPECT_TRUE(eventually([&] { return engine_.cancelled() == 1; }));
  expect_alive();
}

TEST_F(OneAtATimeTest, AClientThatLeavesAWholeAnswerCancelsIt) {
  engine_.set_answer_for("long", long_answer());
  start();
  {
    HttpClient client(port());
    client.send_raw(HttpClient::request("POST", kChat, chat_body("", "long")));
    ASSERT_TRUE(eventually([&] { return engine_.queue().running == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return engine_.cancelled() == 1; }));
  expect_alive();
}

TEST_F(OneAtATimeTest, AQueuedClientThatLeavesCancelsOnlyItself) {
  engine_.set_answer_for("long", long_answer());
  test::FakeAnswer steady = long_answer();
  steady.repeat = 60;
  engine_.set_answer_for("steady", steady);
  start();
  HttpClient running(port());
  running.send_raw(HttpClient::request("POST", kChat, chat_body("\"stream\":true", "steady")));
  ASSERT_TRUE(running.read_until("tick"));
  for (const char* stream : {"\"stream\":true", "\"stream\":false"}) {
    HttpClient queued(port());
    queued.send_raw(HttpClient::request("POST", kChat, chat_body(stream, "long")));
    ASSERT_TRUE(eventually([&] { return engine_.queue().waiting == 1; }));
    queued.close();
    EXPECT_TRUE(eventually([&] { return engine_.queue().waiting == 0; }));
  }
  EXPECT_EQ(engine_.cancelled(), 2);
  const auto reply = running.read_reply();
  EXPECT_EQ(reply.events().back(), "[DONE]");
  EXPECT_EQ(text_of(reply).size(), 60 * 5u);
  expect_alive();
}

TEST_F(OneAtATimeTest, AClientThatSentMoreBeforeLeavingIsNoticedToo) {
  engine_.set_answer_for("long", long_answer());
  start();
  {
    HttpClient client(port());
    client.send_raw(HttpClient::request("POST", kChat, chat_body("", "long")));
    ASSERT_TRUE(eventually([&] { return engine_.queue().running == 1; }));
    client.send_raw(HttpClient::request("GET", "/health", {}));
  }
  EXPECT_TRUE(eventually([&] { return engine_.cancelled() == 1; }));
}

TEST_F(ServerTest, RequestsThatTakeLongToPrepareHoldUpNobodyElse) {
  engine_.set_submit_delay(std::chrono::milliseconds(1500));
  engine_.set_answer_for("long", long_answer());
  start();
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 2 * options_.threads; ++i) {
    slow.push_back(std::make_unique<HttpClient>(port()));
    slow.back()->send_raw(HttpClient::request("POST", kChat, chat_body("", i == 0 ? "long" : "hi")));
    if (i > 0) continue;
    ASSERT_TRUE(eventually([&] { return engine_.submissions_begun() == 1; }));
  }
  slow.front()->close();
  HttpClient quick(port());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(quick.get("/health").status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1000));
  for (size_t i = 1; i < slow.size(); ++i) EXPECT_EQ(slow[i]->read_reply().status, 200);
  EXPECT_TRUE(eventually([&] { return engine_.cancelled() == 1; })) << "its client has left";
}

TEST_F(ServerTest, ASlowReaderIsCutOff) {
  options_.max_stream_buffer = 64 << 10;
  test::FakeAnswer answer;
  answer.pieces = {{std::string(16 << 10, 'x'), {120}}};
  answer.repeat = 100'000;
  engine_.set_answer_for("flood", answer);
  start();
  HttpClient client(port(), 8 << 10);
  client.send_raw(HttpClient::request("POST", kChat, chat_body("\"stream\":true", "flood")));
  EXPECT_TRUE(eventually([&] { return engine_.cancelled() == 1; }));
  expect_alive();
}

TEST_F(ServerTest, AReaderThatStopsIsCutOffAfterTheWriteTimeout) {
  options_.write_timeout = milliseconds(200);
  options_.max_stream_buffer = 1u << 30;
  test::FakeAnswer answer;
  answer.pieces = {{std::string(64 << 10, 'x'), {120}, {}, milliseconds(1)}};
  answer.repeat = 100'000;
  engine_.set_answer_for("flood", answer);
  start();
  HttpClient client(port(), 8 << 10);
  client.send_raw(HttpClient::request("POST", kChat, chat_body("\"stream\":true", "flood")));
  EXPECT_TRUE(eventually([&] { return engine_.cancelled() == 1; }));
  expect_alive();
}

TEST_F(ServerTest, FiftyStreamsAtOnceEachGetTheirOwnText) {
  for (int i = 0; i < 50; ++i) {
    test::FakeAnswer answer;
    answer.pieces = {{fmt::format("<{}>", i), {}, {}, milliseconds(2)}};
    answer.repeat = 20;
    engine_.set_answer_for(fmt::format("key{:02}", i), answer);
  }
  start();
  std::vector<std::string> texts(50);
  std::vector<std::thread> threads;
  for (int i = 0; i < 50; ++i) {
    threads.emplace_back([&, i] {
      texts[i] = text_of(post(kChat, chat_body("\"stream\":true", fmt::format("key{:02}", i))));
    });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 50; ++i) {
    std::string expected;
    for (int n = 0; n < 20; ++n) expected += fmt::format("<{}>", i);
    EXPECT_EQ(texts[i], expected);
  }
}

TEST_F(ServerTest, ManyClientsThatComeAndGoLeaveNothingBehind) {
  engine_.set_answer_for("long", long_answer());
  start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 15; ++i) {
        HttpClient client(port());
        client.send_raw(
            HttpClient::request("POST", kChat, chat_body(i % 2 ? "\"stream\":true" : "", "long")));
        if ((i + t) % 3 == 0) client.read_until("tick", milliseconds(50));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] {
    const auto queue = engine_.queue();
    return queue.running == 0 && queue.waiting == 0;
  }));
  EXPECT_EQ(engine_.finished(), 0);
  expect_alive();
}

TEST_F(ServerTest, StopEndsStreamsWithAReason) {
  engine_.set_answer(long_answer());
  start();
  HttpClient stream(port());
  stream.send_raw(HttpClient::request("POST", kChat, chat_body("\"stream\":true")));
  ASSERT_TRUE(stream.read_until("tick"));
  HttpClient whole(port());
  whole.send_raw(HttpClient::request("POST", kChat, chat_body()));
  ASSERT_TRUE(eventually([&] { return engine_.queue().running == 2; }));
  HttpClient idle(port());
  EXPECT_EQ(idle.get("/health").status, 200);

  const auto begin = std::chrono::steady_clock::now();
  std::thread stopper([&] { server_->stop(); });
  const auto streamed = stream.read_reply();
  EXPECT_TRUE(streamed.complete);
  EXPECT_EQ(Json::parse(streamed.events().back())["error"]["message"],
            "The server is stopping; the request was cancelled.");
  stream.close();
  EXPECT_EQ(whole.read_reply().status, 503);
  whole.close();
  EXPECT_TRUE(idle.closed_within(std::chrono::seconds(5)));
  stopper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(engine_.cancelled(), 2);
  server_->stop();
  EXPECT_FALSE(HttpClient(port()).connected());
}

// An engine that ignores cancel() and goes on sending events after the server is gone.
class DeafEngine final : public engine::Engine {
 public:
  ~DeafEngine() override {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
  }
  engine::EngineState state() const override { return inner_.state(); }
  const engine::ModelInfo& info() const override { return inner_.info(); }
  engine::QueueInfo queue() const override { return {}; }
  Result<std::vector<TokenId>> tokenize(std::string_view text, bool special) const override {
    return inner_.tokenize(text, special);
  }
  Result<std::string> detokenize(std::span<const TokenId> tokens, bool special) const override {
    return inner_.detokenize(tokens, special);
  }
  Result<engine::RenderedChat> render_chat(const engine::ChatRequest& request) const override {
    return inner_.render_chat(request);
  }
  Result<std::shared_ptr<engine::RequestHandle>> submit(engine::GenerateRequest,
                                                        engine::EventSink sink) override {
    thread_ = std::thread([this, sink = std::move(sink)] {
      while (!ending_) {
        sink(engine::TextDelta{"tick", {1}, {}});
        std::this_thread::sleep_for(milliseconds(1));
      }
      sink(engine::Finished{});
    });
    return std::shared_ptr<engine::RequestHandle>(std::make_shared<Deaf>());
  }

 private:
  struct Deaf final : engine::RequestHandle {
    void cancel() override {}
  };
  test::FakeEngine inner_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

TEST(ServerStop, DoesNotWaitForeverForAnEngineThatIgnoresCancel) {
  DeafEngine engine;
  ServerOptions options;
  options.port = 0;
  options.stop_grace = milliseconds(200);
  auto server = Server::start(options, engine);
  ASSERT_TRUE(server.ok());
  HttpClient client((*server)->port());
  client.send_raw(
      HttpClient::request("POST", "/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_TRUE(client.read_until("tick"));
  const auto begin = std::chrono::steady_clock::now();
  std::move(server).value().reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(client.closed_within(std::chrono::seconds(5)));
  std::this_thread::sleep_for(milliseconds(50));  // events of a server that no longer exists
}

}  // namespace
}  // namespace strata::server
