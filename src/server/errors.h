// How a Status becomes an HTTP answer: one table, and the OpenAI error object.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "server/http_message.h"
#include "server/json_input.h"

namespace strata::server {

struct ErrorRow {
  StatusCode status;
  int http_status;
  const char* type;  // "type" of the error object
  const char* code;  // "code" of the error object, nullptr for null
};

// The code for a full queue or want of memory. Such an answer has a Retry-After header.
inline constexpr const char* kOverloaded = "overloaded";

// One row per StatusCode except kOk.
std::span<const ErrorRow> error_table();
const ErrorRow& error_row(StatusCode code);

// {"error": {"message", "type", "param", "code"}}; `code` nullptr takes the table's.
Json error_object(const Status& status, const char* code = nullptr);
// The answer for a request that was refused. `code` as above.
Response error_response(const Status& status, const char* code = nullptr);

// A failure after the engine accepted the request. The engine has checked the input by then, so
// whatever fails later is not the client's fault: codes that blame the caller become kInternal.
Status fault_of_ours(const Status& status);

// HTTP-level failures that no StatusCode stands for (401, 403, 405, 408, 413, 431, ...).
Response http_error(int http_status, std::string message, const char* code = nullptr);

}  // namespace strata::server
