#include "server/tls_transport.h"

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

namespace strata::server {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using tcp = asio::ip::tcp;

class TlsTransport final : public Transport {
 public:
  TlsTransport(tcp::socket socket, ssl::context& context)
      : stream_(std::make_shared<ssl::stream<tcp::socket>>(std::move(socket), context)) {
    ErrorCode ignored;
    stream_->next_layer().set_option(tcp::no_delay(true), ignored);
  }

  asio::any_io_executor executor() override { return stream_->get_executor(); }
  void handshake(std::function<void(ErrorCode)> done) override {
    stream_->async_handshake(ssl::stream_base::server, std::move(done));
  }
  void read_some(char* data, size_t size, Done done) override {
    stream_->async_read_some(asio::buffer(data, size), std::move(done));
  }
  void write_some(const char* data, size_t size, Done done) override {
    stream_->async_write_some(asio::buffer(data, size), std::move(done));
  }
  // Sends close_notify. The stream lives on until that has gone out or the socket is closed.
  void shutdown_send() override {
    stream_->async_shutdown([stream = stream_](ErrorCode) {
      ErrorCode ignored;
      stream->next_layer().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }
  void close() override {
    ErrorCode ignored;
    stream_->next_layer().shutdown(tcp::socket::shutdown_both, ignored);
    stream_->next_layer().close(ignored);
  }

 private:
  std::shared_ptr<ssl::stream<tcp::socket>> stream_;
};

class TlsFactory final : public TransportFactory {
 public:
  explicit TlsFactory(std::shared_ptr<ssl::context> context) : context_(std::move(context)) {}
  std::unique_ptr<Transport> make(tcp::socket socket) const override {
    return std::make_unique<TlsTransport>(std::move(socket), *context_);
  }

 private:
  std::shared_ptr<ssl::context> context_;
};

}  // namespace

Result<std::unique_ptr<TransportFactory>> make_tls_transports(const ServerOptions& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                           ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1 | ssl::context::single_dh_use,
                       error);
  if (!error) context->use_certificate_chain_file(options.tls_certificate_file, error);
  if (error) {
    return invalid_argument(
        "The certificate file {} cannot be used: {}. It must hold a certificate in PEM form, "
        "followed by those of the authorities between it and the root.",
        options.tls_certificate_file, error.message());
  }
  // A key that asks for a pass phrase would stop the start.
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return ""; }, error);
  if (!error) context->use_private_key_file(options.tls_key_file, ssl::context::pem, error);
  if (error) {
    return invalid_argument(
        "The key file {} cannot be used: {}. It must hold the private key of the certificate in "
        "PEM form, without a pass phrase.",
        options.tls_key_file, error.message());
  }
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return invalid_argument("The key in {} does not belong to the certificate in {}.",
                            options.tls_key_file, options.tls_certificate_file);
  }
  return std::unique_ptr<TransportFactory>(std::make_unique<TlsFactory>(std::move(context)));
}

}  // namespace strata::server
