// The one exception of jinja/: thrown by the parser and the interpreter, caught by
// Template::parse and Template::render, which turn it into a Status. It never leaves the module.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

namespace strata::jinja {

enum class FailureKind {
  kTemplate,  // the template is wrong, or does not fit the data it was given
  kRaised,    // the template called raise_exception(): `message` is its argument
  kLimit,     // one of Limits was exceeded
};

struct Failure {
  FailureKind kind = FailureKind::kTemplate;
  std::string message;
  int line = 0;  // 0: not known where it was thrown
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> f, Args&&... args) {
  throw Failure{FailureKind::kTemplate, fmt::format(f, std::forward<Args>(args)...), 0};
}

template <class... Args>
[[noreturn]] void fail_at(int line, fmt::format_string<Args...> f, Args&&... args) {
  throw Failure{FailureKind::kTemplate, fmt::format(f, std::forward<Args>(args)...), line};
}

template <class... Args>
[[noreturn]] void fail_limit(fmt::format_string<Args...> f, Args&&... args) {
  throw Failure{FailureKind::kLimit, fmt::format(f, std::forward<Args>(args)...), 0};
}

}  // namespace strata::jinja
