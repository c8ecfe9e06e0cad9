// Who may talk to the server: Host names, browser origins and API keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"
#include "server/server_options.h"

namespace strata::server {

class AccessGuard {
 public:
  // `bound_to_loopback`: the listening address is a loopback address.
  AccessGuard(const ServerOptions& options, bool bound_to_loopback);

  // The answer that refuses the request, or nothing when it may go on. Looks at the head only.
  //  - Listening on loopback, the Host header must name this machine: a web page whose own name was
  //    re-pointed at 127.0.0.1 (DNS rebinding) is refused with 403.
  //  - A method that can change or cost something must come from no web page, from the server's own
  //    page or from an allowed origin: otherwise 403.
  //  - With API keys set, everything but `open_path` needs one: otherwise 401.
  std::optional<Response> check(const Request& request, bool open_path) const;

  // CORS headers for a request from an allowed origin; none for anybody else.
  void add_cors(const Request& request, Response& response) const;

 private:
  bool host_allowed(std::string_view host) const;
  bool origin_listed(std::string_view origin) const;
  bool key_allowed(const Request& request) const;

  bool check_host_;
  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
  std::vector<std::string> keys_;
};

// Time depends on the lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace strata::server
