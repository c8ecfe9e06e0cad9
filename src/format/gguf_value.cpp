#include "format/gguf_value.h"

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

namespace strata {
namespace {

struct TypeRow {
  const char* name;
  size_t bytes;
};
constexpr TypeRow kTypes[kGgufTypeCount] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

// One number of the file, widened without loss.
struct Number {
  enum class Kind { kUnsigned, kSigned, kFloat, kBool } kind;
  uint64_t u = 0;
  int64_t i = 0;
  double f = 0;
};

uint64_t load_little_endian(const std::byte* p, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= std::to_integer<uint64_t>(p[i]) << 8 * i;
  return value;
}

Number load_number(GgufType type, const std::byte* p) {
  using Kind = Number::Kind;
  const size_t bytes = gguf_type_bytes(type);
  const uint64_t bits = load_little_endian(p, bytes);
  switch (type) {
    case GgufType::kI8:
    case GgufType::kI16:
    case GgufType::kI32:
    case GgufType::kI64: {
      const int unused = static_cast<int>(64 - 8 * bytes);
      return {Kind::kSigned, 0, static_cast<int64_t>(bits << unused) >> unused, 0};
    }
    case GgufType::kF32:
      return {Kind::kFloat, 0, 0, std::bit_cast<float>(static_cast<uint32_t>(bits))};
    case GgufType::kF64: return {Kind::kFloat, 0, 0, std::bit_cast<double>(bits)};
    case GgufType::kBool: return {Kind::kBool, bits, 0, 0};
    default: return {Kind::kUnsigned, bits, 0, 0};
  }
}

std::string number_text(const Number& n) {
  switch (n.kind) {
    case Number::Kind::kSigned: return fmt::to_string(n.i);
    case Number::Kind::kFloat: return fmt::format("{:.9g}", n.f);
    case Number::Kind::kBool: return n.u != 0 ? "true" : "false";
    case Number::Kind::kUnsigned: break;
  }
  return fmt::to_string(n.u);
}

template <class T>
constexpr const char* expected_name() {
  if constexpr (std::is_same_v<T, bool>) return "a bool";
  if constexpr (std::is_same_v<T, uint32_t>) return "an integer from 0 to 4294967295";
  if constexpr (std::is_same_v<T, int32_t>) return "an integer from -2147483648 to 2147483647";
  if constexpr (std::is_same_v<T, uint64_t>) return "an integer from 0 to 2^64 - 1";
  if constexpr (std::is_same_v<T, int64_t>) return "an integer from -2^63 to 2^63 - 1";
  if constexpr (std::is_same_v<T, std::string_view>) return "a string";
  return "a finite number";
}

template <class T>
std::optional<T> convert(const Number& n) {
  using Kind = Number::Kind;
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) {
    if (n.kind == Kind::kFloat) return std::nullopt;
    if (n.kind == Kind::kSigned) {
      return n.i == 0 || n.i == 1 ? std::optional<bool>(n.i == 1) : std::nullopt;
    }
    return n.u <= 1 ? std::optional<bool>(n.u == 1) : std::nullopt;
  } else if constexpr (std::is_integral_v<T>) {
    if (n.kind == Kind::kFloat) return std::nullopt;
    if (n.kind == Kind::kSigned) {
      if constexpr (std::is_unsigned_v<T>) {
        if (n.i < 0 || static_cast<uint64_t>(n.i) > Limits::max()) return std::nullopt;
      } else {
        if (n.i < Limits::min() || n.i > Limits::max()) return std::nullopt;
      }
      return static_cast<T>(n.i);
    }
    if (n.u > static_cast<uint64_t>(Limits::max())) return std::nullopt;
    return static_cast<T>(n.u);
  } else {
    if (n.kind == Kind::kBool) return std::nullopt;
    const double value = n.kind == Kind::kFloat    ? n.f
                         : n.kind == Kind::kSigned ? static_cast<double>(n.i)
                                                   : static_cast<double>(n.u);
    if (!(std::fabs(value) <= static_cast<double>(Limits::max()))) return std::nullopt;
    return static_cast<T>(value);
  }
}

}  // namespace

