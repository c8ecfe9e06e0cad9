// TLS through OpenSSL.
#pragma once

#include "server/transport.h"

namespace strata::server {

// As make_transports(); both files are named.
Result<std::unique_ptr<TransportFactory>> make_tls_transports(const ServerOptions& options);

}  // namespace strata::server
