// Server-sent events.
#pragma once

#include <string>
#include <string_view>

#include "server/json_input.h"

namespace strata::server {

// "data: {json}\n\n"
std::string sse_event(const Json& data);
// "event: name\ndata: {json}\n\n"
std::string sse_event(std::string_view name, const Json& data);
// A comment line, which clients skip; keeps the connection from looking dead.
std::string sse_comment(std::string_view text);

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace strata::server
