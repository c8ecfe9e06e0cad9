// Filters that apply other filters and tests: map, select, reject and their kin, and attr.
#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/runtime.h"
#include "text/jinja/sequence_ops.h"

namespace strata::jinja {
namespace {

// The first positional argument as the name of a filter or test, the others as its arguments.
std::pair<std::string, Args> split_name(const Args& args, std::size_t name_at, const char* what) {
  const Value& name = args.positional[name_at];
  if (!name.is_text()) fail("{} needs the name of a filter or test as a string", what);
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(name_at) + 1,
                         args.positional.end());
  rest.named = args.named;
  return {std::string(name.view()), std::move(rest)};
}

Value filter_map(Runtime& runtime, const Value& input, const Args& args) {
  std::vector<Value> out;
  if (args.positional.empty()) {
    const Bindings given("map", args, {"attribute", "default?"});
    const Getter getter(given.get(0), given.get(1));
    for (const Value& item : iterate(runtime, input)) {
      runtime.step();
      out.push_back(getter(runtime, item));
    }
  } else {
    const auto [name, rest] = split_name(args, 0, "map");
    for (const Value& item : iterate(runtime, input)) {
      const Runtime::Level level(runtime);
      out.push_back(runtime.apply_filter(name, item, rest));
    }
  }
  return runtime.make_list(std::move(out), ListKind::kGenerator);
}

template <bool kKeep, bool kByAttribute>
Value filter_select(Runtime& runtime, const Value& input, const Args& args) {
  constexpr const char* kName = kByAttribute ? "selectattr" : "select";
  const Value* attribute = nullptr;
  if (kByAttribute) {
    if (args.positional.empty()) fail("{} needs the name of an attribute", kName);
    attribute = &args.positional[0];
  }
  const Getter getter(attribute);
  constexpr std::size_t kTestAt = kByAttribute ? 1 : 0;
  const bool has_test = args.positional.size() > kTestAt;
  std::pair<std::string, Args> test;
  if (has_test) test = split_name(args, kTestAt, kName);
  std::vector<Value> out;
  for (const Value& item : iterate(runtime, input)) {
    runtime.step();
    const Value subject = getter(runtime, item);
    const bool passes =
        has_test ? runtime.apply_test(test.first, subject, test.second) : is_true(subject);
    if (passes == kKeep) out.push_back(item);
  }
  return runtime.make_list(std::move(out), ListKind::kGenerator);
}

Value filter_attr(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("attr", args, {"name"});
  if (input.is_undefined()) fail_undefined(input);
  const Text* name = given.text(0);
  if (name == nullptr) fail("attr needs the name of an attribute");
  // Only true attributes: entries of a dict do not count.
  if (input.is_dict() && find_container_method(input, name->view()) == nullptr) {
    return Value::undefined(fmt::format("a dict has no attribute '{}'", name->view()));
  }
  return get_attribute(runtime, input, name->view());
}

struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};

constexpr std::array<NamedFilter, 6> kFilters = {{
    {"map", filter_map},
    {"select", filter_select<true, false>},
    {"reject", filter_select<false, false>},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<false, true>},
    {"attr", filter_attr},
}};

}  // namespace

FilterFunction find_select_filter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const NamedFilter& filter) { return filter.name == name; });
  return found == kFilters.end() ? nullptr : found->function;
}

}  // namespace strata::jinja
