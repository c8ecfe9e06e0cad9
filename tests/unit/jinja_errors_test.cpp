// Messages and codes of failures.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace strata::jinja {
namespace {

using Json = nlohmann::ordered_json;

Status parse_status(const std::string& source) { return Template::parse(source).status(); }

Status render_status(const std::string& source, const Json& variables = Json::object()) {
  auto parsed = Template::parse(source);
  EXPECT_TRUE(parsed.ok()) << source << parsed.status().message();
  if (!parsed.ok()) return parsed.status();
  return parsed->render(variables).status();
}

TEST(JinjaErrors, ParseErrorsNameTemplateLineAndWhatWasExpected) {
  const Status status = parse_status("one\ntwo {{ 1 +\n }}");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "chat template line 3: expected an expression, found '}}'");
  EXPECT_EQ(Template::parse("{% if x %}", "tool template").status().message(),
            "tool template line 1: this if block is never closed: endif is missing");
  EXPECT_EQ(parse_status("\n{% bad %}").message(),
            "chat template line 2: 'bad' is not a statement that a chat template can use here");
  EXPECT_EQ(parse_status("{{ 'abc }}").message(),
            "chat template line 1: this string is never closed");
  EXPECT_EQ(parse_status("a\n\n{# b").message(),
            "chat template line 3: this comment is never closed: \"#}\" is missing");
}

TEST(JinjaErrors, LinesCountThroughMultiLineTagsAndWindowsLineEnds) {
  EXPECT_EQ(render_status("{#\n\n#}\n{% set a = [\n1,\n2] -%}\n\n\n{{ none.x.y }}").message(),
            "chat template line 9: a None has no attribute 'x'");
  EXPECT_EQ(render_status("a\r\nb\r\n{{ none.x.y }}").message(),
            "chat template line 3: a None has no attribute 'x'");
}

TEST(JinjaErrors, UndefinedNamesTheExpression) {
  const Json data = {{"m", {{"role", "user"}}}};
  EXPECT_EQ(render_status("{{ nope.x }}", data).message(),
            "chat template line 1: 'nope' is undefined");
  EXPECT_EQ(render_status("{{ m.content + 'x' }}", data).message(),
            "chat template line 1: the dict has no entry 'content'");
  EXPECT_EQ(render_status("{{ nope() }}", data).message(),
            "chat template line 1: 'nope' is undefined");
  EXPECT_EQ(render_status("{{ nope.x }}", data).code(), StatusCode::kInvalidArgument);
}

TEST(JinjaErrors, RaiseExceptionGivesItsMessageVerbatim) {
  const Status status =
      render_status("\n\n{{ raise_exception('Bad role: ' ~ r) }}", {{"r", "wizard"}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "Bad role: wizard");
}

TEST(JinjaErrors, TheLineIsThatOfTheMacroBodyWhereItFailed) {
  EXPECT_EQ(render_status("{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ m() }}").message(),
            "chat template line 2: division by zero");
}

TEST(JinjaErrors, WholeNumbersOverflowInsteadOfWrapping) {
  for (const char* source :
       {"{{ 10 ** 19 }}", "{{ 2 ** 62 + 2 ** 62 }}", "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 2 }}", "{{ 9223372036854775807 * 2 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}",
        "{{ (-9223372036854775807 - 1)|abs }}", "{{ '9223372036854775808'|int }}",
        "{{ 1e300|int }}", "{{ huge + 1 }}", "{{ huge * huge }}"}) {
    const Status status = render_status(source, {{"huge", UINT64_MAX}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << source;
    EXPECT_NE(status.message().find("64 bits"), std::string::npos) << source << status.message();
  }
  EXPECT_EQ(parse_status("{{ 9223372036854775808 }}").code(), StatusCode::kFailedPrecondition);
}

TEST(JinjaErrors, TheClockIsUndefinedUnlessGiven) {
  EXPECT_EQ(render_status("{{ strftime_now('%Y') }}").message(),
            "chat template line 1: 'strftime_now' is undefined");
  EXPECT_TRUE(render_status("{% if strftime_now is defined %}{{ nope.x }}{% endif %}").ok());
}

TEST(JinjaErrors, ChangingValuesIsRefusedWithAReason) {
  EXPECT_EQ(
      render_status("{{ l.append(1) }}", {{"l", Json::array()}}).message(),
      "chat template line 1: 'append' would change a list, and templates may not change values");
}

TEST(JinjaErrors, RefusesTextThatIsNotUtf8) {
  EXPECT_EQ(parse_status("a\xff").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(render_status("{{ s }}", {{"s", "a\xff"}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(render_status("{{ s }}", {{"s", {{"\xc3", 1}}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parse_status("{{ '\\ud800' }}").code(), StatusCode::kFailedPrecondition);
}

TEST(JinjaErrors, RefusesVariablesThatAreNoObject) {
  EXPECT_EQ(render_status("x", Json::array()).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::jinja
