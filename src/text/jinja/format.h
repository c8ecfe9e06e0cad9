// Python's two ways to fill in a string: "..." % values and "...".format(values).
#pragma once

#include "text/jinja/runtime.h"

namespace strata::jinja {

Value percent_format(Runtime& runtime, const Text& pattern, const Value& values);
Value brace_format(Runtime& runtime, const Text& pattern, const Args& args);

}  // namespace strata::jinja
