#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/format.h"

namespace strata::jinja {

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_bool()) return value.as_bool();
  if (value.is_int()) return value.as_int() != 0;
  if (value.is_float()) return value.as_float() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_list()) {
    return value.list().kind == ListKind::kGenerator || !value.list().items.empty();
  }
  if (value.is_dict()) return value.dict().size() != 0;
  return true;
}

namespace {

bool is_tuple(const List& list) {
  return list.kind == ListKind::kTuple || list.kind == ListKind::kGroup;
}

bool comparable_lists(const List& a, const List& b) {
  return a.kind == b.kind || (is_tuple(a) && is_tuple(b));
}

// -1, 0, 1; NaN compares unequal to everything, which 2 stands for.
int compare_numbers(const Value& a, const Value& b) {
  const auto sign = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
  const auto ia = a.integral();
  const auto ib = b.integral();
  if (ia && ib) return sign(*ia, *ib);
  if (a.is_big() && b.is_big()) return sign(a.as_big(), b.as_big());
  if (a.is_big() && ib) return 1;
  if (ia && b.is_big()) return -1;
  const double x = *a.numeric();
  const double y = *b.numeric();
  if (std::isnan(x) || std::isnan(y)) return 2;
  return sign(x, y);
}

}  // namespace

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_text() && b.is_text()) {
    runtime.step_bytes(std::min(a.view().size(), b.view().size()));
    return a.view() == b.view();
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_list() && b.is_list()) {
    const List& x = a.list();
    const List& y = b.list();
    if (&x == &y) return true;
    if (!comparable_lists(x, y) || x.kind == ListKind::kGenerator) return false;
    if (x.items.size() != y.items.size()) return false;
    for (std::size_t i = 0; i < x.items.size(); ++i) {
      if (!equal(runtime, x.items[i], y.items[i])) return false;
    }
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    const Dict& x = a.dict();
    const Dict& y = b.dict();
    if (x.size() != y.size()) return false;
    for (const auto& [key, value] : x.entries()) {
      const Value* other = y.find(key);
      if (other == nullptr || !equal(runtime, value, *other)) return false;
    }
    return true;
  }
  if (a.is_object() && b.is_object()) return a.object() == b.object();
  if (a.is_bound() && b.is_bound()) {
    return a.bound().method == b.bound().method && equal(runtime, a.bound().self, b.bound().self);
  }
  return false;
}

int compare(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_text() && b.is_text()) {
    // The byte order of UTF-8 is the order of code points.
    runtime.step_bytes(std::min(a.view().size(), b.view().size()));
    const int order = a.view().compare(b.view());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_list() && b.is_list() && comparable_lists(a.list(), b.list()) &&
      (a.list().kind == ListKind::kList || is_tuple(a.list()))) {
    const auto& x = a.list().items;
    const auto& y = b.list().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(runtime, x[i], y[i])) return compare(runtime, x[i], y[i]);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  fail("{} and {} have no order", type_name(a), type_name(b));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (item.is_undefined()) fail_undefined(item);
    if (!item.is_text()) fail("'in <string>' needs a string on its left, not {}", type_name(item));
    runtime.step_bytes(container.view().size() + item.view().size());
    return find_bytes(container.view(), item.view()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    if (item.is_dict() || (item.is_list() && !is_tuple(item.list()))) {
      fail("a {} cannot be the key of a dict", type_name(item));
    }
    return container.dict().find(item) != nullptr;
  }
  if (container.is_list()) {
    const auto& items = container.list().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& other) { return equal(runtime, other, item); });
  }
  for (const Value& other : iterate(runtime, container)) {
    if (equal(runtime, other, item)) return true;
  }
  return false;
}

namespace {

[[noreturn]] void unsupported(const char* sign, const Value& a, const Value& b) {
  fail("'{}' does not work between {} and {}", sign, type_name(a), type_name(b));
}

[[noreturn]] void overflow() { fail("a whole number does not fit 64 bits"); }

const char* spelling(Op op) {
  switch (op) {
    case Op::kAdd: return "+";
    case Op::kSubtract: return "-";
    case Op::kMultiply: return "*";
    case Op::kDivide: return "/";
    case Op::kFloorDivide: return "//";
    case Op::kModulo: return "%";
    case Op::kPower: return "**";
    default: return "?";
  }
}

// Quotient rounded down and the remainder that goes with it, with the sign of the divisor.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) overflow();
    return result;
  }
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  return rest;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Value integer_arithmetic(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case Op::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case Op::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case Op::kPower:
      if (b >= 0) return Value::integer(integer_power(a, b));
      if (a == 0) fail("0 cannot be raised to a negative power");
      return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
    default: break;
  }
  if (b == 0) fail("division by zero");
  if (op == Op::kFloorDivide) return Value::integer(floor_divide(a, b));
  if (op == Op::kModulo) return Value::integer(floor_modulo(a, b));
  return Value::real(static_cast<double>(a) / static_cast<double>(b));
}

