#include "server/transport.h"

#include <boost/asio/buffer.hpp>

#include "server/tls_transport.h"

namespace strata::server {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(tcp::socket socket) : socket_(std::move(socket)) {
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
  }

  asio::any_io_executor executor() override { return socket_.get_executor(); }
  void handshake(std::function<void(ErrorCode)> done) override { done({}); }
  void read_some(char* data, size_t size, Done done) override {
    socket_.async_read_some(asio::buffer(data, size), std::move(done));
  }
  void write_some(const char* data, size_t size, Done done) override {
    socket_.async_write_some(asio::buffer(data, size), std::move(done));
  }
  void shutdown_send() override {
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
  }

 private:
  tcp::socket socket_;
};

class PlainFactory final : public TransportFactory {
 public:
  std::unique_ptr<Transport> make(tcp::socket socket) const override {
    return std::make_unique<PlainTransport>(std::move(socket));
  }
};

}  // namespace

Result<std::unique_ptr<TransportFactory>> make_transports(const ServerOptions& options) {
  if (options.tls_certificate_file.empty() && options.tls_key_file.empty()) {
    return std::unique_ptr<TransportFactory>(std::make_unique<PlainFactory>());
  }
  if (options.tls_certificate_file.empty() || options.tls_key_file.empty()) {
    return invalid_argument("TLS needs both a certificate file and a key file; {} is missing.",
                            options.tls_key_file.empty() ? "the key" : "the certificate");
  }
  return make_tls_transports(options);
}

}  // namespace strata::server
