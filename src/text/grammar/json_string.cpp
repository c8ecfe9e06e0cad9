#include "text/grammar/json_string.h"

#include <fmt/format.h>

namespace strata::grammar {

namespace {

// Days that exist, the 29th of February in leap years of the Gregorian calendar.
std::string date_pattern() {
  const std::string_view year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
  const std::string_view leap =
      "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  return fmt::format(
      "(?:{0}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|"
      "30)"
      "|02-(?:0[1-9]|1[0-9]|2[0-8]))|{1}-02-29)",
      year, leap);
}

std::string time_pattern() {
  return "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
         "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
}

// `more`: characters beyond ASCII, as a part of a class.
std::string hostname_pattern(std::string_view more = {}) {
  const std::string edge = fmt::format("[A-Za-z0-9{}]", more);
  const std::string inner = fmt::format("[A-Za-z0-9{}-]", more);
  const std::string shorter = fmt::format("{0}(?:{1}{{0,22}}{0})?", edge, inner);
  const std::string label = fmt::format("{0}(?:{1}{{0,61}}{0})?", edge, inner);
  return fmt::format("(?:{1}\\.){{0,2}}(?:{0}\\.){{0,3}}{0}", shorter, label);
}

std::string ipv4_pattern() {
  const std::string_view octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return fmt::format("{0}(?:\\.{0}){{3}}", octet);
}

std::string ipv6_pattern() {
  const std::string_view group = "[0-9a-fA-F]{1,4}";
  std::string out = fmt::format("(?:{0}:){{7}}{0}", group);
  for (int left = 0; left <= 7; ++left) {
    out += '|';
    if (left > 0) out += fmt::format("{0}(?::{0}){{{1}}}", group, left - 1);
    out += "::";
    if (left < 7) out += fmt::format("(?:{0}(?::{0}){{0,{1}}})?", group, 6 - left);
  }
  return out;
}

// What RFC 3987 adds to the characters of RFC 3986, within the first plane.
constexpr std::string_view kBeyondAscii = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF";

// `reference`: or a reference that is relative to another one.
std::string uri_pattern(std::string_view more, bool reference) {
  const std::string segment =
      fmt::format("(?:[A-Za-z0-9._~!$&'()*+,;=:@{}-]|%[0-9A-Fa-f]{{2}})", more);
  const std::string host =
      fmt::format("//(?:{})(?::[0-9]{{1,5}})?(?:/{}*)*", hostname_pattern(more), segment);
  const std::string rest = fmt::format("(?:\\?(?:{0}|[/?])*)?(?:#(?:{0}|[/?])*)?", segment);
  const std::string scheme = "[a-zA-Z][a-zA-Z0-9+.-]{0,31}:";
  const std::string absolute =
      fmt::format("{0}(?:{1}|/?(?:{2}+(?:/{2}*)*)){3}", scheme, host, segment, rest);
  if (!reference) return absolute;
  const std::string no_colon =
      fmt::format("(?:[A-Za-z0-9._~!$&'()*+,;=@{}-]|%[0-9A-Fa-f]{{2}})", more);
  return fmt::format("{0}|(?:{1}|/(?:{2}+(?:/{2}*)*)?|{3}+(?:/{2}*)*)?{4}", absolute, host, segment,
                     no_colon, rest);
}

// RFC 6570, literals within ASCII.
std::string uri_template_pattern() {
  const std::string_view name = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})";
  const std::string variable = fmt::format("{0}(?:\\.?{0})*(?:\\*|:[1-9][0-9]{{0,3}})?", name);
  return fmt::format(
      "(?:[!#$&()*+,./0-9:;=?@A-Z\\[\\]_a-z~-]|%[0-9A-Fa-f]{{2}}|\\{{[+#./;?&]?{0}(?:,{0})*\\}})*",
      variable);
}

constexpr std::string_view kJsonPointer = "(?:/(?:[^/~]|~[01])*)*";

std::string email_pattern() {
  const std::string_view atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
  return fmt::format("{0}(?:\\.{0}){{0,2}}@{1}", atom, hostname_pattern());
}

