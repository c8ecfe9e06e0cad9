#include "server/sse.h"

namespace strata::server {

std::string sse_event(const Json& data) { return "data: " + to_text(data) + "\n\n"; }

std::string sse_comment(std::string_view text) { return fmt::format(": {}\n\n", text); }

}  // namespace strata::server
