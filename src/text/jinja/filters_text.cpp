// Filters that make strings or numbers.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text_ops.h"

namespace strata::jinja {
namespace {

Value filter_trim(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("trim", args, {"chars?"});
  const Text* characters = given.text(0);
  const Text text = to_text(runtime, input);
  runtime.step_bytes(text.size() * (characters == nullptr ? 0 : characters->size()));
  return runtime.make_text(strip(text, characters, Side::kBoth));
}

template <Text (*kMap)(const Text&)>
Value mapped(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("this filter", args, {});
  return runtime.make_text(kMap(to_text(runtime, input)));
}

Value filter_string(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("string", args, {});
  return input.is_text() ? input : runtime.make_text(to_text(runtime, input));
}

Value filter_replace(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("replace", args, {"old", "new", "count?"});
  const std::int64_t limit =
      given.has(2) && !given[2].is_none() ? given.integer(2, -1) : std::int64_t{-1};
  return runtime.make_text(replace(to_text(runtime, input), to_text(runtime, given[0]),
                                   to_text(runtime, given[1]), limit));
}

Text escape_html(const Text& text) {
  Text out;
  text.for_each_run([&](std::string_view run, bool trusted) {
    std::string escaped;
    for (const char c : run) {
      switch (c) {
        case '&': escaped += "&amp;"; break;
        case '<': escaped += "&lt;"; break;
        case '>': escaped += "&gt;"; break;
        case '\'': escaped += "&#39;"; break;
        case '"': escaped += "&#34;"; break;
        default: escaped += c;
      }
    }
    out.append(escaped, trusted);
  });
  return out;
}

Value filter_indent(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("indent", args, {"width?", "first?", "blank?"});
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_text()) fail("indent needs a string, not {}", type_name(input));
  Text margin;
  if (given.has(0) && given[0].is_text()) {
    margin = given[0].text();
  } else {
    const std::int64_t width = given.integer(0, 4);
    if (width > static_cast<std::int64_t>(kMaxTextBytes)) fail_limit("an indentation is too wide");
    margin =
        Text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '), true);
  }
  const bool blank = given.truth(2, false);
  Text text = input.text();
  text.append("\n", true);
  Text out;
  if (given.truth(1, false)) out.append(margin);
  bool first = true;
  for (const Text& line : split_lines(text, false)) {
    runtime.step_bytes(line.size() + margin.size());
    if (!first) {
      out.append("\n", true);
      if (blank || !line.empty()) out.append(margin);
    }
    first = false;
    out.append(line);
  }
  return runtime.make_text(std::move(out));
}

Value filter_format(Runtime& runtime, const Value& input, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    fail("format takes either positional or named values, not both");
  }
  const Text pattern = to_text(runtime, input);
  if (args.named.empty()) {
    return percent_format(runtime, pattern, runtime.make_list(args.positional, ListKind::kTuple));
  }
  Dict values;
  for (const auto& [name, value] : args.named) values.set(runtime.make_text(name, true), value);
  return percent_format(runtime, pattern, runtime.make_dict(std::move(values)));
}

Value filter_wordcount(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("wordcount", args, {});
  const Text text = to_text(runtime, input);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const CodePoint c = decode_at(text.view(), pos);
    const bool part = c.value == '_' || is_alpha(c.value) || is_numeric(c.value);
    words += part && !inside;
    inside = part;
    pos += c.size;
  }
  return Value::integer(words);
}

// Percent-encodes all but letters, digits and "_.-~"; a path also keeps "/", a query turns blanks
// into "+".
Text url_quote(const Text& text, bool query) {
  Text out;
  text.for_each_run([&](std::string_view run, bool trusted) {
    std::string quoted;
    for (const char c : run) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '~' ||
                         (c == '/' && !query);
      if (plain) {
        quoted += c;
      } else if (c == ' ' && query) {
        quoted += '+';
      } else {
        quoted += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
      }
    }
    out.append(quoted, trusted);
  });
  return out;
}