Value float_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd: return Value::real(a + b);
    case Op::kSubtract: return Value::real(a - b);
    case Op::kMultiply: return Value::real(a * b);
    case Op::kPower: {
      if (a == 0 && b < 0) fail("0 cannot be raised to a negative power");
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
        fail("a negative number cannot be raised to a fractional power");
      }
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        fail("the power is too large");
      }
      return Value::real(result);
    }
    default: break;
  }
  if (b == 0) fail("division by zero");
  if (op == Op::kFloorDivide) return Value::real((a - float_modulo(a, b)) / b);
  if (op == Op::kModulo) return Value::real(float_modulo(a, b));
  return Value::real(a / b);
}

// `times` copies of a string or list.
Value repeat(Runtime& runtime, const Value& what, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (what.is_text()) {
    const Text& text = what.text();
    if (!text.empty() && count > kMaxTextBytes / text.size()) {
      fail_limit("a string grew beyond {} MiB", kMaxTextBytes >> 20);
    }
    Text out;
    if (!text.empty()) {
      runtime.step(count);
      runtime.step_bytes(count * text.size());
      for (std::size_t i = 0; i < count; ++i) out.append(text);
    }
    return runtime.make_text(std::move(out));
  }
  const List& list = what.list();
  std::vector<Value> items;
  if (!list.items.empty()) {
    const std::size_t most = runtime.limits().memory_bytes / sizeof(Value);
    if (count > most / list.items.size()) fail_limit("a list grew too long");
    runtime.step(count * list.items.size());
    for (std::size_t i = 0; i < count; ++i) {
      items.insert(items.end(), list.items.begin(), list.items.end());
    }
  }
  return runtime.make_list(std::move(items), list.kind);
}

bool can_join(const Value& value) {
  return value.is_list() && (value.list().kind == ListKind::kList || is_tuple(value.list()));
}

}  // namespace

Value arithmetic(Runtime& runtime, Op op, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (op == Op::kModulo && a.is_text()) return percent_format(runtime, a.text(), b);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    const auto ia = a.integral();
    const auto ib = b.integral();
    if (ia && ib) return integer_arithmetic(op, *ia, *ib);
    if ((a.is_big() && ib) || (ia && b.is_big()) || (a.is_big() && b.is_big())) overflow();
    return float_arithmetic(op, *a.numeric(), *b.numeric());
  }
  if (op == Op::kAdd && a.is_text() && b.is_text()) {
    Text out;
    out.append(a.text());
    out.append(b.text());
    return runtime.make_text(std::move(out));
  }
  if (op == Op::kAdd && can_join(a) && can_join(b) && is_tuple(a.list()) == is_tuple(b.list())) {
    std::vector<Value> items = a.list().items;
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    runtime.step(items.size() / 8);
    return runtime.make_list(std::move(items),
                             is_tuple(a.list()) ? ListKind::kTuple : ListKind::kList);
  }
  if (op == Op::kMultiply) {
    const auto repeatable = [](const Value& value) { return value.is_text() || can_join(value); };
    if (repeatable(a) && b.integral()) return repeat(runtime, a, *b.integral());
    if (repeatable(b) && a.integral()) return repeat(runtime, b, *a.integral());
  }
  unsupported(spelling(op), a, b);
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_float()) return Value::real(-value.as_float());
  const auto number = value.integral();
  if (!number) fail("a {} has no negative", type_name(value));
  std::int64_t result = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, *number, &result)) overflow();
  return Value::integer(result);
}

Value unary_plus(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_float() || value.is_big()) return value;
  const auto number = value.integral();
  if (!number) fail("'+' does not work on a {}", type_name(value));
  return Value::integer(*number);
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.is_list() || value.is_dict() ||
         value.is_object(ObjectKind::kLoop);
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (value.is_list()) {
    runtime.step(value.list().items.size() / 8);
    return value.list().items;
  }
  if (value.is_dict()) {
    runtime.step(value.dict().size() / 8);
    for (const auto& entry : value.dict().entries()) items.push_back(entry.first);
    return items;
  }
  if (value.is_text()) {
    const Text& text = value.text();
    for (std::size_t pos = 0; pos < text.size();) {
      const std::size_t end = pos + decode_at(text.view(), pos).size;
      runtime.step();
      items.push_back(runtime.make_text(text.slice(pos, end)));
      pos = end;
    }
    return items;
  }
  fail("a {} cannot be iterated over", type_name(value));
}

std::size_t length_of(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    runtime.step_bytes(value.view().size());
    return count_code_points(value.view());
  }
  if (value.is_list() && value.list().kind != ListKind::kGenerator)
    return value.list().items.size();
  if (value.is_dict()) return value.dict().size();
  if (value.is_object(ObjectKind::kLoop)) {
    return static_cast<const Loop*>(value.object())->items.size();
  }
  fail("a {} has no length", type_name(value));
}

}  // namespace strata::jinja
