// Texts under conditions: length in characters, patterns, formats.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/automaton.h"
#include "text/grammar/regex.h"

namespace strata::grammar {

struct TextCondition {
  std::string pattern;
  RegexMatch match = RegexMatch::kSearch;
};

struct TextConditions {
  uint32_t min = 0;
  uint32_t max = kUnbounded;
  std::vector<TextCondition> patterns;  // all of them

  bool bounded() const { return min > 0 || max != kUnbounded; }
};

// The pattern of a format of JSON Schema: date, time, date-time, duration, uuid, ipv4, ipv6, email,
// hostname, uri, uri-reference, iri, iri-reference, uri-template, json-pointer,
// relative-json-pointer; ip-address and host-name, older names of two of them. Nothing for others,
// which are annotations. They are narrower than the standards where these are not regular or allow
// rarities: no leap seconds, years 0001 to 9999, host names of at most 6 labels, IPv6 without an
// embedded IPv4 address, addresses without quoted parts, URIs without user names and without
// numbers as hosts in brackets.
std::optional<TextCondition> format_condition(std::string_view format);

// The texts that fulfil the conditions, each character spelt by `writer`. kOutOfRange when their
// combination is too large.
Result<Automaton> text_automaton(const TextConditions& conditions, const CharacterWriter& writer);
// The same as an expression; larger ones are possible when there is only one pattern and no bound.
Result<ExprId> text_expression(GrammarBuilder& builder, const TextConditions& conditions,
                               const CharacterWriter& writer);

}  // namespace strata::grammar
