// Hostile templates and data end in an error: no crash, no hang, no unbounded memory.
#include <pthread.h>

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace strata::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string repeat(std::string_view what, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += what;
  return out;
}

Status render_status(const std::string& source, const Json& variables = Json::object(),
                     const Limits& limits = {}) {
  auto parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.status();
  RenderOptions options;
  options.limits = limits;
  return parsed->render(variables, options).status();
}

void expect_limit(const std::string& source, const Json& variables = Json::object()) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = render_status(source, variables);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange) << source.substr(0, 200) << status.message();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << source;
}

TEST(JinjaLimits, RefusesDeepNestingOfEverySyntax) {
  constexpr std::size_t kDeep = 100'000;
  for (const std::string& source :
       {"{{ " + repeat("(", kDeep) + "1" + repeat(")", kDeep) + " }}",
        "{{ " + repeat("[", kDeep) + repeat("]", kDeep) + " }}",
        "{{ " + repeat("{1:", kDeep) + "1" + repeat("}", kDeep) + " }}",
        "{{ " + repeat("not ", kDeep) + "1 }}", "{{ " + repeat("-", kDeep) + "1 }}",
        "{{ 1" + repeat(" + 1", kDeep) + " }}", "{{ 1" + repeat(" ** 1", kDeep) + " }}",
        "{{ a" + repeat(".a", kDeep) + " }}", "{{ a" + repeat("[0]", kDeep) + " }}",
        "{{ a" + repeat("()", kDeep) + " }}", "{{ a" + repeat("|trim", kDeep) + " }}",
        "{{ a" + repeat("(a", kDeep) + repeat(")", kDeep) + " }}",
        "{{ 1" + repeat(" if 1 else 1", kDeep) + " }}",
        repeat("{% if 1 %}", kDeep) + repeat("{% endif %}", kDeep),
        repeat("{% for a in b %}", kDeep) + repeat("{% endfor %}", kDeep),
        "{% for " + repeat("(", kDeep) + "a" + repeat(")", kDeep) + " in b %}{% endfor %}",
        "{% set x" + repeat("|trim", kDeep) + " %}{% endset %}",
        "{{ a" + repeat(" is b", kDeep) + " }}"}) {
    const Status status = render_status(source);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << source.substr(0, 40);
  }
}

