// Values as text: str(), repr() and JSON, spelled as Python spells them. Provenance is kept: what
// comes from a string of the request stays untrusted within the result.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/runtime.h"

namespace strata::jinja {

// str(): what {{ value }} prints. Undefined prints nothing.
Text to_text(Runtime& runtime, const Value& value);
void append_text(Runtime& runtime, const Value& value, Text& out);
Text to_repr(Runtime& runtime, const Value& value);
std::string float_repr(double value);

struct JsonStyle {
  std::optional<Text> indent;  // one level of it; none: everything on one line
  Text item_separator{", ", true};
  Text key_separator{": ", true};
  bool ascii_only = false;
  bool sort_keys = false;
};
Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace strata::jinja
