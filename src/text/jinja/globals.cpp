// The global functions of chat templates.
#include <algorithm>
#include <array>
#include <chrono>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {
namespace {

Value global_range(Runtime& runtime, const Args& args) {
  const Bindings given("range", args, {"start", "stop?", "step?"});
  const bool one = !given.has(1);
  const std::int64_t start = one ? 0 : given.integer(0, 0);
  const std::int64_t stop = one ? given.integer(0, 0) : given.integer(1, 0);
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) fail("the step of range cannot be 0");
  std::vector<Value> items;
  std::int64_t i = start;
  while (step > 0 ? i < stop : i > stop) {
    if (static_cast<std::int64_t>(items.size()) >= kMaxRange) {
      fail_limit("a range is longer than {}", kMaxRange);
    }
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  auto list = std::make_shared<List>();
  list->charge = runtime.charge(sizeof(List) + items.size() * sizeof(Value));
  runtime.step(items.size() / 8);
  list->items = std::move(items);
  list->kind = ListKind::kRange;
  list->range[0] = start;
  list->range[1] = stop;
  list->range[2] = step;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

// The entries of dict(...) and namespace(...): a dict or pairs first, keywords after.
std::vector<std::pair<Value, Value>> gather_entries(Runtime& runtime, const Args& args,
                                                    const char* what) {
  if (args.positional.size() > 1) fail("{} takes at most one positional argument", what);
  std::vector<std::pair<Value, Value>> entries;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      entries = source.dict().entries();
    } else {
      for (const Value& item : iterate(runtime, source)) {
        const std::vector<Value> pair = iterate(runtime, item);
        if (pair.size() != 2) fail("{} needs pairs", what);
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) {
    entries.emplace_back(runtime.make_text(name, true), value);
  }
  return entries;
}

Value global_dict(Runtime& runtime, const Args& args) {
  Dict dict;
  for (auto& [key, value] : gather_entries(runtime, args, "dict")) {
    dict.set(std::move(key), std::move(value));
  }
  return runtime.make_dict(std::move(dict));
}

Value global_namespace(Runtime& runtime, const Args& args) {
  auto* space = runtime.make_object<Namespace>();
  for (auto& [key, value] : gather_entries(runtime, args, "namespace")) {
    if (!key.is_text()) fail("an attribute of a namespace needs a string as its name");
    space->attributes[std::string(key.view())] = std::move(value);
  }
  return Value(space);
}

Value global_cycler(Runtime& runtime, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) fail("cycler needs values to choose from");
  auto* cycler = runtime.make_object<Cycler>();
  cycler->items = args.positional;
  return Value(cycler);
}

Value global_joiner(Runtime& runtime, const Args& args) {
  const Bindings given("joiner", args, {"sep?"});
  auto* joiner = runtime.make_object<Joiner>();
  joiner->separator = given.has(0) ? given[0] : runtime.make_text(", ", true);
  return Value(joiner);
}

Value global_raise(Runtime& runtime, const Args& args) {
  const Bindings given("raise_exception", args, {"message"});
  throw Failure{FailureKind::kRaised, to_text(runtime, given[0]).str(), 0};
}

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

std::string format_time_code(std::chrono::sys_seconds now, char code, bool unpadded) {
  using std::chrono::days;
  const auto day = std::chrono::floor<days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(now - day);
  const unsigned weekday = std::chrono::weekday(day).c_encoding();
  const unsigned month = static_cast<unsigned>(date.month());
  const int year = static_cast<int>(date.year());
  const auto hours = clock.hours().count();
  const auto half_day = hours % 12 == 0 ? 12 : hours % 12;
  const auto of_year =
      (day - std::chrono::sys_days(date.year() / std::chrono::January / 1)).count();
  const auto number = [&](auto value, int width) {
    return unpadded ? std::to_string(value) : fmt::format("{:0{}}", value, width);
  };
  const auto nested = [&](std::string_view codes, const char* between) {
    std::string out;
    for (const char c : codes) {
      if (!out.empty()) out += between;
      out += format_time_code(now, c, false);
    }
    return out;
  };
  switch (code) {
    case 'a': return std::string(kDays[weekday], 3);
    case 'A': return kDays[weekday];
    case 'b':
    case 'h': return std::string(kMonths[month - 1], 3);
    case 'B': return kMonths[month - 1];
    case 'c':
      return fmt::format("{} {} {:2} {} {}", format_time_code(now, 'a', false),
                         format_time_code(now, 'b', false), static_cast<unsigned>(date.day()),
                         format_time_code(now, 'T', false), year);
    case 'd': return number(static_cast<unsigned>(date.day()), 2);
    case 'D':
    case 'x': return nested("mdy", "/");
    case 'e': return fmt::format("{:2}", static_cast<unsigned>(date.day()));
    case 'F': return fmt::format("{}-{:02}-{:02}", year, month, static_cast<unsigned>(date.day()));
    case 'H': return number(hours, 2);
    case 'I': return number(half_day, 2);
    case 'j': return number(of_year + 1, 3);
    case 'm': return number(month, 2);
    case 'M': return number(clock.minutes().count(), 2);
    case 'n': return "\n";
    case 'p': return hours < 12 ? "AM" : "PM";
    case 'R': return nested("HM", ":");
    case 's': return std::to_string(now.time_since_epoch().count());
    case 'S': return number(clock.seconds().count(), 2);
    case 't': return "\t";
    case 'T':
    case 'X': return nested("HMS", ":");
    case 'u': return std::to_string(weekday == 0 ? 7 : weekday);
    case 'w': return std::to_string(weekday);
    case 'y': return number(year % 100, 2);
    case 'Y': return std::to_string(year);
    case 'z':
    case 'Z': return "";
    case '%': return "%";
    default: fail("strftime_now does not know the code '%{}'", code);
  }
}

Value global_strftime_now(Runtime& runtime, const Args& args) {
  const Bindings given("strftime_now", args, {"format"});
  const Text* pattern = given.text(0);
  if (pattern == nullptr) fail("strftime_now needs a format");
  runtime.step_bytes(pattern->size() * 8);
  const std::string_view view = pattern->view();
  std::string out;
  for (std::size_t i = 0; i < view.size(); ++i) {
    if (view[i] != '%' || i + 1 == view.size()) {
      out += view[i];
      continue;
    }
    const bool unpadded = view[i + 1] == '-' && i + 2 < view.size();
    i += unpadded ? 2 : 1;
    out += format_time_code(*runtime.now(), view[i], unpadded);
  }
  return runtime.make_text(std::move(out), pattern->fully_trusted());
}

struct NamedGlobal {
  std::string_view name;
  Builtin::Function function;
};

constexpr std::array<NamedGlobal, 7> kGlobals = {{
    {"range", global_range},
    {"dict", global_dict},
    {"namespace", global_namespace},
    {"cycler", global_cycler},
    {"joiner", global_joiner},
    {"raise_exception", global_raise},
    {"strftime_now", global_strftime_now},
}};

}  // namespace

Builtin::Function find_global(std::string_view name) {
  const auto found = std::find_if(kGlobals.begin(), kGlobals.end(),
                                  [&](const NamedGlobal& global) { return global.name == name; });
  return found == kGlobals.end() ? nullptr : found->function;
}

}  // namespace strata::jinja
