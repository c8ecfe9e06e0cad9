// What the HTTP server may be told. Plain data: where the values come from is the caller's
// business.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::server {

struct ServerOptions {
  std::string host = "127.0.0.1";  // address or name to listen on
  uint16_t port = 8080;            // 0 = any free port; Server::port() tells which
  int threads = 2;                 // socket threads; as many more read and render requests

  size_t max_body_bytes = 64u << 20;
  size_t max_header_bytes = 64u << 10;
  int max_connections = 256;            // one more is answered 503 and closed
  size_t max_stream_buffer = 1u << 20;  // bytes a slow reader may leave unread; beyond it the
                                        // request is cancelled and the connection closed

  std::chrono::milliseconds header_timeout{30'000};  // from the first byte to the end of the head
  std::chrono::milliseconds body_timeout{30'000};    // plus one second per 256 KiB announced
  std::chrono::milliseconds idle_timeout{75'000};    // between requests of one connection
  std::chrono::milliseconds write_timeout{60'000};   // without a byte taken by the client
  std::chrono::milliseconds keepalive_interval{10'000};  // silence before a comment in a stream
  std::chrono::milliseconds silence_timeout{600'000};  // without a token or a step of the prompt
                                                       // before a request is given up; 0 = never
  std::chrono::milliseconds cancel_grace{10'000};  // for the engine to end what was given up, before
                                                   // it counts as stuck
  std::chrono::milliseconds stop_grace{5'000};  // how long stop() waits for requests to end

  size_t max_stored_responses = 1024;      // answers of /v1/responses kept for later requests
  size_t max_stored_bytes = 64u << 20;     // and their size as JSON

  // PEM files. Both or neither; with them the server speaks HTTPS only.
  std::string tls_certificate_file;
  std::string tls_key_file;

  // Keys accepted as "Authorization: Bearer KEY" or "x-api-key: KEY"; empty = open to whoever reaches the port.
  // GET /health and the chat page's own files never need one.
  std::vector<std::string> api_keys;
  // Origins (scheme://host[:port]) whose pages may use the API, "*" for all. Empty = only the
  // server's own page.
  std::vector<std::string> allowed_origins;
  // Host header names accepted besides localhost, 127.0.0.1, [::1] and `host` when listening on a
  // loopback address.
  std::vector<std::string> allowed_hosts;
};

}  // namespace strata::server