TEST(JinjaLimits, LongFlatTemplatesAreFine) {
  EXPECT_TRUE(render_status("{{ 'a'" + repeat(" ~ 'a'", 10'000) + " }}").ok());
  EXPECT_TRUE(render_status("{{ true" + repeat(" and true", 10'000) + " }}").ok());
  EXPECT_TRUE(render_status("{% if 0 %}" + repeat("{% elif 0 %}", 10'000) + "{% endif %}").ok());
  EXPECT_TRUE(render_status("{{ [" + repeat("1,", 10'000) + "] }}").ok());
}

TEST(JinjaLimits, SyntaxOfReasonableDepthIsAccepted) {
  EXPECT_TRUE(render_status("{{ " + repeat("(", 150) + "1" + repeat(")", 150) + " }}").ok());
  EXPECT_TRUE(render_status(repeat("{% if 1 %}", 100) + "x" + repeat("{% endif %}", 100)).ok());
  EXPECT_TRUE(render_status("{{ 1" + repeat(" + 1", 150) + " }}").ok());
}

TEST(JinjaLimits, RefusesDeeplyNestedInput) {
  Json deep = 1;
  for (int i = 0; i < 100'000; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  Json variables = Json::object();
  variables["x"] = std::move(deep);
  expect_limit("{{ x }}", variables);
}

TEST(JinjaLimits, RefusesDeeplyNestedValuesBuiltByTheTemplate) {
  expect_limit(
      "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = [n.x] %}"
      "{% endfor %}{{ n.x }}");
  expect_limit(
      "{% set n = namespace(x={}) %}{% for i in range(100000) %}"
      "{% set n.x = {'a': n.x} %}{% endfor %}{{ n.x|tojson }}");
  expect_limit(
      "{% set n = namespace(x=[]) %}{% for i in range(100000) %}"
      "{% set n.x = [n.x.index] %}{% endfor %}");
}

TEST(JinjaLimits, LongChainsAndCyclesOfMutableObjectsAreFreed) {
  EXPECT_TRUE(render_status("{% set n = namespace(x=none) %}{% for i in range(100000) %}"
                            "{% set n.x = namespace(p=n.x) %}{% endfor %}")
                  .ok());
  EXPECT_TRUE(
      render_status("{% set n = namespace() %}{% set n.me = n %}{% set n.l = [n] %}ok").ok());
  EXPECT_TRUE(render_status("{% set n = namespace(m=none) %}{% for i in range(10000) %}"
                            "{% set p = n.m %}{% macro f() %}{{ p }}{% endmacro %}"
                            "{% set n.m = f %}{% endfor %}")
                  .ok());
}

TEST(JinjaLimits, RefusesLongRanges) {
  expect_limit("{% for i in range(1000000000) %}{% endfor %}");
  expect_limit("{{ range(9223372036854775807)|length }}");
  expect_limit("{{ range(0, -9223372036854775807, -1)|length }}");
}

TEST(JinjaLimits, RefusesEndlessRecursionOfMacros) {
  expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  expect_limit(
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
  expect_limit("{% macro m(x=m()) %}{% endmacro %}{{ m() }}");
  expect_limit(
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}"
      "{% call m() %}{% endcall %}");
}

#if !defined(__SANITIZE_ADDRESS__)
// 512 KiB is the smallest default stack of a thread on the systems we know.
TEST(JinjaLimits, AnEvaluationAtTheDepthLimitFitsASmallStack) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 512 << 10), 0);
  const auto body = [](void* out) -> void* {
    auto& statuses = *static_cast<std::vector<Status>*>(out);
    for (const char* source :
         {"{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m('') }}",
          "{% macro m(x) %}{% if 1 %}{% for i in [1] %}{{ [m((((x ~ 'a')|trim)))|upper] }}{% "
          "endfor %}"
          "{% endif %}{% endmacro %}{{ m('') }}",
          "{% macro m() %}{% set a %}{{ m() }}{% endset %}{% endmacro %}{{ m() }}",
          "{% macro m() %}{% filter upper %}{{ m() }}{% endfilter %}{% endmacro %}{{ m() }}",
          "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}"
          "{% call m() %}{% endcall %}"}) {
      statuses.push_back(render_status(source));
    }
    statuses.push_back(render_status("{{ " + repeat("[", 190) + repeat("]", 190) + "|tojson }}"));
    statuses.push_back(render_status("{{ " + repeat("(", 10'000) + " }}"));
    statuses.push_back(render_status(repeat("{% if 1 %}", 10'000)));
    return nullptr;
  };
  std::vector<Status> statuses;
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &statuses), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  ASSERT_EQ(statuses.size(), 8u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(statuses[static_cast<std::size_t>(i)].code(), StatusCode::kOutOfRange) << i;
  }
  EXPECT_TRUE(statuses[5].ok()) << statuses[5].message();
  EXPECT_EQ(statuses[6].code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(statuses[7].code(), StatusCode::kFailedPrecondition);
}
#endif

TEST(JinjaLimits, RefusesExponentialGrowth) {
  expect_limit(
      "{% set n = namespace(s='ab') %}{% for i in range(100) %}{% set n.s = n.s ~ n.s %}"
      "{% endfor %}");
  expect_limit(
      "{% set n = namespace(s='ab') %}{% for i in range(100) %}"
      "{% set n.s = n.s.replace('a', n.s) %}{% endfor %}");
  expect_limit(
      "{% set n = namespace(l=[1]) %}{% for i in range(100) %}{% set n.l = n.l + n.l %}"
      "{% endfor %}");
  expect_limit("{{ 'ab' * 1000000000000 }}");
  expect_limit("{{ [1] * 1000000000000 }}");
  expect_limit("{{ 'x'.center(1000000000000) }}");
  expect_limit("{{ 'x'.zfill(1000000000000) }}");
  expect_limit("{{ '%1000000000d' % 1 }}");
  expect_limit("{{ '{:1000000000}'.format(1) }}");
  expect_limit("{{ 'a\nb'|indent(1000000000000) }}");
  expect_limit("{{ [1]|batch(1000000000000, 0)|list }}");
  expect_limit("{{ [1]|slice(1000000000000)|list }}");
  expect_limit(
      "{% set n = namespace(l=[]) %}{% for i in range(100000) %}"
      "{% set n.l = n.l + ['x' * 100000] %}{% endfor %}");
  expect_limit(
      "{% macro m(d) %}{% if d %}{{ m(d - 1) }}{{ m(d - 1) }}{% else %}xxxxxxxxxxxxxxxx"
      "{% endif %}{% endmacro %}{{ m(40) }}");
}

TEST(JinjaLimits, RefusesEndlessWork) {
  expect_limit("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
  expect_limit(
      "{% set s = 'a' * 10000000 %}{% for a in range(100000) %}{{ s|length }}{% endfor %}");
  expect_limit("{% set l = range(100000)|list %}{% for a in l %}{{ -1 in l }}{% endfor %}");
}

TEST(JinjaLimits, SearchingIsLinearForAdversarialStrings) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(
      render_status("{% set h = 'a' * 4000000 %}{% set n = 'a' * 2000000 ~ 'b' %}{% set m = 'b' ~ "
                    "'a' * 2000000 %}"
                    "{{ n in h }}{{ h.find(n) }}{{ h.rfind(m) }}{{ h.count(n) }}"
                    "{{ h.split(n)|length }}{{ h.rsplit(m)|length }}{{ h.replace(n, '')|length }}")
          .ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(JinjaLimits, RefusesOutputBeyondTheLimit) {
  Limits limits;
  limits.output_bytes = 100;
  EXPECT_TRUE(render_status("{{ 'x' * 100 }}", Json::object(), limits).ok());
  EXPECT_EQ(render_status("{{ 'x' * 101 }}", Json::object(), limits).code(),
            StatusCode::kOutOfRange);
}

TEST(JinjaLimits, OneTemplateRendersInManyThreadsAtOnce) {
  auto parsed = Template::parse(
      "{% macro m(x) %}<{{ x|upper }}>{% endmacro %}{% for c in s %}{{ m(c) }}{% endfor %}{{ 'lit' "
      "}}");
  ASSERT_TRUE(parsed.ok());
  std::vector<std::thread> threads;
  std::vector<std::string> outputs(8);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        auto pieces = parsed->render({{"s", std::string(20, static_cast<char>('a' + i))}});
        outputs[i].clear();
        for (const Piece& piece : *pieces) outputs[i] += piece.text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string one = std::string("<") + static_cast<char>('A' + i) + ">";
    EXPECT_EQ(outputs[i], repeat(one, 20) + "lit");
  }
}

}  // namespace
}  // namespace strata::jinja