Value filter_urlencode(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("urlencode", args, {});
  if (input.is_text() || !is_iterable(input)) {
    return runtime.make_text(url_quote(to_text(runtime, input), false));
  }
  Text out;
  const auto pair = [&](const Value& key, const Value& value) {
    if (!out.empty()) out.append("&", true);
    out.append(url_quote(to_text(runtime, key), true));
    out.append("=", true);
    out.append(url_quote(to_text(runtime, value), true));
  };
  if (input.is_dict()) {
    for (const auto& [key, value] : input.dict().entries()) pair(key, value);
  } else {
    for (const Value& item : iterate(runtime, input)) {
      if (!item.is_list() || item.list().items.size() != 2) fail("urlencode needs pairs");
      pair(item.list().items[0], item.list().items[1]);
    }
  }
  return runtime.make_text(std::move(out));
}

Value filter_tojson(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("tojson", args, {"ensure_ascii?", "indent?", "separators?", "sort_keys?"});
  JsonStyle style;
  style.ascii_only = given.truth(0, false);
  style.sort_keys = given.truth(3, false);
  if (given.has(1) && !given[1].is_none()) {
    if (given[1].is_text()) {
      style.indent = given[1].text();
    } else {
      const std::int64_t width = std::clamp<std::int64_t>(given.integer(1, 0), 0, 1000);
      style.indent = Text(std::string(static_cast<std::size_t>(width), ' '), true);
    }
    style.item_separator = Text(",", true);
  }
  if (given.has(2) && !given[2].is_none()) {
    if (!given[2].is_list() || given[2].list().items.size() != 2 ||
        !given[2].list().items[0].is_text() || !given[2].list().items[1].is_text()) {
      fail("the separators of tojson must be two strings");
    }
    style.item_separator = given[2].list().items[0].text();
    style.key_separator = given[2].list().items[1].text();
  }
  return runtime.make_text(to_json(runtime, input, style));
}

// A decimal number with blanks around it and underscores between digits, as int() and float() read.
std::string clean_number(std::string_view text) {
  const Text stripped = strip(Text(std::string(text), true), nullptr, Side::kBoth);
  std::string out;
  const std::string_view digits = stripped.view();
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const auto is_alnum = [&](std::size_t k) {
      return k < digits.size() && std::isalnum(static_cast<unsigned char>(digits[k])) != 0;
    };
    if (digits[i] == '_' && i > 0 && is_alnum(i - 1) && is_alnum(i + 1)) continue;
    out += digits[i];
  }
  return out;
}

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  std::string number = clean_number(text);
  std::size_t pos = 0;
  bool negative = false;
  if (!number.empty() && (number[0] == '-' || number[0] == '+')) {
    negative = number[0] == '-';
    pos = 1;
  }
  const auto prefixed = [&](char mark) {
    return number.size() > pos + 2 && number[pos] == '0' && (number[pos + 1] | 0x20) == mark;
  };
  if ((base == 16 && prefixed('x')) || (base == 8 && prefixed('o')) ||
      (base == 2 && prefixed('b'))) {
    pos += 2;
  }
  std::string digits;
  if (negative) digits += '-';
  digits.append(number, pos);
  std::int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (read.ec == std::errc::result_out_of_range) fail("a whole number does not fit 64 bits");
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  if (pos < number.size() && number[pos] == '-') return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  std::string number = clean_number(text);
  if (number.starts_with('+')) number.erase(0, 1);
  if (number.starts_with('+')) return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  if (read.ptr != number.data() + number.size() || read.ptr == number.data()) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) {
    const bool tiny =
        number.find("e-") != std::string::npos || number.find("E-") != std::string::npos;
    value = tiny ? 0.0 : HUGE_VAL;
    return number.starts_with('-') ? -value : value;
  }
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

