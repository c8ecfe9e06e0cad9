#include "server/access_guard.h"
#include "server_fixture.h"

namespace strata::server {
namespace {

using test::HttpClient;

int status_with_host(uint16_t port, const std::string& host) {
  HttpClient client(port);
  client.send_raw("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  return client.read_reply().status;
}

TEST_F(ServerTest, OnLoopbackOnlyNamesOfThisMachineAreAnswered) {
  options_.allowed_hosts = {"Box.example"};
  start();
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "[::1]",
                           "[::1]:9", "::1", "localhost.", "box.example:80"}) {
    EXPECT_EQ(status_with_host(port(), host), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "xlocalhost", "[::1", "", "127.0.0.2", "localhost:80:80"}) {
    EXPECT_EQ(status_with_host(port(), host), 403) << host;
  }
}

TEST_F(ServerTest, OnOtherAddressesAnyHostNameGoes) {
  options_.host = "0.0.0.0";
  start();
  EXPECT_EQ(status_with_host(port(), "box.lan"), 200);
}

TEST_F(ServerTest, PagesOfOtherOriginsMayNotPost) {
  start();
  for (const char* origin :
       {"http://evil.example", "null", "http://localhost:1", "https://localhost.evil"}) {
    const auto reply = post(kChat, chat_body(), std::string("Origin: ") + origin + "\r\n");
    EXPECT_EQ(reply.status, 403) << origin;
    EXPECT_EQ(reply.json()["error"]["code"], "origin_not_allowed");
    EXPECT_EQ(reply.header("access-control-allow-origin"), "");
  }
  EXPECT_EQ(post(kChat, chat_body(), "Origin: http://localhost\r\n").status, 200)
      << "the server's own page";
  EXPECT_EQ(engine_.submitted().size(), 1u);
}

TEST_F(ServerTest, ListedOriginsGetCors) {
  options_.allowed_origins = {"http://app.example"};
  start();
  const auto reply = post(kChat, chat_body(), "Origin: http://APP.example\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("access-control-allow-origin"), "http://APP.example");
  HttpClient client(port());
  client.send_raw(HttpClient::request("OPTIONS", kChat, {}, "Origin: http://app.example\r\n"));
  const auto preflight = client.read_reply();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-headers"), "Authorization, Content-Type");
  const auto stream = post(kChat, chat_body("\"stream\":true"), "Origin: http://app.example\r\n");
  EXPECT_EQ(stream.header("access-control-allow-origin"), "http://app.example");
  EXPECT_EQ(post(kChat, chat_body(), "Origin: http://other.example\r\n").status, 403);
}

TEST_F(ServerTest, KeysAreRequiredExceptForHealthAndThePage) {
  options_.api_keys = {"alpha", "beta"};
  start();
  for (const char* header : {"", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n",
                             "Authorization: Bearer alph\r\n", "Authorization: Bearer alphax\r\n",
                             "Authorization: Basic alpha\r\n", "Authorization: alpha\r\n",
                             "Authorization: Bearer ALPHA\r\n"}) {
    const auto reply = post(kChat, chat_body(), header);
    EXPECT_EQ(reply.status, 401) << header;
    EXPECT_EQ(reply.json()["error"]["code"], "invalid_api_key");
    EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
    EXPECT_EQ(get("/v1/models", header).status, 401);
    EXPECT_EQ(get("/nothing", header).status, 401) << "strangers learn no paths";
  }
  EXPECT_TRUE(engine_.submitted().empty());
  EXPECT_EQ(post(kChat, chat_body(), "Authorization: Bearer alpha\r\n").status, 200);
  EXPECT_EQ(post(kChat, chat_body(), "authorization: bearer beta\r\n").status, 200);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/").status, 200);
  EXPECT_EQ(get("/app.js").status, 200);
}

TEST(AccessGuard, ComparesKeysWhole) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
}

TEST_F(ServerTest, TooManyConnectionsAreTurnedAway) {
  options_.max_connections = 2;
  start();
  HttpClient first(port());
  HttpClient second(port());
  EXPECT_EQ(first.get("/health").status, 200);
  EXPECT_EQ(second.get("/health").status, 200);
  {
    HttpClient third(port());
    const auto reply = third.get("/health");
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.json()["error"]["code"], "too_many_connections");
  }
  first.close();
  EXPECT_TRUE(eventually([&] { return get("/health").status == 200; }));
}

TEST_F(ServerTest, StartFailsWithASentence) {
  start();
  ServerOptions taken = options_;
  taken.port = port();
  const auto second = Server::start(taken, engine_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            fmt::format("Port {} on 127.0.0.1 is already in use; stop the program that holds it or "
                        "choose another port "
                        "(0 takes any free one).",
                        port()));
  ServerOptions nowhere = options_;
  nowhere.host = "192.0.2.1";
  EXPECT_NE(
      Server::start(nowhere, engine_).status().message().find("not an address of this machine"),
      std::string::npos);
  // Any other fault of the system is told in its own words.
  nowhere.host = "fe80::1";  // needs an interface
  const std::string fault = Server::start(nowhere, engine_).status().message();
  EXPECT_TRUE(fault.starts_with("The server cannot listen on fe80::1 port 0: ")) << fault;
  EXPECT_EQ(fault.find("in use"), std::string::npos) << fault;
  nowhere.host = "no such host";
  EXPECT_FALSE(Server::start(nowhere, engine_).ok());
  ServerOptions odd = options_;
  odd.threads = 0;
  EXPECT_EQ(Server::start(odd, engine_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, ThePortIsFreeAgainAfterStop) {
  start();
  options_.port = port();
  {
    HttpClient client(port());
    EXPECT_EQ(client.get("/health").status, 200);
    server_->stop();
  }
  server_.reset();
  start();
  EXPECT_EQ(get("/health").status, 200);
}

}  // namespace
}  // namespace strata::server
