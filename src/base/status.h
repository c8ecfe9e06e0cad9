// Status and Result<T>: how every layer below apps/ reports failure. No exceptions cross our own
// interfaces; third-party throwers are caught at the edge. A message is a sentence: what failed,
// where, and what to do next.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace strata {

// Who is at fault decides the code; server/ maps it to an HTTP status in one table.
enum class StatusCode {
  kOk,
  kInvalidArgument,     // the caller's input is malformed or of the wrong type
  kOutOfRange,          // well-formed input beyond a limit (a prompt over the context)
  kNotFound,            // a file, model or endpoint that does not exist
  kResourceExhausted,   // queue full, memory gone: try again later
  kFailedPrecondition,  // a file or configuration that this build cannot use
  kUnimplemented,       // a feature this build does not have
  kUnavailable,         // a device or the engine failed; not the caller's fault
  kCancelled,           // the caller asked to stop
  kInternal,            // a broken invariant of ours
};

// Stable lower-case name, e.g. "invalid_argument".
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  // `field` names the request field or option at fault; empty when there is none.
  Status(StatusCode code, std::string message, std::string field = {})
      : code_(code), message_(std::move(message)), field_(std::move(field)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& field() const { return field_; }

  // The same failure with "context: " in front of the message.
  Status with_context(std::string_view context) const {
    return ok() ? *this : Status(code_, fmt::format("{}: {}", context, message_), field_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string field_;
};

template <class... Args>
Status invalid_argument(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(f, std::forward<Args>(args)...)};
}
template <class... Args>
Status out_of_range(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kOutOfRange, fmt::format(f, std::forward<Args>(args)...)};
}
template <class... Args>
Status not_found(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kNotFound, fmt::format(f, std::forward<Args>(args)...)};
}
template <class... Args>
Status failed_precondition(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kFailedPrecondition, fmt::format(f, std::forward<Args>(args)...)};
}
template <class... Args>
Status resource_exhausted(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kResourceExhausted, fmt::format(f, std::forward<Args>(args)...)};
}
template <class... Args>
Status unimplemented(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kUnimplemented, fmt::format(f, std::forward<Args>(args)...)};
}
template <class... Args>
Status unavailable(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kUnavailable, fmt::format(f, std::forward<Args>(args)...)};
}
template <class... Args>
Status internal_error(fmt::format_string<Args...> f, Args&&... args) {
  return {StatusCode::kInternal, fmt::format(f, std::forward<Args>(args)...)};
}

// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : data_(std::move(value)) {}                                    // NOLINT
  Result(Status status) : data_(std::move(status)) { assert(!this->status().ok()); }  // NOLINT

  bool ok() const { return std::holds_alternative<T>(data_); }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<Status>(data_); }

  T& value() & { return std::get<T>(data_); }
  const T& value() const& { return std::get<T>(data_); }
  T&& value() && { return std::get<T>(std::move(data_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> data_;
};

}  // namespace strata

#define STRATA_CONCAT_INNER(a, b) a##b
#define STRATA_CONCAT(a, b) STRATA_CONCAT_INNER(a, b)

// Returns the failure of `expr` (a Status) from the enclosing function.
#define STRATA_RETURN_IF_ERROR(expr)                      \
  do {                                                    \
    if (::strata::Status strata_status_ = (expr); !strata_status_.ok()) return strata_status_; \
  } while (false)

// Declares `lhs` from a Result, or returns its failure from the enclosing function.
#define STRATA_ASSIGN_OR_RETURN(lhs, expr) \
  STRATA_ASSIGN_OR_RETURN_INNER(STRATA_CONCAT(strata_result_, __LINE__), lhs, expr)
#define STRATA_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return tmp.status();                 \
  lhs = std::move(tmp).value()
