// Text that is free until a marker.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/grammar/automaton.h"

namespace strata::grammar {

// Any bytes up to and with the first `marker`, which is not empty.
Automaton bytes_through(std::string_view marker);
// Any bytes without `marker`. `before`: what stands in front of them, of which the marker may not
// make use either.
Automaton bytes_without(std::string_view marker, std::string_view before = {});
// The same, well-formed UTF-8 only.
Result<Automaton> text_without(std::string_view marker, std::string_view before = {});

}  // namespace strata::grammar
