#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/print.h"

namespace strata::jinja {
namespace {

// Widths and precisions beyond this are an error, not a way to fill the memory.
constexpr int kMaxWidth = 10'000;

struct Spec {
  std::string fill = " ";
  bool fill_trusted = true;
  char align = '\0';  // '<', '>', '^', '='
  char sign = '\0';   // '+', ' '
  bool alternate = false;
  bool commas = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

int read_count(std::string_view text, std::size_t& pos) {
  int count = 0;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    count = count * 10 + (text[pos++] - '0');
    if (count > kMaxWidth) fail_limit("a width in a format is larger than {}", kMaxWidth);
  }
  return count;
}

Text pad(Text text, const Spec& spec, char fallback_align) {
  const std::size_t length = count_code_points(text.view());
  const auto width = static_cast<std::size_t>(spec.width);
  if (length >= width) return text;
  const char align = spec.align == '\0' ? fallback_align : spec.align;
  const std::size_t missing = width - length;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  Text out;
  for (std::size_t i = 0; i < left; ++i) out.append(spec.fill, spec.fill_trusted);
  out.append(text);
  for (std::size_t i = left; i < missing; ++i) out.append(spec.fill, spec.fill_trusted);
  return out;
}

std::string group_digits(const std::string& digits) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  out.append(digits, whole);
  return out;
}

// Joins sign and digits; '=' puts the padding between them.
Text finish_number(bool negative, std::string digits, const Spec& spec) {
  if (spec.commas) digits = group_digits(digits);
  std::string sign;
  if (negative)
    sign = '-';
  else if (spec.sign != '\0')
    sign = spec.sign;
  if (spec.align == '=') {
    Spec inner = spec;
    inner.align = '>';
    inner.width = std::max(0, spec.width - static_cast<int>(sign.size()));
    Text out(sign, true);
    out.append(pad(Text(std::move(digits), true), inner, '>'));
    return out;
  }
  sign += digits;
  return pad(Text(std::move(sign), true), spec, '>');
}

Text format_integer(std::int64_t value, const Spec& spec) {
  const std::uint64_t magnitude =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string digits;
  switch (spec.type) {
    case 'x': digits = fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude); break;
    case 'X': digits = fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude); break;
    case 'o': digits = fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude); break;
    case 'b': digits = fmt::format("{}{:b}", spec.alternate ? "0b" : "", magnitude); break;
    default: digits = std::to_string(magnitude); break;
  }
  return finish_number(value < 0, std::move(digits), spec);
}

Text format_float(double value, const Spec& spec) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const double magnitude = std::fabs(value);
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
  } else {
    switch (spec.type) {
      case 'e': digits = fmt::format("{:.{}e}", magnitude, precision); break;
      case 'E': digits = fmt::format("{:.{}E}", magnitude, precision); break;
      case 'g': digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1)); break;
      case 'G': digits = fmt::format("{:.{}G}", magnitude, std::max(precision, 1)); break;
      case '%': digits = fmt::format("{:.{}f}%", magnitude * 100, precision); break;
      case '\0':
        digits = spec.precision < 0 ? float_repr(magnitude)
                                    : fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
        break;
      default: digits = fmt::format("{:.{}f}", magnitude, precision); break;
    }
  }
  return finish_number(std::signbit(value) && !std::isnan(value), std::move(digits), spec);
}

Text cut(const Text& text, int precision) {
  if (precision < 0) return text;
  return text.slice(0, offset_of_code_point(text.view(), static_cast<std::size_t>(precision)));
}

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// --- "..." % values -------------------------------------------------------------------------