constexpr std::string_view kDuration =
    "P(?:[0-9]{1,6}W|(?:[0-9]{1,6}Y(?:[0-9]{1,6}M(?:[0-9]{1,6}D)?)?|[0-9]{1,6}M(?:[0-9]{1,6}D)?|"
    "[0-9]{1,6}D)(?:T(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|"
    "[0-9]{1,6}S))?|T(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|"
    "[0-9]{1,6}S))";

Result<Automaton> any_character(const CharacterWriter& writer) {
  GrammarBuilder b;
  return b.to_automaton(writer(b, CodeSet::all()));
}

}  // namespace

std::optional<TextCondition> format_condition(std::string_view format) {
  const auto whole = [](std::string pattern) {
    return TextCondition{std::move(pattern), RegexMatch::kWhole};
  };
  if (format == "date") return whole(date_pattern());
  if (format == "time") return whole(time_pattern());
  if (format == "date-time") return whole(date_pattern() + "T" + time_pattern());
  if (format == "duration") return whole(std::string(kDuration));
  if (format == "uuid") return whole("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}");
  if (format == "ipv4" || format == "ip-address") return whole(ipv4_pattern());
  if (format == "ipv6") return whole(ipv6_pattern());
  if (format == "email") return whole(email_pattern());
  if (format == "hostname" || format == "host-name") return whole(hostname_pattern());
  if (format == "uri") return whole(uri_pattern({}, false));
  if (format == "uri-reference") return whole(uri_pattern({}, true));
  if (format == "iri") return whole(uri_pattern(kBeyondAscii, false));
  if (format == "iri-reference") return whole(uri_pattern(kBeyondAscii, true));
  if (format == "uri-template") return whole(uri_template_pattern());
  if (format == "json-pointer") return whole(std::string(kJsonPointer));
  if (format == "relative-json-pointer") {
    return whole(fmt::format("(?:0|[1-9][0-9]{{0,5}})(?:#|{})", kJsonPointer));
  }
  return std::nullopt;
}

Result<Automaton> text_automaton(const TextConditions& conditions, const CharacterWriter& writer) {
  std::optional<Automaton> out;
  const auto restrict_to = [&](Automaton other) -> Status {
    if (!out) {
      out = std::move(other);
      return {};
    }
    STRATA_ASSIGN_OR_RETURN(out, intersection(*out, other));
    return {};
  };
  for (const TextCondition& c : conditions.patterns) {
    GrammarBuilder b;
    STRATA_ASSIGN_OR_RETURN(const ExprId e, compile_regex(b, c.pattern, c.match, writer));
    STRATA_ASSIGN_OR_RETURN(Automaton a, b.to_automaton(e));
    STRATA_RETURN_IF_ERROR(restrict_to(std::move(a)));
  }
  STRATA_ASSIGN_OR_RETURN(const Automaton character, any_character(writer));
  if (!out) {
    GrammarBuilder b;
    STRATA_ASSIGN_OR_RETURN(out, b.to_automaton(b.repeat(b.embed(character), 0, kUnbounded)));
  }
  if (conditions.bounded()) {
    STRATA_ASSIGN_OR_RETURN(out, counted(*out, character, conditions.min, conditions.max));
  }
  return std::move(*out);
}

Result<ExprId> text_expression(GrammarBuilder& builder, const TextConditions& conditions,
                               const CharacterWriter& writer) {
  if (conditions.patterns.empty()) {
    STRATA_ASSIGN_OR_RETURN(Automaton character, any_character(writer));
    return builder.repeat(builder.embed(std::move(character)), conditions.min, conditions.max);
  }
  if (conditions.patterns.size() == 1 && !conditions.bounded()) {
    const TextCondition& c = conditions.patterns[0];
    return compile_regex(builder, c.pattern, c.match, writer);
  }
  STRATA_ASSIGN_OR_RETURN(Automaton a, text_automaton(conditions, writer));
  return builder.embed(std::move(a));
}

}  // namespace strata::grammar