Value filter_int(Runtime&, const Value& input, const Args& args) {
  const Bindings given("int", args, {"default?", "base?"});
  if (input.is_undefined()) fail_undefined(input);
  std::optional<double> real;
  if (input.is_text()) {
    const std::int64_t base = given.integer(1, 10);
    if (base < 2 || base > 36) fail("the base of int must lie between 2 and 36");
    if (const auto whole = parse_integer(input.view(), static_cast<int>(base))) {
      return Value::integer(*whole);
    }
    real = parse_float(input.view());
  } else if (const auto whole = input.integral()) {
    return Value::integer(*whole);
  } else if (input.is_big()) {
    return input;
  } else if (input.is_float()) {
    real = input.as_float();
  }
  if (real && std::isfinite(*real)) {
    if (std::fabs(*real) >= 9.2233720368547758e18) fail("a whole number does not fit 64 bits");
    return Value::integer(static_cast<std::int64_t>(*real));
  }
  return given.has(0) ? given[0] : Value::integer(0);
}

Value filter_float(Runtime&, const Value& input, const Args& args) {
  const Bindings given("float", args, {"default?"});
  if (input.is_undefined()) fail_undefined(input);
  const auto number = input.is_text() ? parse_float(input.view()) : input.numeric();
  if (number) return Value::real(*number);
  return given.has(0) ? given[0] : Value::real(0.0);
}

Value filter_abs(Runtime&, const Value& input, const Args& args) {
  const Bindings given("abs", args, {});
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_float()) return Value::real(std::fabs(input.as_float()));
  if (input.is_big()) return input;
  const auto number = input.integral();
  if (!number) fail("abs needs a number, not {}", type_name(input));
  return *number < 0 ? negate(input) : Value::integer(*number);
}

Value filter_round(Runtime&, const Value& input, const Args& args) {
  const Bindings given("round", args, {"precision?", "method?"});
  if (input.is_undefined()) fail_undefined(input);
  const auto number = input.numeric();
  if (!number) fail("round needs a number, not {}", type_name(input));
  const std::int64_t precision = std::clamp<std::int64_t>(given.integer(0, 0), -400, 400);
  const Text* method = given.text(1);
  const std::string_view how = method == nullptr ? "common" : method->view();
  if (how == "common") {
    if (const auto whole = input.integral(); whole && precision >= 0) return Value::integer(*whole);
    double rounded = *number;
    if (precision >= 0) {
      // Printing rounds the exact binary value, half to even, which is what Python's round() does.
      const std::string digits = fmt::format("{:.{}f}", *number, precision);
      std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
    } else {
      const double unit = std::pow(10.0, static_cast<double>(-precision));
      rounded = std::isfinite(unit) ? std::nearbyint(*number / unit) * unit : 0.0;
    }
    if (input.is_float()) return Value::real(rounded);
    if (std::fabs(rounded) >= 9.2233720368547758e18) fail("a whole number does not fit 64 bits");
    return Value::integer(static_cast<std::int64_t>(rounded));
  }
  if (how != "ceil" && how != "floor") fail("round knows the methods common, ceil and floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * unit;
  return Value::real((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};

constexpr std::array<NamedFilter, 20> kFilters = {{
    {"trim", filter_trim},
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"title", mapped<title_filter>},
    {"capitalize", mapped<capitalize>},
    {"string", filter_string},
    {"safe", filter_string},
    {"replace", filter_replace},
    {"escape", mapped<escape_html>},
    {"e", mapped<escape_html>},
    {"forceescape", mapped<escape_html>},
    {"indent", filter_indent},
    {"format", filter_format},
    {"wordcount", filter_wordcount},
    {"urlencode", filter_urlencode},
    {"tojson", filter_tojson},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
}};

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const NamedFilter& filter) { return filter.name == name; });
  return found == kFilters.end() ? nullptr : found->function;
}

}  // namespace strata::jinja
