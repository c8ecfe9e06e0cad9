// Numbers under conditions, as automata over their decimal digits: bounds, multiples, integers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/grammar/automaton.h"
#include "text/grammar/json_text.h"

namespace strata::grammar {

// A finite number in decimal, exactly as short as it can be written.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  // no leading zeros
  std::string fraction;     // no trailing zeros

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  static Decimal of(const Json& number);
  std::string text() const;
  friend bool operator<(const Decimal& a, const Decimal& b);
};

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberConditions {
  bool integer = false;
  std::vector<NumberBound> at_least, at_most;
  std::vector<Decimal> multiple_of;  // each above 0

  bool any() const { return !at_least.empty() || !at_most.empty() || !multiple_of.empty(); }
};

// Numbers written without an exponent that fulfil all conditions; integers without a point.
// kOutOfRange when a multiple needs too large an automaton.
Result<Automaton> number_automaton(const NumberConditions& conditions);

}  // namespace strata::grammar
