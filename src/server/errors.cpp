#include "server/errors.h"

#include <array>

namespace strata::server {
namespace {

constexpr const char* kClient = "invalid_request_error";
constexpr const char* kServer = "server_error";

// Seconds. Clients ask again two or three times; sooner there is hardly a place.
constexpr const char* kRetryAfter = "5";

constexpr std::array<ErrorRow, 9> kTable{{
    {StatusCode::kInvalidArgument, 400, kClient, nullptr},
    {StatusCode::kOutOfRange, 400, kClient, nullptr},
    {StatusCode::kNotFound, 404, kClient, "not_found"},
    {StatusCode::kResourceExhausted, 503, kServer, kOverloaded},
    {StatusCode::kFailedPrecondition, 500, kServer, nullptr},
    {StatusCode::kUnimplemented, 501, kServer, "not_implemented"},
    {StatusCode::kUnavailable, 503, kServer, "unavailable"},
    {StatusCode::kCancelled, 503, kServer, "cancelled"},
    {StatusCode::kInternal, 500, kServer, "internal"},
}};

ErrorDetail detail_of(const Status& status, const char* code) {
  const ErrorRow& row = error_row(status.code());
  const char* word = code != nullptr ? code : row.code;
  return {status.message(), row.type, status.field(), word != nullptr ? word : ""};
}

Json openai_error(const ErrorDetail& detail) {
  Json error = Json::object();
  error["message"] = detail.message;
  error["type"] = detail.type;
  error["param"] = detail.param.empty() ? Json(nullptr) : Json(detail.param);
  error["code"] = detail.code.empty() ? Json(nullptr) : Json(detail.code);
  return Json{{"error", std::move(error)}};
}

Response refusal(int http_status, ErrorDetail detail) {
  Response response = json_response(http_status, openai_error(detail));
  response.error = std::move(detail);
  return response;
}

}  // namespace

std::span<const ErrorRow> error_table() { return kTable; }

const ErrorRow& error_row(StatusCode code) {
  for (const ErrorRow& row : kTable) {
    if (row.status == code) return row;
  }
  return kTable.back();
}

Json error_object(const Status& status, const char* code) {
  return openai_error(detail_of(status, code));
}

Response error_response(const Status& status, const char* code) {
  Response response = refusal(error_row(status.code()).http_status, detail_of(status, code));
  if (status.code() == StatusCode::kResourceExhausted) response.set("Retry-After", kRetryAfter);
  return response;
}

Status fault_of_ours(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented: return Status(StatusCode::kInternal, status.message());
    default: return status;
  }
}

Response http_error(int http_status, std::string message, const char* code) {
  const char* type = http_status >= 500   ? kServer
                     : http_status == 401 ? "authentication_error"
                     : http_status == 403 ? "permission_error"
                                          : kClient;
  return refusal(http_status, {std::move(message), type, {}, code != nullptr ? code : ""});
}

}  // namespace strata::server
