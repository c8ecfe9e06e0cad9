#include "text/jinja/runtime.h"

#include <algorithm>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace strata::jinja {

void Runtime::step(std::size_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) fail_limit("the template ran for more than {} steps", limits_.steps);
}

void Runtime::too_deep() {
  --depth_;
  fail_limit("macros and expressions are nested deeper than {} levels", limits_.depth);
}

Charge Runtime::charge(std::size_t bytes) {
  if (bytes > limits_.memory_bytes - std::min(live_bytes_, limits_.memory_bytes)) {
    fail_limit("the template needs more than {} MiB of memory", limits_.memory_bytes >> 20);
  }
  live_bytes_ += bytes;
  return Charge(&live_bytes_, bytes);
}

void Runtime::grow(Charge& existing, std::size_t bytes) {
  Charge more = charge(bytes);
  existing.absorb(std::move(more));
}

Value Runtime::make_text(Text text) {
  step_bytes(text.size());
  Charge share = charge(sizeof(TextNode) + text.footprint());
  return Value(std::make_shared<const TextNode>(TextNode{std::move(text), std::move(share)}));
}

std::shared_ptr<List> Runtime::build_list(std::vector<Value> items, ListKind kind) {
  step(items.size() / 8);
  auto list = std::make_shared<List>();
  list->charge = charge(sizeof(List) + items.size() * sizeof(Value));
  for (const Value& item : items) list->depth = std::max(list->depth, 1 + item.depth());
  if (list->depth > kMaxValueDepth) {
    fail_limit("lists are nested deeper than {} levels", kMaxValueDepth);
  }
  list->items = std::move(items);
  list->kind = kind;
  return list;
}

Value Runtime::make_list(std::vector<Value> items, ListKind kind) {
  return Value(std::shared_ptr<const List>(build_list(std::move(items), kind)));
}

Value Runtime::make_view(std::vector<Value> items, std::string_view name) {
  auto list = build_list(std::move(items), ListKind::kView);
  list->view_name = name;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Value Runtime::make_dict(Dict dict) {
  step(dict.size() / 2);
  if (dict.depth() > kMaxValueDepth) {
    fail_limit("dicts are nested deeper than {} levels", kMaxValueDepth);
  }
  dict.set_charge(charge(dict.footprint()));
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Value Runtime::make_bound(const Value& self, const Method* method) {
  return Value(std::make_shared<const Bound>(Bound{self, method}));
}

Value Runtime::apply_filter(std::string_view name, const Value& input, const Args& args) {
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) fail("there is no filter called '{}'", name);
  step();
  return filter(*this, input, args);
}

bool Runtime::apply_test(std::string_view name, const Value& input, const Args& args) {
  const TestFunction test = find_test(name);
  if (test == nullptr) fail("there is no test called '{}'", name);
  step();
  return test(*this, input, args);
}

FilterFunction find_filter(std::string_view name) {
  if (const FilterFunction filter = find_text_filter(name)) return filter;
  if (const FilterFunction filter = find_sequence_filter(name)) return filter;
  return find_select_filter(name);
}

Bindings::Bindings(std::string_view what, const Args& args,
                   std::initializer_list<std::string_view> parameters)
    : what_(what) {
  std::size_t required = 0;
  for (const std::string_view parameter : parameters) {
    const bool optional = parameter.ends_with('?');
    names_.emplace_back(optional ? parameter.substr(0, parameter.size() - 1) : parameter);
    if (!optional) ++required;
  }
  values_.resize(names_.size(), nullptr);
  if (args.positional.size() > names_.size()) {
    fail("{} takes at most {} arguments, {} were given", what, names_.size(),
         args.positional.size());
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto place = std::find(names_.begin(), names_.end(), name);
    if (place == names_.end()) fail("{} has no argument '{}'", what, name);
    const auto index = static_cast<std::size_t>(place - names_.begin());
    if (values_[index] != nullptr) fail("{} got its argument '{}' twice", what, name);
    values_[index] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) fail("{} needs its argument '{}'", what, names_[i]);
  }
}

