// The byte stream to one client: plain TCP or TLS.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/status.h"
#include "server/server_options.h"

namespace strata::server {

// Every call comes from the executor, and so do the completions. At most one read and one write are
// under way at a time; either may be together with the other. Memory given to them must live until
// their completion.
class Transport {
 public:
  using ErrorCode = boost::system::error_code;
  using Done = std::function<void(ErrorCode, size_t)>;

  virtual ~Transport() = default;
  virtual boost::asio::any_io_executor executor() = 0;
  // First of all. `done` may be called before this returns.
  virtual void handshake(std::function<void(ErrorCode)> done) = 0;
  virtual void read_some(char* data, size_t size, Done done) = 0;
  virtual void write_some(const char* data, size_t size, Done done) = 0;
  // No byte is written after this; the client learns that the answer is complete.
  virtual void shutdown_send() = 0;
  // Ends what is under way with an error.
  virtual void close() = 0;
};

// Makes the transports of accepted sockets. Thread-safe once made.
class TransportFactory {
 public:
  virtual ~TransportFactory() = default;
  virtual std::unique_ptr<Transport> make(boost::asio::ip::tcp::socket socket) const = 0;
};

// TLS when the options name a certificate, else plain. Fails, naming the file, when a certificate
// or key cannot be read or they do not belong together.
Result<std::unique_ptr<TransportFactory>> make_transports(const ServerOptions& options);

}  // namespace strata::server
