// Which handler answers which method and path.
#pragma once

#include <string>
#include <variant>

#include "server/access_guard.h"
#include "server/handlers.h"
#include "server/http_message.h"

namespace strata::server {

using Handler = Outcome (*)(const HandlerContext&, const Request&);

class Router {
 public:
  explicit Router(AccessGuard guard) : guard_(std::move(guard)) {}

  // Decides on the head alone, before any body is read: the handler, or a ready answer (403, 401,
  // 404, 405, OPTIONS).
  std::variant<Handler, Response> route(const Request& head) const;

  // Brings a ready answer into its last form: errors in the shape of the API that was asked, and the
  // headers that every answer to this request carries.
  void finish(const Request& head, std::string_view request_id, Response& response) const;

 private:
  AccessGuard guard_;
};

}  // namespace strata::server
