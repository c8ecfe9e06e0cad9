// Methods of dicts, lists, loops and cyclers.
#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {
namespace {

Value dict_get(Runtime&, const Value& self, const Args& args) {
  const Bindings given("get", args, {"key", "default?"});
  if (!args.named.empty()) fail("get takes its arguments by position");
  if (const Value* found = self.dict().find(given[0])) return *found;
  return given.has(1) ? given[1] : Value(None{});
}

Value dict_items(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("items", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries()) {
    items.push_back(runtime.make_list({key, value}, ListKind::kTuple));
  }
  return runtime.make_view(std::move(items), "dict_items");
}

Value dict_keys(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("keys", args, {});
  return runtime.make_view(iterate(runtime, self), "dict_keys");
}

Value dict_values(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("values", args, {});
  std::vector<Value> values;
  for (const auto& entry : self.dict().entries()) values.push_back(entry.second);
  return runtime.make_view(std::move(values), "dict_values");
}

// Values never change, so a copy is the value itself.
Value copy(Runtime&, const Value& self, const Args& args) {
  const Bindings given("copy", args, {});
  return self;
}

Value list_index(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("index", args, {"value", "start?", "stop?"});
  const auto& items = self.list().items;
  const auto size = static_cast<std::int64_t>(items.size());
  const auto resolve = [&](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + size : bound, 0, size);
  };
  const std::int64_t stop = resolve(given.integer(2, size));
  for (std::int64_t i = resolve(given.integer(1, 0)); i < stop; ++i) {
    if (equal(runtime, items[static_cast<std::size_t>(i)], given[0])) return Value::integer(i);
  }
  fail("the value searched for is not in the list");
}

Value list_count(Runtime& runtime, const Value& self, const Args& args) {
  const Bindings given("count", args, {"value"});
  std::int64_t count = 0;
  for (const Value& item : self.list().items) count += equal(runtime, item, given[0]);
  return Value::integer(count);
}

Value loop_cycle(Runtime&, const Value& self, const Args& args) {
  const auto& loop = *static_cast<const Loop*>(self.object());
  if (args.positional.empty() || !args.named.empty())
    fail("loop.cycle needs values to choose from");
  return args.positional[loop.index % args.positional.size()];
}

Value loop_changed(Runtime& runtime, const Value& self, const Args& args) {
  auto& loop = *static_cast<Loop*>(self.object());
  Value current = runtime.make_list(args.positional, ListKind::kTuple);
  if (loop.last_changed && equal(runtime, *loop.last_changed, current)) {
    return Value::boolean(false);
  }
  loop.last_changed = std::move(current);
  return Value::boolean(true);
}

Value cycler_next(Runtime&, const Value& self, const Args& args) {
  const Bindings given("next", args, {});
  auto& cycler = *static_cast<Cycler*>(self.object());
  const Value& item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

Value cycler_reset(Runtime&, const Value& self, const Args& args) {
  const Bindings given("reset", args, {});
  static_cast<Cycler*>(self.object())->position = 0;
  return Value(None{});
}

// A null function marks a method that exists but would change its object, which the sandbox of the
// original forbids.
constexpr std::array<Method, 10> kDictMethods = {{
    {"get", dict_get},
    {"items", dict_items},
    {"keys", dict_keys},
    {"values", dict_values},
    {"copy", copy},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"clear", nullptr},
    {"update", nullptr},
    {"setdefault", nullptr},
}};
constexpr std::array<Method, 11> kListMethods = {{
    {"index", list_index},
    {"count", list_count},
    {"copy", copy},
    {"append", nullptr},
    {"clear", nullptr},
    {"pop", nullptr},
    {"reverse", nullptr},
    {"insert", nullptr},
    {"sort", nullptr},
    {"extend", nullptr},
    {"remove", nullptr},
}};
constexpr std::size_t kTupleMethods = 2;  // index and count, the first of kListMethods
constexpr std::array<Method, 2> kLoopMethods = {{{"cycle", loop_cycle}, {"changed", loop_changed}}};
constexpr std::array<Method, 2> kCyclerMethods = {{{"next", cycler_next}, {"reset", cycler_reset}}};

const Method* find_in(const Method* methods, std::size_t count, std::string_view name) {
  const Method* end = methods + count;
  const Method* found =
      std::find_if(methods, end, [&](const Method& method) { return method.name == name; });
  return found == end ? nullptr : found;
}

}  // namespace

const Method* find_container_method(const Value& self, std::string_view name) {
  if (self.is_dict()) return find_in(kDictMethods.data(), kDictMethods.size(), name);
  if (self.is_list()) {
    switch (self.list().kind) {
      case ListKind::kList: return find_in(kListMethods.data(), kListMethods.size(), name);
      case ListKind::kTuple:
      case ListKind::kGroup:
      case ListKind::kRange: return find_in(kListMethods.data(), kTupleMethods, name);
      case ListKind::kGenerator:
      case ListKind::kView: return nullptr;
    }
  }
  if (self.is_object(ObjectKind::kLoop)) {
    return find_in(kLoopMethods.data(), kLoopMethods.size(), name);
  }
  if (self.is_object(ObjectKind::kCycler)) {
    return find_in(kCyclerMethods.data(), kCyclerMethods.size(), name);
  }
  return nullptr;
}

}  // namespace strata::jinja
