// The HTTP server: OpenAI-style and llama-server-style endpoints and the chat page over an Engine.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "engine/engine.h"
#include "server/server_options.h"

namespace strata::server {

class Server {
 public:
  // Listens at once, also while the engine is still loading (GET /health tells). `engine` must
  // outlive the server. Fails with kUnavailable when the port is taken or may not be used, and with
  // kInvalidArgument when the host is not an address of this machine or an option is out of range.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options,
                                               engine::Engine& engine);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;

  // Stops accepting, cancels running requests, lets their last bytes out (at most
  // ServerOptions::stop_grace) and joins the threads. Thread-safe, may be called twice. Must not be
  // called from an event sink.
  void stop();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::server
