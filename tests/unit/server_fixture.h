// A server on a free port over a FakeEngine.
#pragma once

#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "server/server.h"
#include "support/fake_engine.h"
#include "support/http_client.h"

namespace strata::server {

class ServerTest : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;
  static constexpr const char* kChat = "/v1/chat/completions";

  explicit ServerTest(int parallel = 64) : engine_(parallel) {
    options_.port = 0;
    test::FakeAnswer answer;
    answer.pieces = {{"Hello"}, {" wor"}, {"ld"}};
    engine_.set_answer(answer);
  }

  void start() {
    auto server = Server::start(options_, engine_);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(server).value();
  }
  uint16_t port() const { return server_->port(); }

  static std::string chat_body(const std::string& more = {}, const std::string& text = "hi") {
    return R"({"messages":[{"role":"user","content":")" + text + "\"}]" +
           (more.empty() ? "" : "," + more) + "}";
  }

  test::HttpReply post(const std::string& path, const std::string& body,
                       const std::string& headers = {}) {
    return test::HttpClient(port()).post(path, body, headers);
  }
  test::HttpReply get(const std::string& path, const std::string& headers = {}) {
    return test::HttpClient(port()).get(path, headers);
  }

  static test::FakeAnswer says(std::vector<test::FakePiece> pieces) {
    test::FakeAnswer answer;
    answer.pieces = std::move(pieces);
    return answer;
  }

  // A plain request works: the server has survived whatever came before.
  void expect_alive() {
    const auto reply = post(kChat, chat_body());
    EXPECT_EQ(reply.status, 200) << reply.body;
  }

  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return condition();
  }

  test::FakeEngine engine_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
};

}  // namespace strata::server
