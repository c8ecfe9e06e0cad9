#include "server/sse.h"

namespace strata::server {

std::string sse_event(const Json& data) { return "data: " + to_text(data) + "\n\n"; }

std::string sse_event(std::string_view name, const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, to_text(data));
}

std::string sse_comment(std::string_view text) { return fmt::format(": {}\n\n", text); }

}  // namespace strata::server
