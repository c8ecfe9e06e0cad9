#include "server/router.h"

#include <array>

#include "server/errors.h"

namespace strata::server {
namespace {

struct Route {
  std::string_view method;  // GET stands for HEAD too
  std::string_view path;    // ends with '/': everything below it
  Handler handler;
  bool open = false;  // needs no API key
};

constexpr std::array<Route, 15> kRoutes{{
    {"POST", "/v1/chat/completions", handle_chat_completions},
    {"POST", "/chat/completions", handle_chat_completions},
    {"POST", "/v1/completions", handle_completions},
    {"POST", "/completions", handle_llama_completion},
    {"POST", "/completion", handle_llama_completion},
    {"POST", "/tokenize", handle_tokenize},
    {"POST", "/detokenize", handle_detokenize},
    {"POST", "/apply-template", handle_apply_template},
    {"GET", "/v1/models", handle_models},
    {"GET", "/v1/models/", handle_model},
    {"GET", "/health", handle_health, true},
    {"GET", "/", handle_page, true},
    {"GET", "/index.html", handle_page, true},
    {"GET", "/app.js", handle_page, true},
    {"GET", "/style.css", handle_page, true},
}};

bool matches(const Route& route, std::string_view path) {
  if (path == route.path) return route.path != "/v1/models/";
  return route.path.size() > 1 && route.path.ends_with('/') && path.starts_with(route.path);
}

const Route* find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (matches(route, path)) return &route;
  }
  return nullptr;
}

}  // namespace

std::variant<Handler, Response> Router::route(const Request& head) const {
  const Route* route = find_route(head.path);
  if (auto refused = guard_.check(head, route != nullptr && route->open))
    return *std::move(refused);
  if (head.method == "OPTIONS" && head.path == "*") {
    Response response;
    response.status = 204;
    return response;
  }
  if (route == nullptr) {
    return http_error(
        404,
        fmt::format("There is nothing at {} {}.", valid_utf8(head.method.substr(0, 16)),
                    valid_utf8(head.path.substr(0, 128))),
        "not_found");
  }
  const std::string allow = route->method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  if (head.method == "OPTIONS") {
    Response response;
    response.status = 204;
    response.set("Allow", allow);
    return response;
  }
  const bool head_of_get = head.method == "HEAD" && route->method == "GET";
  if (head.method != route->method && !head_of_get) {
    Response response =
        http_error(405,
                   fmt::format("{} does not take {}; use {}.", valid_utf8(head.path.substr(0, 128)),
                               valid_utf8(head.method.substr(0, 16)), route->method),
                   "method_not_allowed");
    response.set("Allow", allow);
    return response;
  }
  return route->handler;
}

void Router::finish(const Request& head, Response& response) const {
  guard_.add_cors(head, response);
}

}  // namespace strata::server