const char* gguf_type_name(GgufType type) { return kTypes[static_cast<uint32_t>(type)].name; }
size_t gguf_type_bytes(GgufType type) { return kTypes[static_cast<uint32_t>(type)].bytes; }

GgufValue GgufValue::numbers(GgufType element, bool is_array, uint64_t count,
                             std::span<const std::byte> raw) {
  GgufValue value;
  value.element_ = element;
  value.is_array_ = is_array;
  value.count_ = count;
  value.raw_ = raw;
  return value;
}

GgufValue GgufValue::strings(bool is_array, std::vector<std::string_view> strings,
                             std::span<const std::byte> raw) {
  GgufValue value;
  value.element_ = GgufType::kString;
  value.is_array_ = is_array;
  value.count_ = strings.size();
  value.raw_ = raw;
  value.strings_ = std::move(strings);
  return value;
}

std::string GgufValue::type_name() const {
  if (!is_array_) return gguf_type_name(element_);
  return fmt::format("array of {} {}{}", count_, gguf_type_name(element_), count_ == 1 ? "" : "s");
}

std::string GgufValue::text_at(uint64_t i) const {
  if (element_ == GgufType::kString) return std::string(strings_[i]);
  return number_text(load_number(element_, raw_.data() + i * gguf_type_bytes(element_)));
}

template <class T>
Result<T> GgufValue::as() const {
  constexpr bool kStrings = std::is_same_v<T, std::span<const std::string_view>>;
  if constexpr (kStrings) {
    if (is_array_ && element_ == GgufType::kString) return T(strings_);
    return failed_precondition("should be an array of strings, but is {}", type_name());
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    if (!is_array_ && element_ == GgufType::kString) return strings_[0];
    return failed_precondition("should be a string, but is {}", type_name());
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (is_array_ || element_ == GgufType::kString) {
      return failed_precondition("should be {}, but is {}", expected_name<T>(), type_name());
    }
    const Number number = load_number(element_, raw_.data());
    if (const std::optional<T> value = convert<T>(number)) return *value;
    return failed_precondition("should be {}, but is {} ({})", expected_name<T>(),
                               number_text(number), gguf_type_name(element_));
  } else {
    using Element = typename T::value_type;
    if (!is_array_ || element_ == GgufType::kString) {
      return failed_precondition("should be an array whose elements are each {}, but is {}",
                                 expected_name<Element>(), type_name());
    }
    T values;
    values.reserve(count_);
    const size_t bytes = gguf_type_bytes(element_);
    for (uint64_t i = 0; i < count_; ++i) {
      const Number number = load_number(element_, raw_.data() + i * bytes);
      const std::optional<Element> value = convert<Element>(number);
      if (!value) {
        return failed_precondition(
            "should be an array whose elements are each {}, but element {} is {} ({})",
            expected_name<Element>(), i, number_text(number), gguf_type_name(element_));
      }
      values.push_back(*value);
    }
    return values;
  }
}

template Result<bool> GgufValue::as() const;
template Result<uint32_t> GgufValue::as() const;
template Result<int32_t> GgufValue::as() const;
template Result<uint64_t> GgufValue::as() const;
template Result<int64_t> GgufValue::as() const;
template Result<float> GgufValue::as() const;
template Result<double> GgufValue::as() const;
template Result<std::string_view> GgufValue::as() const;
template Result<std::vector<uint32_t>> GgufValue::as() const;
template Result<std::vector<int32_t>> GgufValue::as() const;
template Result<std::vector<uint64_t>> GgufValue::as() const;
template Result<std::vector<int64_t>> GgufValue::as() const;
template Result<std::vector<float>> GgufValue::as() const;
template Result<std::span<const std::string_view>> GgufValue::as() const;

}  // namespace strata
