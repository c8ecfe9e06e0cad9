// Methods of strings.
#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text_ops.h"

namespace strata::jinja {
namespace {

constexpr std::size_t kNpos = std::string_view::npos;

Value strip_side(Runtime& runtime, const Value& self, const Args& args, Side side) {
  const Bindings given("strip", args, {"chars?"});
  const Text* characters = given.text(0);
  // Every character is compared with the whole set.
  runtime.step_bytes(self.text().size() * (1 + (characters == nullptr ? 0 : characters->size())));
  return runtime.make_text(strip(self.text(), characters, side));
}
Value method_strip(Runtime& r, const Value& s, const Args& a) {
  return strip_side(r, s, a, Side::kBoth);
}
Value method_lstrip(Runtime& r, const Value& s, const Args& a) {
  return strip_side(r, s, a, Side::kLeft);
}
Value method_rstrip(Runtime& r, const Value& s, const Args& a) {
  return strip_side(r, s, a, Side::kRight);
}

Value texts_to_list(Runtime& runtime, std::vector<Text> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(runtime.make_text(std::move(part)));
  return runtime.make_list(std::move(items));
}

Value method_split(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("split", args, {"sep?", "maxsplit?"});
  runtime.step_bytes(self.text().size());
  const std::int64_t limit = given.integer(1, -1);
  const Text* separator = given.text(0);
  return texts_to_list(runtime, separator == nullptr ? split_spaces(self.text(), limit)
                                                     : split(self.text(), *separator, limit));
}

Value method_rsplit(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("rsplit", args, {"sep?", "maxsplit?"});
  runtime.step_bytes(self.text().size());
  const std::int64_t limit = given.integer(1, -1);
  const Text* separator = given.text(0);
  return texts_to_list(runtime, separator == nullptr ? split_spaces_right(self.text(), limit)
                                                     : split_right(self.text(), *separator, limit));
}

Value method_splitlines(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("splitlines", args, {"keepends?"});
  runtime.step_bytes(self.text().size());
  return texts_to_list(runtime, split_lines(self.text(), given.truth(0, false)));
}

// The part of a string that the optional arguments start and end leave; nothing when start lies
// beyond the end.
std::optional<std::pair<std::size_t, std::size_t>> window(Runtime& runtime, const Text& text,
                                                          const Bindings& given) {
  if (!given.has(1) && !given.has(2)) return std::pair<std::size_t, std::size_t>(0, text.size());
  runtime.step_bytes(text.size());
  const auto length = static_cast<std::int64_t>(count_code_points(text.view()));
  const auto resolve = [&](std::size_t index, std::int64_t fallback) {
    std::int64_t bound =
        given.has(index) && given[index].is_none() ? fallback : given.integer(index, fallback);
    if (bound < 0) bound = std::max<std::int64_t>(bound + length, 0);
    return bound;
  };
  const std::int64_t begin = resolve(1, 0);
  const std::int64_t end = std::min(resolve(2, length), length);
  if (begin > end) return std::nullopt;
  return std::pair(offset_of_code_point(text.view(), static_cast<std::size_t>(begin)),
                   offset_of_code_point(text.view(), static_cast<std::size_t>(end)));
}

bool has_affix(Runtime& runtime, const Value& self, const Args& args, bool prefix) {
  const char* name = prefix ? "startswith" : "endswith";
  const Bindings given(name, args, {"prefix", "start?", "end?"});
  const auto part = window(runtime, self.text(), given);
  const auto matches = [&](const Value& affix) {
    if (affix.is_undefined()) fail_undefined(affix);
    if (!affix.is_text()) fail("{} needs a string or a tuple of strings", name);
    if (!part) return false;
    const std::string_view view = self.view().substr(part->first, part->second - part->first);
    runtime.step_bytes(affix.view().size());
    return prefix ? view.starts_with(affix.view()) : view.ends_with(affix.view());
  };
  if (given[0].is_list() && given[0].list().kind == ListKind::kTuple) {
    const auto& affixes = given[0].list().items;
    return std::any_of(affixes.begin(), affixes.end(), matches);
  }
  return matches(given[0]);
}
Value method_startswith(Runtime& r, const Value& s, const Args& a) {
  return Value::boolean(has_affix(r, s, a, true));
}
Value method_endswith(Runtime& r, const Value& s, const Args& a) {
  return Value::boolean(has_affix(r, s, a, false));
}

const Text& needed_text(const Bindings& given, std::size_t index, const char* method) {
  const Text* text = given.text(index);
  if (text == nullptr) fail("{} needs a string, not None", method);
  return *text;
}

Value method_replace(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("replace", args, {"old", "new", "count?"});
  runtime.step_bytes(self.text().size());
  return runtime.make_text(replace(self.text(), needed_text(given, 0, "replace"),
                                   needed_text(given, 1, "replace"), given.integer(2, -1)));
}

template <Text (*kMap)(const Text&)>
Value mapped(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("this method", args, {});
  return runtime.make_text(kMap(self.text()));
}

Text swap_case(const Text& text) {
  Text out;
  text.for_each_run([&](std::string_view run, bool trusted) {
    std::string swapped;
    for (std::size_t pos = 0; pos < run.size();) {
      const CodePoint c = decode_at(run, pos);
      if (is_upper(c.value))
        append_lower(c.value, swapped);
      else
        append_upper(c.value, swapped);
      pos += c.size;
    }
    out.append(swapped, trusted);
  });
  return out;
}

// Byte position of the first or last occurrence within the window; npos when there is none.
std::size_t locate(Runtime& runtime, const Value& self, const Bindings& given, bool first,
                   const char* method) {
  const Text& needle = needed_text(given, 0, method);
  runtime.step_bytes(self.text().size() + needle.size());
  const auto part = window(runtime, self.text(), given);
  if (!part) return kNpos;
  const std::string_view view = self.view().substr(part->first, part->second - part->first);
  const std::size_t hit = first ? find_bytes(view, needle.view()) : find_last(view, needle.view());
  return hit == kNpos ? kNpos : hit + part->first;
}

template <bool kFirst, bool kMustExist>
Value method_find(Runtime& runtime, const Value& self, const Args& args) {
  const char* name = kMustExist ? "index" : "find";
  const Bindings given(name, args, {"sub", "start?", "end?"});
  const std::size_t hit = locate(runtime, self, given, kFirst, name);
  if (hit == kNpos) {
    if (kMustExist) fail("the string searched for is not there");
    return Value::integer(-1);
  }
  return Value::integer(static_cast<std::int64_t>(count_code_points(self.view().substr(0, hit))));
}

Value method_count(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("count", args, {"sub", "start?", "end?"});
  const Text& needle = needed_text(given, 0, "count");
  runtime.step_bytes(self.text().size() + needle.size());
  const auto part = window(runtime, self.text(), given);
  if (!part) return Value::integer(0);
  const std::string_view view = self.view().substr(part->first, part->second - part->first);
  if (needle.empty()) return Value::integer(static_cast<std::int64_t>(count_code_points(view)) + 1);
  std::int64_t count = 0;
  for (std::size_t pos = 0; (pos = find_bytes(view, needle.view(), pos)) != kNpos;
       pos += needle.size()) {
    ++count;
  }
  return Value::integer(count);
}

Value method_join(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("join", args, {"iterable"});
  Text out;
  bool first = true;
  for (const Value& item : iterate(runtime, given[0])) {
    if (!item.is_text()) fail("join needs strings, not {}", type_name(item));
    runtime.step_bytes(self.text().size() + item.text().size());
    if (!first) out.append(self.text());
    first = false;
    out.append(item.text());
  }
  return runtime.make_text(std::move(out));
}

Value method_format(Runtime& runtime, const Value& self, const Args& args) {
  return brace_format(runtime, self.text(), args);
}

// True when the string is not empty and all its characters pass.
template <bool (*kTest)(char32_t)>
Value all_characters(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("this method", args, {});
  const std::string_view bytes = self.view();
  runtime.step_bytes(bytes.size());
  for (std::size_t pos = 0; pos < bytes.size();) {
    const CodePoint c = decode_at(bytes, pos);
    if (!kTest(c.value)) return Value::boolean(false);
    pos += c.size;
  }
  return Value::boolean(!bytes.empty());
}

bool is_letter_or_digit(char32_t c) { return is_alpha(c) || is_numeric(c); }

// True when there is a cased character and none of the other case.
template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
Value all_cased(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("this method", args, {});
  const std::string_view bytes = self.view();
  runtime.step_bytes(bytes.size());
  bool found = false;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const CodePoint c = decode_at(bytes, pos);
    if (kOther(c.value)) return Value::boolean(false);
    found = found || kWanted(c.value);
    pos += c.size;
  }
  return Value::boolean(found);
}

template <bool kPrefix>
Value remove_affix(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given(kPrefix ? "removeprefix" : "removesuffix", args, {"affix"});
  const Text& affix = needed_text(given, 0, "removeprefix");
  const Text& text = self.text();
  runtime.step_bytes(text.size());
  if (affix.empty() ||
      !(kPrefix ? text.view().starts_with(affix.view()) : text.view().ends_with(affix.view()))) {
    return self;
  }
  return runtime.make_text(kPrefix ? text.slice(affix.size())
                                   : text.slice(0, text.size() - affix.size()));
}

template <bool kFirst>
Value method_partition(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("partition", args, {"sep"});
  const Text& separator = needed_text(given, 0, "partition");
  if (separator.empty()) fail("partition needs a separator that is not empty");
  const Text& text = self.text();
  runtime.step_bytes(text.size());
  const std::size_t hit =
      kFirst ? find_bytes(text.view(), separator.view()) : find_last(text.view(), separator.view());
  std::vector<Value> parts;
  if (hit == kNpos) {
    parts = {self, runtime.make_text(Text()), runtime.make_text(Text())};
    if (!kFirst) std::swap(parts[0], parts[2]);
  } else {
    parts = {runtime.make_text(text.slice(0, hit)),
             runtime.make_text(text.slice(hit, hit + separator.size())),
             runtime.make_text(text.slice(hit + separator.size()))};
  }
  return runtime.make_list(std::move(parts), ListKind::kTuple);
}

// Parts of the missing width that go to the left: 0 none, 1 half, 2 all.
template <int kLeft>
Value method_justify(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("this method", args, {"width", "fillchar?"});
  const Text* fill = given.text(1);
  if (fill != nullptr && count_code_points(fill->view()) != 1) {
    fail("the fill character must be a string of one character");
  }
  const Text blank(" ", true);
  const auto length = static_cast<std::int64_t>(length_of(runtime, self));
  const std::int64_t width = given.integer(0, 0);
  if (width <= length) return self;
  const std::int64_t missing = width - length;
  if (missing > static_cast<std::int64_t>(kMaxTextBytes)) fail_limit("a string grew too long");
  const std::int64_t left = kLeft == 0   ? 0
                            : kLeft == 2 ? missing
                                         : missing / 2 + (missing & width & 1);
  runtime.step(static_cast<std::size_t>(missing));
  Text out;
  for (std::int64_t i = 0; i < left; ++i) out.append(fill == nullptr ? blank : *fill);
  out.append(self.text());
  for (std::int64_t i = left; i < missing; ++i) out.append(fill == nullptr ? blank : *fill);
  return runtime.make_text(std::move(out));
}

Value method_zfill(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("zfill", args, {"width"});
  const auto length = static_cast<std::int64_t>(length_of(runtime, self));
  const std::int64_t missing = given.integer(0, 0) - length;
  if (missing <= 0) return self;
  if (missing > static_cast<std::int64_t>(kMaxTextBytes)) fail_limit("a string grew too long");
  const bool sign = !self.text().empty() && (self.view()[0] == '-' || self.view()[0] == '+');
  Text out = self.text().slice(0, sign ? 1 : 0);
  out.append(std::string(static_cast<std::size_t>(missing), '0'), true);
  out.append(self.text(), sign ? 1 : 0, self.text().size());
  return runtime.make_text(std::move(out));
}

constexpr std::array<Method, 38> kMethods = {{
    {"strip", method_strip},
    {"lstrip", method_lstrip},
    {"rstrip", method_rstrip},
    {"split", method_split},
    {"rsplit", method_rsplit},
    {"splitlines", method_splitlines},
    {"startswith", method_startswith},
    {"endswith", method_endswith},
    {"replace", method_replace},
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"casefold", mapped<to_lower>},
    {"title", mapped<title_words>},
    {"capitalize", mapped<capitalize>},
    {"swapcase", mapped<swap_case>},
    {"find", method_find<true, false>},
    {"rfind", method_find<false, false>},
    {"index", method_find<true, true>},
    {"rindex", method_find<false, true>},
    {"count", method_count},
    {"join", method_join},
    {"format", method_format},
    {"isspace", all_characters<is_space>},
    {"isalpha", all_characters<is_alpha>},
    {"isalnum", all_characters<is_letter_or_digit>},
    {"isdigit", all_characters<is_decimal>},
    {"isdecimal", all_characters<is_decimal>},
    {"isnumeric", all_characters<is_numeric>},
    {"isupper", all_cased<is_upper, is_lower>},
    {"islower", all_cased<is_lower, is_upper>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"partition", method_partition<true>},
    {"rpartition", method_partition<false>},
    {"ljust", method_justify<0>},
    {"center", method_justify<1>},
    {"rjust", method_justify<2>},
    {"zfill", method_zfill},
}};

}  // namespace

const Method* find_text_method(std::string_view name) {
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&](const Method& method) { return method.name == name; });
  return found == kMethods.end() ? nullptr : &*found;
}

}  // namespace strata::jinja
