#include "server/access_guard.h"

#include <algorithm>

#include "server/errors.h"

namespace strata::server {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// "Name:8080" -> "name", "[::1]:80" -> "::1". A trailing dot of a full domain name is dropped.
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? std::string() : lower(host.substr(1, end - 1));
  }
  // More than one colon without brackets is a bare IPv6 address.
  const size_t colon = host.find(':');
  if (colon != std::string_view::npos && host.find(':', colon + 1) == std::string_view::npos) {
    host = host.substr(0, colon);
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower(host);
}

// Names of headers with commas, as a browser sends them.
bool header_list(std::string_view text) {
  constexpr size_t kMaxList = 2048;
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  };
  return !text.empty() && text.size() <= kMaxList && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

AccessGuard::AccessGuard(const ServerOptions& options, bool bound_to_loopback)
    : check_host_(bound_to_loopback), keys_(options.api_keys) {
  hosts_ = {"localhost", "127.0.0.1", "::1", host_name(options.host)};
  for (const std::string& host : options.allowed_hosts) hosts_.push_back(host_name(host));
  for (const std::string& origin : options.allowed_origins) origins_.push_back(lower(origin));
}

bool AccessGuard::host_allowed(std::string_view host) const {
  return std::find(hosts_.begin(), hosts_.end(), host_name(host)) != hosts_.end();
}

bool AccessGuard::origin_listed(std::string_view origin) const {
  const std::string wanted = lower(origin);
  return std::any_of(origins_.begin(), origins_.end(),
                     [&](const std::string& one) { return one == "*" || one == wanted; });
}

bool AccessGuard::key_allowed(const Request& request) const {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view bearer = request.header("authorization");
  if (bearer.size() > kScheme.size() && lower(bearer.substr(0, kScheme.size())) == kScheme) {
    bearer.remove_prefix(kScheme.size());
  } else {
    bearer = {};
  }
  const std::string_view plain = request.header("x-api-key");
  bool found = false;
  for (const std::string& key : keys_) {
    found |= equal_in_constant_time(bearer, key);
    found |= equal_in_constant_time(plain, key);
  }
  return found;
}

std::optional<Response> AccessGuard::check(const Request& request, bool open_path) const {
  const std::string_view host = request.header("host");
  if (check_host_ && !(host.empty() && request.http_1_0) && !host_allowed(host)) {
    return http_error(403,
                      "This server listens on this machine only and does not answer to the name in "
                      "the Host header; use localhost, or allow the name in the server's options.",
                      "host_not_allowed");
  }
  const std::string_view origin = request.header("origin");
  const bool safe =
      request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
  if (!safe && !origin.empty() && !origin_listed(origin)) {
    const size_t scheme = origin.find("://");
    const bool own_page = scheme != std::string_view::npos && !host.empty() &&
                          lower(origin.substr(scheme + 3)) == lower(host);
    if (!own_page) {
      return http_error(
          403,
          "Requests from web pages of other origins are not allowed; add the origin to "
          "the server's allowed origins.",
          "origin_not_allowed");
    }
  }
  if (!keys_.empty() && !open_path && request.method != "OPTIONS" &&
      !key_allowed(request)) {
    Response response =
        http_error(401, "A valid API key is required: send it as \"Authorization: Bearer KEY\" or "
                        "\"x-api-key: KEY\".",
                   "invalid_api_key");
    response.set("WWW-Authenticate", "Bearer");
    return response;
  }
  return std::nullopt;
}

void AccessGuard::add_cors(const Request& request, Response& response) const {
  if (origins_.empty()) return;
  response.set("Vary", "Origin");
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !origin_listed(origin)) return;
  response.set("Access-Control-Allow-Origin", std::string(origin));
  response.set("Access-Control-Expose-Headers", "X-Request-Id");
  if (request.method == "OPTIONS") {
    response.set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    // SDKs add headers of their own, more with every version; none of them does anything here.
    const std::string_view wanted = request.header("access-control-request-headers");
    response.set("Access-Control-Allow-Headers", header_list(wanted)
                                                     ? std::string(wanted)
                                                     : "Authorization, Content-Type");
    response.set("Access-Control-Max-Age", "600");
  }
}

}  // namespace strata::server
