#include "server/errors.h"

#include <array>

namespace strata::server {
namespace {

constexpr const char* kClient = "invalid_request_error";
constexpr const char* kServer = "server_error";

constexpr std::array<ErrorRow, 9> kTable{{
    {StatusCode::kInvalidArgument, 400, kClient, nullptr},
    {StatusCode::kOutOfRange, 400, kClient, nullptr},
    {StatusCode::kNotFound, 404, kClient, "not_found"},
    {StatusCode::kResourceExhausted, 503, kServer, "overloaded"},
    {StatusCode::kFailedPrecondition, 500, kServer, nullptr},
    {StatusCode::kUnimplemented, 501, kServer, "not_implemented"},
    {StatusCode::kUnavailable, 503, kServer, "unavailable"},
    {StatusCode::kCancelled, 503, kServer, "cancelled"},
    {StatusCode::kInternal, 500, kServer, "internal"},
}};

Json object(const std::string& message, const char* type, const std::string& param,
            const char* code) {
  Json error = Json::object();
  error["message"] = message;
  error["type"] = type;
  error["param"] = param.empty() ? Json(nullptr) : Json(param);
  error["code"] = code == nullptr ? Json(nullptr) : Json(code);
  return Json{{"error", std::move(error)}};
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
  const ErrorRow& row = error_row(status.code());
  return object(status.message(), row.type, status.field(), code != nullptr ? code : row.code);
}

Response error_response(const Status& status, const char* code) {
  Response response =
      json_response(error_row(status.code()).http_status, error_object(status, code));
  if (status.code() == StatusCode::kResourceExhausted) response.set("Retry-After", "1");
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
  return json_response(http_status, object(message, type, {}, code));
}

}  // namespace strata::server