std::int64_t Bindings::integer(std::size_t index, std::int64_t fallback) const {
  if (values_[index] == nullptr) return fallback;
  if (values_[index]->is_undefined()) fail_undefined(*values_[index]);
  const auto value = values_[index]->integral();
  if (!value) {
    fail("argument '{}' of {} must be a whole number, not {}", names_[index], what_,
         type_name(*values_[index]));
  }
  return *value;
}

bool Bindings::truth(std::size_t index, bool fallback) const {
  return values_[index] == nullptr ? fallback : is_true(*values_[index]);
}

const Text* Bindings::text(std::size_t index) const {
  if (values_[index] == nullptr || values_[index]->is_none()) return nullptr;
  if (values_[index]->is_undefined()) fail_undefined(*values_[index]);
  if (!values_[index]->is_text()) {
    fail("argument '{}' of {} must be a string, not {}", names_[index], what_,
         type_name(*values_[index]));
  }
  return &values_[index]->text();
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  const Method* method =
      object.is_text() ? find_text_method(name) : find_container_method(object, name);
  if (method != nullptr) {
    if (method->function == nullptr) {
      return Value::undefined(fmt::format(
          "'{}' would change a {}, and templates may not change values", name, type_name(object)));
    }
    return runtime.make_bound(object, method);
  }
  if (object.is_dict()) {
    if (const Value* found = object.dict().find(name)) return *found;
    return Value::undefined(fmt::format("the dict has no entry '{}'", name));
  }
  if (object.is_list() && object.list().kind == ListKind::kGroup) {
    if (name == "grouper") return object.list().items[0];
    if (name == "list") return object.list().items[1];
  }
  if (object.is_object(ObjectKind::kNamespace)) {
    const auto& attributes = static_cast<const Namespace*>(object.object())->attributes;
    const auto found = attributes.find(std::string(name));
    if (found != attributes.end()) return found->second;
  }
  if (object.is_object(ObjectKind::kLoop)) {
    const auto& loop = *static_cast<const Loop*>(object.object());
    const auto number = [](std::size_t n) { return Value::integer(static_cast<std::int64_t>(n)); };
    if (name == "index") return number(loop.index + 1);
    if (name == "index0") return number(loop.index);
    if (name == "revindex") return number(loop.items.size() - loop.index);
    if (name == "revindex0") return number(loop.items.size() - loop.index - 1);
    if (name == "length") return number(loop.items.size());
    if (name == "first") return Value::boolean(loop.index == 0);
    if (name == "last") return Value::boolean(loop.index + 1 == loop.items.size());
    // Only recursive loops, which are not part of this language, go deeper than 1.
    if (name == "depth") return Value::integer(1);
    if (name == "depth0") return Value::integer(0);
    if (name == "previtem") {
      return loop.index > 0 ? loop.items[loop.index - 1]
                            : Value::undefined("the loop has no item before the first");
    }
    if (name == "nextitem") {
      return loop.index + 1 < loop.items.size()
                 ? loop.items[loop.index + 1]
                 : Value::undefined("the loop has no item after the last");
    }
  }
  if (object.is_object(ObjectKind::kCycler) && name == "current") {
    const auto& cycler = *static_cast<const Cycler*>(object.object());
    return cycler.items[cycler.position];
  }
  return Value::undefined(fmt::format("a {} has no attribute '{}'", type_name(object), name));
}

namespace {

// Python's rules for an index: negative ones count from the end.
std::optional<std::size_t> resolve_index(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index);
}

// What [start:stop:step] selects from a sequence: first, first + step, ..., `count` items.
struct SliceRange {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::size_t count = 0;
  std::size_t at(std::size_t i) const {
    return static_cast<std::size_t>(first + static_cast<std::int64_t>(i) * step);
  }
};

