#include "server/server.h"

#include <algorithm>
#include <thread>
#include <vector>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include "base/log.h"
#include "server/connection.h"
#include "server/core.h"
#include "server/transport.h"

namespace strata::server {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr int kMaxThreads = 256;
constexpr size_t kCrowd = 64;  // connections beyond the limit that still get an answer
constexpr std::chrono::milliseconds kAcceptRetry{100};

Status check_options(const ServerOptions& o) {
  if (o.threads < 1 || o.threads > kMaxThreads) {
    return invalid_argument("The server needs 1 to {} threads, not {}.", kMaxThreads, o.threads);
  }
  if (o.max_connections < 1) {
    return invalid_argument("The server needs room for at least 1 connection, not {}.",
                            o.max_connections);
  }
  if (o.max_header_bytes < 1024 || o.max_header_bytes > (16u << 20)) {
    return invalid_argument("The limit for request heads must be 1 KiB to 16 MiB, not {} bytes.",
                            o.max_header_bytes);
  }
  if (o.max_body_bytes < 1024) {
    return invalid_argument("The limit for request bodies must be at least 1 KiB, not {} bytes.",
                            o.max_body_bytes);
  }
  if (o.silence_timeout.count() < 0) {
    return invalid_argument("The limit for the engine's silence may not be negative.");
  }
  for (const auto limit : {o.header_timeout, o.body_timeout, o.idle_timeout, o.write_timeout,
                           o.keepalive_interval, o.cancel_grace}) {
    if (limit.count() <= 0) return invalid_argument("Time limits of the server must be positive.");
  }
  for (const std::string& key : o.api_keys) {
    if (key.empty()) return invalid_argument("An API key may not be empty.");
  }
  return {};
}

Result<tcp::endpoint> find_endpoint(asio::io_context& io, const ServerOptions& options) {
  error_code error;
  std::string host = options.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, options.port);
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return invalid_argument(
        "The host \"{}\" cannot be listened on: {}. Use an address of this "
        "machine, such as 127.0.0.1 or 0.0.0.0.",
        options.host, error.message());
  }
  return found.begin()->endpoint();
}

Status listen_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint,
                 const ServerOptions& options) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return {};
  if (error == asio::error::address_in_use) {
    return unavailable(
        "Port {} on {} is already in use; stop the program that holds it or choose "
        "another port (0 takes any free one).",
        options.port, options.host);
  }
  if (error.value() == EADDRNOTAVAIL) {
    return invalid_argument(
        "The host \"{}\" is not an address of this machine; use 127.0.0.1 for "
        "this machine only or 0.0.0.0 for every network.",
        options.host);
  }
  return unavailable("The server cannot listen on {} port {}: {}.", options.host, options.port,
                     error.message());
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, engine::Engine& engine, bool loopback,
       std::unique_ptr<TransportFactory> transports)
      : transports_(std::move(transports)),
        core_(options, engine, Router(AccessGuard(options, loopback))),
        acceptor_(asio::make_strand(core_.io)),
        retry_(acceptor_.get_executor()),
        silence_(acceptor_.get_executor()),
        work_(asio::make_work_guard(core_.io)) {}

  ~Impl() { stop(); }

  Status listen(const tcp::endpoint& endpoint) {
    STRATA_RETURN_IF_ERROR(listen_on(acceptor_, endpoint, core_.options));
    error_code error;
    port_ = acceptor_.local_endpoint(error).port();
    return {};
  }

  Status run() {
    try {
      for (int i = 0; i < core_.options.threads; ++i) {
        threads_.emplace_back([this] { serve(); });
      }
    } catch (const std::system_error& error) {
      return unavailable("The server cannot start its threads: {}.", error.what());
    }
    asio::post(acceptor_.get_executor(), [this] {
      accept();
      if (core_.options.silence_timeout.count() > 0) watch_engine();
    });
    return {};
  }

  uint16_t port() const { return port_; }

  void stop() {
    const std::lock_guard lock(stop_mutex_);
    if (stopped_) return;
    stopped_ = true;
    if (!threads_.empty()) {
      asio::post(acceptor_.get_executor(), [this] {
        error_code ignored;
        acceptor_.close(ignored);
        retry_.cancel();
        silence_.cancel();
      });
      for (const auto& connection : core_.close_registry()) connection->stop();
      if (!core_.wait_until_empty(core_.options.stop_grace)) {
        log::warn("some requests did not end in time; their connections are cut");
      }
    }
    work_.reset();
    core_.io.stop();
    core_.workers.stop();
    for (std::thread& thread : threads_) thread.join();
    core_.workers.join();
    for (const auto& connection : core_.connections()) connection->abandon();
    error_code ignored;
    acceptor_.close(ignored);
  }

 private:
  // Runs handlers until stop(). An exception (out of memory) ends one handler, not the server.
  void serve() {
    for (;;) {
      try {
        core_.io.run();
        return;
      } catch (const std::exception& error) {
        log::error("server: {}", error.what());
      }
    }
  }

  void accept() {
    acceptor_.async_accept(asio::make_strand(core_.io),
                           [this](error_code error, tcp::socket socket) {
                             if (!acceptor_.is_open()) return;
                             if (error) {
                               if (error == asio::error::connection_aborted) return accept();
                               // Out of descriptors or memory: more of either may come back.
                               log::warn("server: cannot accept a connection: {}", error.message());
                               retry_.expires_after(kAcceptRetry);
                               retry_.async_wait([this](error_code cancelled) {
                                 if (!cancelled && acceptor_.is_open()) accept();
                               });
                               return;
                             }
                             welcome(std::move(socket));
                             accept();
                           });
  }

  void watch_engine() {
    using std::chrono::milliseconds;
    silence_.expires_after(
        std::clamp(core_.options.silence_timeout / 20, milliseconds(10), milliseconds(1'000)));
    silence_.async_wait([this](error_code cancelled) {
      if (cancelled || !acceptor_.is_open()) return;
      EngineWatch& watch = core_.state.watch;
      if (core_.engine.state().stage == engine::EngineStage::kLoading) watch.sign_of_life();
      watch.check();
      watch_engine();
    });
  }

  void welcome(tcp::socket socket) {
    const auto limit = static_cast<size_t>(core_.options.max_connections);
    const size_t open = core_.count();
    if (open >= limit + kCrowd) return;
    auto connection =
        std::make_shared<Connection>(transports_->make(std::move(socket)), core_, open >= limit);
    if (core_.add(connection)) connection->start();
  }

  const std::unique_ptr<TransportFactory> transports_;
  Core core_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  asio::steady_timer silence_;  // of the engine
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options,
                                              engine::Engine& engine) {
  STRATA_RETURN_IF_ERROR(check_options(options));
  try {
    asio::io_context resolving;
    STRATA_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, find_endpoint(resolving, options));
    STRATA_ASSIGN_OR_RETURN(auto transports, make_transports(options));
    auto impl = std::make_unique<Impl>(options, engine, endpoint.address().is_loopback(),
                                       std::move(transports));
    STRATA_RETURN_IF_ERROR(impl->listen(endpoint));
    if (!endpoint.address().is_loopback() && options.api_keys.empty()) {
      log::warn("{} can be reached from other machines, and no API key is asked for: whoever reaches "
                "it may use the model; set --api-key or --api-key-file",
                options.host);
    }
    STRATA_RETURN_IF_ERROR(impl->run());
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const std::exception& error) {
    return unavailable("The server cannot start: {}.", error.what());
  }
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

uint16_t Server::port() const { return impl_->port(); }
void Server::stop() { impl_->stop(); }

}  // namespace strata::server