Text percent_conversion(Runtime& runtime, const Value& value, Spec spec) {
  if (spec.type == 's') return pad(cut(to_text(runtime, value), spec.precision), spec, '>');
  if (spec.type == 'r') return pad(cut(to_repr(runtime, value), spec.precision), spec, '>');
  if (spec.type == 'c') {
    if (!value.is_text() || count_code_points(value.view()) != 1) {
      fail("%c needs a string of one character");
    }
    return pad(value.text(), spec, '>');
  }
  if (value.is_undefined()) fail_undefined(value);
  const auto number = value.numeric();
  if (!number) fail("%{} needs a number, not {}", spec.type, type_name(value));
  if (is_one_of(spec.type, "diuxXo")) {
    if (is_one_of(spec.type, "xXo") && value.is_float()) {
      fail("%{} needs a whole number, not a float", spec.type);
    }
    std::int64_t whole = 0;
    if (const auto integral = value.integral()) {
      whole = *integral;
    } else if (std::isfinite(*number) && std::fabs(*number) < 9.2e18) {
      whole = static_cast<std::int64_t>(*number);
    } else {
      fail("a whole number does not fit 64 bits");
    }
    return format_integer(whole, spec);
  }
  return format_float(*number, spec);
}

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& pattern, const Value& values)
      : runtime_(runtime), pattern_(pattern), values_(values) {
    is_tuple_ = values.is_list() &&
                (values.list().kind == ListKind::kTuple || values.list().kind == ListKind::kGroup);
  }

  Value run() {
    const std::string_view text = pattern_.view();
    std::size_t pos = 0;
    while (pos < text.size()) {
      const std::size_t percent = std::min(text.find('%', pos), text.size());
      out_.append(pattern_, pos, percent);
      pos = percent;
      if (pos < text.size()) conversion(text, pos);
    }
    const bool unused = is_tuple_ ? used_ < values_.list().items.size()
                                  : used_ == 0 && !values_.is_dict() && !values_.is_sequence();
    if (unused) fail("not all values of a '%' format are used by it");
    return runtime_.make_text(std::move(out_));
  }

 private:
  void conversion(std::string_view text, std::size_t& pos) {
    const std::size_t begin = pos++;
    const Value* named = nullptr;
    if (pos < text.size() && text[pos] == '(') {
      const std::size_t close = text.find(')', pos);
      if (close == std::string_view::npos) fail("a '%' format holds an unclosed name");
      if (!values_.is_dict()) fail("a '%' format with names needs a dict");
      const std::string_view name = text.substr(pos + 1, close - pos - 1);
      named = values_.dict().find(name);
      if (named == nullptr) fail("the dict of a '%' format has no entry '{}'", name);
      pos = close + 1;
    }
    Spec spec;
    for (; pos < text.size() && is_one_of(text[pos], "-+ #0"); ++pos) {
      switch (text[pos]) {
        case '-': spec.align = '<'; break;
        case '0':
          if (spec.align != '<') {
            spec.align = '=';
          }
          break;
        case '#': spec.alternate = true; break;
        default:
          if (spec.sign != '+') {
            spec.sign = text[pos];
          }
          break;
      }
    }
    spec.width = read_count(text, pos);
    if (pos < text.size() && text[pos] == '.') spec.precision = read_count(text, ++pos);
    if (pos >= text.size()) fail("a '%' format is incomplete");
    spec.type = text[pos++];
    if (spec.type == '%') {
      out_.append("%", pattern_.trusted_at(begin));
      return;
    }
    if (!is_one_of(spec.type, "srcdiuxXoeEfFgG")) {
      fail("'%{}' is not a known conversion", spec.type);
    }
    if (spec.align == '=') {
      if (is_one_of(spec.type, "src"))
        spec.align = '>';
      else
        spec.fill.assign(1, '0');
    }
    out_.append(percent_conversion(runtime_, named != nullptr ? *named : next_value(), spec));
  }

  const Value& next_value() {
    if (is_tuple_ ? used_ >= values_.list().items.size() : used_ > 0) {
      fail("a '%' format needs more values than it was given");
    }
    return is_tuple_ ? values_.list().items[used_++] : (++used_, values_);
  }

  Runtime& runtime_;
  const Text& pattern_;
  const Value& values_;
  bool is_tuple_ = false;
  std::size_t used_ = 0;
  Text out_;
};

// --- "...".format(values) ---------------------------------------------------------------------

Spec parse_spec(std::string_view text) {
  Spec spec;
  std::size_t pos = 0;
  if (!text.empty()) {
    const CodePoint first = decode_at(text, 0);
    if (first.size < text.size() && is_one_of(text[first.size], "<>=^")) {
      spec.fill = std::string(text.substr(0, first.size));
      spec.align = text[first.size];
      pos = first.size + 1;
    } else if (is_one_of(text[0], "<>=^")) {
      spec.align = text[0];
      pos = 1;
    }
  }
  const auto at = [&](std::size_t i) { return i < text.size() ? text[i] : '\0'; };
  if (at(pos) == '+' || at(pos) == '-' || at(pos) == ' ') {
    if (at(pos) != '-') spec.sign = at(pos);
    ++pos;
  }
  if (at(pos) == '#') {
    spec.alternate = true;
    ++pos;
  }
  if (at(pos) == '0') {
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    ++pos;
  }
  spec.width = read_count(text, pos);
  if (at(pos) == ',') {
    spec.commas = true;
    ++pos;
  }
  if (at(pos) == '.') {
    const std::size_t digits = ++pos;
    spec.precision = read_count(text, pos);
    if (pos == digits) fail("a format is missing its precision");
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos != text.size()) fail("'{}' is not a valid format", text);
  return spec;
}

