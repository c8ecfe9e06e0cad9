// The tests behind `is`.
#include <algorithm>
#include <array>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {
namespace {

using Predicate = bool (*)(const Value&);

template <Predicate kPredicate>
bool plain(Runtime&, const Value& input, const Args& args) {
  const Bindings given("this test", args, {});
  return kPredicate(input);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is_bool(); }
bool is_exactly_true(const Value& v) { return v.is_bool() && v.as_bool(); }
bool is_exactly_false(const Value& v) { return v.is_bool() && !v.as_bool(); }
bool is_integer(const Value& v) { return v.is_int() || v.is_big(); }
bool is_float(const Value& v) { return v.is_float(); }
bool is_any_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_sequence(const Value& v) {
  return v.is_text() || v.is_dict() || v.is_sequence() || v.is_undefined();
}
bool is_callable(const Value& v) {
  return v.is_bound() || v.is_undefined() || v.is_object(ObjectKind::kMacro) ||
         v.is_object(ObjectKind::kBuiltin) || v.is_object(ObjectKind::kJoiner) ||
         v.is_object(ObjectKind::kLoop);
}
bool never(const Value&) { return false; }

std::int64_t remainder_of(Runtime& runtime, const Value& input, const Value& divisor) {
  const Value rest = arithmetic(runtime, Op::kModulo, input, divisor);
  const auto number = rest.numeric();
  if (!number) fail("a {} has no remainder", type_name(input));
  return *number == 0 ? 0 : *number == 1 ? 1 : 2;
}

bool test_odd(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("odd", args, {});
  return remainder_of(runtime, input, Value::integer(2)) == 1;
}

bool test_even(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("even", args, {});
  return remainder_of(runtime, input, Value::integer(2)) == 0;
}

bool test_divisible(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("divisibleby", args, {"num"});
  return remainder_of(runtime, input, given[0]) == 0;
}

bool test_equal(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("equalto", args, {"other"});
  return equal(runtime, input, given[0]);
}

bool test_unequal(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("ne", args, {"other"});
  return !equal(runtime, input, given[0]);
}

// kWanted holds the results of compare() that pass, as bits: 1 less, 2 equal, 4 greater.
template <int kWanted>
bool test_order(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("this test", args, {"other"});
  const int order = compare(runtime, input, given[0]);
  const int bit = order < 0 ? 1 : order == 0 ? 2 : order == 1 ? 4 : 0;
  return (kWanted & bit) != 0;
}

bool test_in(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("in", args, {"seq"});
  return contains(runtime, given[0], input);
}

bool test_sameas(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("sameas", args, {"other"});
  const Value& other = given[0];
  if (input.is_bool() != other.is_bool() || input.is_float() != other.is_float()) return false;
  return equal(runtime, input, other);
}

template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
bool test_case(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("this test", args, {});
  const Text text = to_text(runtime, input);
  bool found = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const CodePoint c = decode_at(text.view(), pos);
    if (kOther(c.value)) return false;
    found = found || kWanted(c.value);
    pos += c.size;
  }
  return found;
}

bool test_filter_exists(Runtime&, const Value& input, const Args& args) {
  const Bindings given("filter", args, {});
  return input.is_text() && find_filter(input.view()) != nullptr;
}

bool test_test_exists(Runtime&, const Value& input, const Args& args) {
  const Bindings given("test", args, {});
  return input.is_text() && find_test(input.view()) != nullptr;
}

struct NamedTest {
  std::string_view name;
  TestFunction function;
};

constexpr std::array<NamedTest, 39> kTests = {{
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_exactly_true>},
    {"false", plain<is_exactly_false>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_any_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<is_callable>},
    {"escaped", plain<never>},
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisible},
    {"eq", test_equal},
    {"==", test_equal},
    {"equalto", test_equal},
    {"ne", test_unequal},
    {"!=", test_unequal},
    {"lt", test_order<1>},
    {"<", test_order<1>},
    {"lessthan", test_order<1>},
    {"le", test_order<3>},
    {"<=", test_order<3>},
    {"gt", test_order<4>},
    {">", test_order<4>},
    {"greaterthan", test_order<4>},
    {"ge", test_order<6>},
    {">=", test_order<6>},
    {"in", test_in},
    {"sameas", test_sameas},
    {"lower", test_case<is_lower, is_upper>},
    {"upper", test_case<is_upper, is_lower>},
    {"filter", test_filter_exists},
    {"test", test_test_exists},
}};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [&](const NamedTest& test) { return test.name == name; });
  return found == kTests.end() ? nullptr : found->function;
}

}  // namespace strata::jinja
