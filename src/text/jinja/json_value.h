// JSON of a request as values of the template language; all strings become untrusted.
#pragma once

#include <nlohmann/json.hpp>

#include "text/jinja/value.h"

namespace strata::jinja {

// Throws Failure for text that is not UTF-8 and for nesting beyond kMaxValueDepth.
Value from_json(const nlohmann::ordered_json& json);

}  // namespace strata::jinja