SliceRange resolve_slice(std::size_t length, const Value* start, const Value* stop,
                         const Value* step_value) {
  const auto size = static_cast<std::int64_t>(length);
  const auto read = [](const Value* value) -> std::optional<std::int64_t> {
    if (value == nullptr || value->is_none()) return std::nullopt;
    if (value->is_undefined()) fail_undefined(*value);
    const auto number = value->integral();
    if (!number) fail("a slice needs whole numbers, not {}", type_name(*value));
    return number;
  };
  SliceRange range;
  range.step = read(step_value).value_or(1);
  if (range.step == 0) fail("the step of a slice cannot be 0");
  const bool forward = range.step > 0;
  const auto bound = [&](const Value* value, std::int64_t fallback) {
    const auto number = read(value);
    if (!number) return fallback;
    return std::clamp<std::int64_t>(*number < 0 ? *number + size : *number, forward ? 0 : -1,
                                    forward ? size : size - 1);
  };
  range.first = bound(start, forward ? 0 : size - 1);
  const std::int64_t last = bound(stop, forward ? size : -1);
  const std::int64_t distance = forward ? last - range.first : range.first - last;
  if (distance > 0) {
    // Negating as unsigned is defined for the most negative step too.
    const auto stride = forward ? static_cast<std::uint64_t>(range.step)
                                : 0 - static_cast<std::uint64_t>(range.step);
    range.count = static_cast<std::size_t>((static_cast<std::uint64_t>(distance) - 1) / stride + 1);
  }
  return range;
}

}  // namespace

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is_dict()) {
    if (const Value* found = object.dict().find(key)) return *found;
  } else if (const auto index = key.integral()) {
    if (object.is_sequence()) {
      const auto& items = object.list().items;
      if (const auto place = resolve_index(*index, items.size())) return items[*place];
    } else if (object.is_text()) {
      const std::string_view bytes = object.view();
      runtime.step_bytes(bytes.size());
      const auto place = resolve_index(*index, count_code_points(bytes));
      if (place) {
        const std::size_t begin = offset_of_code_point(bytes, *place);
        const std::size_t end = begin + decode_at(bytes, begin).size;
        return runtime.make_text(object.text().slice(begin, end));
      }
    }
    return Value::undefined(fmt::format("a {} has no item {}", type_name(object), *index));
  }
  if (key.is_text()) return get_attribute(runtime, object, key.view());
  return Value::undefined(
      fmt::format("a {} has no item for that {}", type_name(object), type_name(key)));
}

Value get_slice(Runtime& runtime, const Value& object, const Value* start, const Value* stop,
                const Value* step) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is_text()) {
    const Text& text = object.text();
    runtime.step_bytes(text.size());
    const std::size_t length = count_code_points(text.view());
    const SliceRange range = resolve_slice(length, start, stop, step);
    if (range.count == 0) return runtime.make_text(Text());
    if (range.step == 1) {
      const std::size_t begin = offset_of_code_point(text.view(), range.at(0));
      const std::size_t span = offset_of_code_point(text.view().substr(begin), range.count);
      return runtime.make_text(text.slice(begin, begin + span));
    }
    const Charge scratch = runtime.charge((length + 1) * sizeof(std::size_t));
    std::vector<std::size_t> offsets;
    offsets.reserve(length + 1);
    for (std::size_t pos = 0; pos < text.size(); pos += decode_at(text.view(), pos).size) {
      offsets.push_back(pos);
    }
    offsets.push_back(text.size());
    Text out;
    for (std::size_t i = 0; i < range.count; ++i) {
      out.append(text, offsets[range.at(i)], offsets[range.at(i) + 1]);
    }
    return runtime.make_text(std::move(out));
  }
  if (object.is_sequence()) {
    const List& list = object.list();
    const SliceRange range = resolve_slice(list.items.size(), start, stop, step);
    std::vector<Value> items;
    items.reserve(range.count);
    for (std::size_t i = 0; i < range.count; ++i) items.push_back(list.items[range.at(i)]);
    const ListKind kind = list.kind == ListKind::kGroup   ? ListKind::kTuple
                          : list.kind == ListKind::kRange ? ListKind::kList
                                                          : list.kind;
    return runtime.make_list(std::move(items), kind);
  }
  fail("a {} cannot be sliced", type_name(object));
}

}  // namespace strata::jinja