Text format_value(Runtime& runtime, const Value& value, std::string_view spec_text, bool trusted) {
  if (spec_text.empty()) return to_text(runtime, value);
  Spec spec = parse_spec(spec_text);
  spec.fill_trusted = trusted;
  if (value.is_text()) {
    if ((spec.type != 's' && spec.type != '\0') || spec.sign != '\0' || spec.align == '=') {
      fail("the format '{}' does not suit a string", spec_text);
    }
    return pad(cut(value.text(), spec.precision), spec, '<');
  }
  const auto number = value.numeric();
  if (!number) fail("the format '{}' does not suit a {}", spec_text, type_name(value));
  if (const auto integral = value.integral(); integral && is_one_of(spec.type, {"dnxXob\0", 7})) {
    if (spec.precision >= 0) fail("the format '{}' does not suit a whole number", spec_text);
    return format_integer(*integral, spec);
  }
  if (!is_one_of(spec.type, {"eEfFgG%\0", 8})) {
    fail("the format '{}' does not suit a {}", spec_text, type_name(value));
  }
  return format_float(*number, spec);
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Text& pattern, const Args& args)
      : runtime_(runtime), pattern_(pattern), args_(args) {}

  Value run() {
    const std::string_view text = pattern_.view();
    std::size_t pos = 0;
    while (pos < text.size()) {
      const std::size_t brace = std::min(text.find_first_of("{}", pos), text.size());
      out_.append(pattern_, pos, brace);
      pos = brace;
      if (pos >= text.size()) break;
      if (pos + 1 < text.size() && text[pos + 1] == text[pos]) {
        out_.append(pattern_, pos, pos + 1);
        pos += 2;
        continue;
      }
      if (text[pos] == '}') fail("a format holds a single '}}'");
      const std::size_t close = text.find('}', pos);
      if (close == std::string_view::npos) fail("a format holds a '{{' that is never closed");
      field(text.substr(pos + 1, close - pos - 1));
      pos = close + 1;
    }
    return runtime_.make_text(std::move(out_));
  }

 private:
  void field(std::string_view text) {
    if (text.find('{') != std::string_view::npos)
      fail("nested fields in a format are not supported");
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view spec = colon < text.size() ? text.substr(colon + 1) : "";
    std::string_view name = text.substr(0, colon);
    char conversion = '\0';
    if (const std::size_t mark = name.find('!'); mark != std::string_view::npos) {
      if (name.size() != mark + 2 || !is_one_of(name[mark + 1], "sra")) {
        fail("a format holds an unknown conversion");
      }
      conversion = name[mark + 1];
      name = name.substr(0, mark);
    }
    Value value = lookup(name);
    if (conversion == 's') value = runtime_.make_text(to_text(runtime_, value));
    if (conversion == 'r' || conversion == 'a')
      value = runtime_.make_text(to_repr(runtime_, value));
    out_.append(format_value(runtime_, value, spec, pattern_.fully_trusted()));
  }

  // name, then any number of .attribute and [item].
  Value lookup(std::string_view name) {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, end));
    std::size_t pos = end;
    while (pos < name.size()) {
      if (name[pos] == '.') {
        const std::size_t stop = std::min(name.find_first_of(".[", pos + 1), name.size());
        value = get_attribute(runtime_, value, name.substr(pos + 1, stop - pos - 1));
        pos = stop;
      } else {
        const std::size_t close = name.find(']', pos);
        if (name[pos] != '[' || close == std::string_view::npos) fail("a format holds a bad field");
        const std::string_view key = name.substr(pos + 1, close - pos - 1);
        const bool digits = !key.empty() && key.find_first_not_of("0123456789") == key.npos;
        std::size_t scan = 0;
        value = get_item(runtime_, value,
                         digits ? Value::integer(read_count(key, scan))
                                : runtime_.make_text(std::string(key), true));
        pos = close + 1;
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    if (name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos) {
      std::size_t scan = 0;
      const bool automatic = name.empty();
      if (automatic ? numbered_ : next_ > 0) fail("a format mixes numbered and automatic fields");
      numbered_ = numbered_ || !automatic;
      const std::size_t index =
          automatic ? next_++ : static_cast<std::size_t>(read_count(name, scan));
      if (index >= args_.positional.size()) fail("a format needs more values than it was given");
      return args_.positional[index];
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    fail("a format has no value called '{}'", name);
  }

  Runtime& runtime_;
  const Text& pattern_;
  const Args& args_;
  std::size_t next_ = 0;
  bool numbered_ = false;
  Text out_;
};

}  // namespace

Value percent_format(Runtime& runtime, const Text& pattern, const Value& values) {
  runtime.step_bytes(pattern.size());
  return PercentFormatter(runtime, pattern, values).run();
}

Value brace_format(Runtime& runtime, const Text& pattern, const Args& args) {
  runtime.step_bytes(pattern.size());
  return BraceFormatter(runtime, pattern, args).run();
}

}  // namespace strata::jinja
