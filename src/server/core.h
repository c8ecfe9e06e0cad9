// What the connections of one server share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include "engine/engine.h"
#include "server/router.h"
#include "server/server_options.h"

namespace strata::server {

class Connection;

// Thread-safe. Outlives its connections.
class Core {
 public:
  Core(const ServerOptions& options, engine::Engine& engine, Router router);

  const ServerOptions options;
  engine::Engine& engine;
  const Router router;
  ServerState state;

  // "req-" and 16 hex digits, unique within the process.
  std::string new_request_id();

  // Registers a connection; false when the server is stopping.
  bool add(const std::shared_ptr<Connection>& connection);
  size_t count();  // connections open
  void remove(const Connection* connection);

  // No connection can be added from now on; returns those that are open.
  std::vector<std::shared_ptr<Connection>> close_registry();
  std::vector<std::shared_ptr<Connection>> connections();
  // False when connections are left after `limit`.
  bool wait_until_empty(std::chrono::milliseconds limit);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> open_;
  bool stopping_ = false;
  std::mt19937_64 random_;

 public:
  // Destroyed first, `workers` before `io`: queued work holds connections, which hold sockets of
  // `io` and leave the registry above when they die.
  boost::asio::io_context io;        // sockets
  boost::asio::thread_pool workers;  // reading bodies and rendering prompts
};

}  // namespace strata::server
