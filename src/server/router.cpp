#include "server/router.h"

#include <algorithm>
#include <array>

#include "server/anthropic_response.h"
#include "server/errors.h"

namespace strata::server {
namespace {

struct Route {
  std::string_view method;  // GET stands for HEAD too
  std::string_view path;    // ends with '/': everything below it; '*' is one segment
  Handler handler;
  bool open = false;  // needs no API key
};

constexpr std::string_view kMessages = "/v1/messages";

constexpr std::array kRoutes{
    Route{"POST", "/v1/chat/completions", handle_chat_completions},
    Route{"POST", "/chat/completions", handle_chat_completions},
    Route{"POST", "/v1/completions", handle_completions},
    Route{"POST", "/v1/responses", handle_responses},
    Route{"POST", "/responses", handle_responses},
    Route{"POST", "/v1/responses/input_tokens", handle_response_tokens},
    Route{"GET", "/v1/responses/*", handle_stored_response},
    Route{"DELETE", "/v1/responses/*", handle_delete_response},
    Route{"GET", "/v1/responses/*/input_items", handle_response_items},
    Route{"POST", "/v1/responses/*/cancel", handle_cancel_response},
    Route{"POST", kMessages, handle_messages},
    Route{"POST", "/v1/messages/count_tokens", handle_count_tokens},
    Route{"POST", "/v1/embeddings", handle_embeddings},
    Route{"POST", "/embeddings", handle_embeddings},
    Route{"POST", "/embedding", handle_embeddings},
    Route{"POST", "/completions", handle_llama_completion},
    Route{"POST", "/completion", handle_llama_completion},
    Route{"POST", "/tokenize", handle_tokenize},
    Route{"POST", "/detokenize", handle_detokenize},
    Route{"POST", "/apply-template", handle_apply_template},
    Route{"GET", "/v1/models", handle_models},
    Route{"GET", "/models", handle_models},
    Route{"GET", "/v1/models/", handle_model},
    Route{"GET", "/props", handle_props},
    Route{"GET", "/slots", handle_slots},
    Route{"GET", "/metrics", handle_metrics},
    Route{"GET", "/v1/status", handle_status},
    Route{"GET", "/health", handle_health, true},
    Route{"GET", "/v1/health", handle_health, true},
    Route{"GET", "/", handle_page, true},
    Route{"GET", "/index.html", handle_page, true},
    Route{"GET", "/app.js", handle_page, true},
    Route{"GET", "/style.css", handle_page, true},
    Route{"GET", "/icon.svg", handle_page, true},
};

bool matches(const Route& route, std::string_view path) {
  if (const size_t star = route.path.find('*'); star != std::string_view::npos) {
    const std::string_view end = route.path.substr(star + 1);
    if (path.size() <= star + end.size() || path.substr(0, star) != route.path.substr(0, star) ||
        !path.ends_with(end)) {
      return false;
    }
    const std::string_view segment = path.substr(star, path.size() - star - end.size());
    return segment.find('/') == std::string_view::npos;
  }
  const bool tree = route.path.size() > 1 && route.path.ends_with('/');
  return tree ? path.size() > route.path.size() && path.starts_with(route.path)
              : path == route.path;
}

// The routes of a path, and the one of them that takes the method.
struct Found {
  bool any = false;
  const Route* route = nullptr;
  std::string allow;
};

Found find_route(std::string_view path, std::string_view method) {
  Found found;
  for (const Route& route : kRoutes) {
    if (!matches(route, path)) continue;
    found.any = true;
    found.allow += found.allow.empty() ? "" : ", ";
    found.allow += route.method == "GET" ? "GET, HEAD" : route.method;
    if (route.method == method || (route.method == "GET" && method == "HEAD")) found.route = &route;
  }
  found.allow += ", OPTIONS";
  return found;
}

}  // namespace

std::variant<Handler, Response> Router::route(const Request& head) const {
  const Found found = find_route(head.path, head.method);
  // Details about the server are not for everybody who may ask whether it lives.
  const bool open =
      found.route != nullptr && found.route->open && !head.parameter("verbose").has_value();
  if (auto refused = guard_.check(head, open)) return *std::move(refused);
  if (head.method == "OPTIONS" && (found.any || head.path == "*")) {
    Response response;
    response.status = 204;
    if (found.any) response.set("Allow", found.allow);
    return response;
  }
  if (!found.any) {
    return http_error(
        404,
        fmt::format("There is nothing at {} {}.", valid_utf8(head.method.substr(0, 16)),
                    valid_utf8(head.path.substr(0, 128))),
        "not_found");
  }
  if (found.route == nullptr) {
    Response response = http_error(
        405,
        fmt::format("{} does not take {}; use {}.", valid_utf8(head.path.substr(0, 128)),
                    valid_utf8(head.method.substr(0, 16)), found.allow),
        "method_not_allowed");
    response.set("Allow", found.allow);
    return response;
  }
  return found.route->handler;
}

void Router::finish(const Request& head, std::string_view request_id, Response& response) const {
  if (head.path.starts_with(kMessages)) {
    if (response.error) {
      response.status = messages_status(response.status, response.error->code);
      response.body = to_text(messages_error(response.status, response.error->message,
                                             std::string(request_id)));
    }
    response.set("request-id", std::string(request_id));
  }
  guard_.add_cors(head, response);
}

}  // namespace strata::server
