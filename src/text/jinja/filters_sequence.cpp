// Filters over lists, dicts and strings as sequences.
#include <algorithm>
#include <array>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/runtime.h"
#include "text/jinja/sequence_ops.h"
#include "text/jinja/text_ops.h"

namespace strata::jinja {
namespace {

Value filter_length(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("length", args, {});
  return Value::integer(static_cast<std::int64_t>(length_of(runtime, input)));
}

Value filter_default(Runtime&, const Value& input, const Args& args) {
  const Bindings given("default", args, {"default_value?", "boolean?"});
  if (input.is_undefined() || (given.truth(1, false) && !is_true(input))) {
    return given.has(0) ? given[0]
                        : Value(std::make_shared<const TextNode>(TextNode{Text("", true), {}}));
  }
  return input;
}

Value filter_items(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("items", args, {});
  std::vector<Value> items;
  if (!input.is_undefined()) {
    if (!input.is_dict()) fail("items needs a dict, not {}", type_name(input));
    for (const auto& [key, value] : input.dict().entries()) {
      items.push_back(runtime.make_list({key, value}, ListKind::kTuple));
    }
  }
  return runtime.make_list(std::move(items), ListKind::kGenerator);
}

Value filter_dictsort(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("dictsort", args, {"case_sensitive?", "by?", "reverse?"});
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_dict()) fail("dictsort needs a dict, not {}", type_name(input));
  const Text* by = given.text(1);
  const std::string_view what = by == nullptr ? "key" : by->view();
  if (what != "key" && what != "value") fail("dictsort sorts by 'key' or 'value'");
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, value] : input.dict().entries()) {
    items.push_back(runtime.make_list({key, value}, ListKind::kTuple));
    keys.push_back(fold_case(runtime, what == "key" ? key : value, given.truth(0, false)));
  }
  return runtime.make_list(sorted_by(runtime, items, keys, given.truth(2, false)));
}

Value filter_join(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("join", args, {"d?", "attribute?"});
  const Text separator = given.has(0) ? to_text(runtime, given[0]) : Text();
  const Getter getter(given.get(1));
  Text out;
  bool first = true;
  for (const Value& item : iterate(runtime, input)) {
    runtime.step_bytes(separator.size());
    if (!first) out.append(separator);
    first = false;
    append_text(runtime, getter(runtime, item), out);
  }
  return runtime.make_text(std::move(out));
}

Value filter_list(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("list", args, {});
  return runtime.make_list(iterate(runtime, input));
}

Value filter_first(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("first", args, {});
  const auto items = iterate(runtime, input);
  return items.empty() ? Value::undefined("an empty sequence has no first item") : items.front();
}

Value filter_last(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("last", args, {});
  if (input.is_list() && input.list().kind == ListKind::kGenerator) {
    fail("last needs a list; put |list before it");
  }
  const auto items = iterate(runtime, input);
  return items.empty() ? Value::undefined("an empty sequence has no last item") : items.back();
}

Value filter_reverse(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("reverse", args, {});
  std::vector<Value> items = iterate(runtime, input);
  std::reverse(items.begin(), items.end());
  if (!input.is_text()) return runtime.make_list(std::move(items), ListKind::kGenerator);
  Text out;
  for (const Value& item : items) out.append(item.text());
  return runtime.make_text(std::move(out));
}

Value filter_sort(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("sort", args, {"reverse?", "case_sensitive?", "attribute?"});
  const std::vector<Value> items = iterate(runtime, input);
  const bool sensitive = given.truth(1, false);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(sort_key(runtime, item, given.get(2), sensitive));
  return runtime.make_list(sorted_by(runtime, items, keys, given.truth(0, false)));
}

Value filter_unique(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("unique", args, {"case_sensitive?", "attribute?"});
  const Getter getter(given.get(1));
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : iterate(runtime, input)) {
    const Value key = fold_case(runtime, getter(runtime, item), given.truth(0, false));
    if (key.is_undefined()) fail_undefined(key);
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value(None{}));
    out.push_back(item);
  }
  return runtime.make_list(std::move(out), ListKind::kGenerator);
}

template <bool kSmallest>
Value filter_extreme(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given(kSmallest ? "min" : "max", args, {"case_sensitive?", "attribute?"});
  const Getter getter(given.get(1));
  const auto items = iterate(runtime, input);
  if (items.empty()) return Value::undefined("an empty sequence has no smallest or largest item");
  const auto key = [&](const Value& item) {
    return fold_case(runtime, getter(runtime, item), given.truth(0, false));
  };
  std::size_t best = 0;
  Value best_key = key(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value candidate = key(items[i]);
    const int order = compare(runtime, candidate, best_key);
    if (kSmallest ? order < 0 : order == 1) {
      best = i;
      best_key = std::move(candidate);
    }
  }
  return items[best];
}

Value filter_sum(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("sum", args, {"attribute?", "start?"});
  const Getter getter(given.get(0));
  Value total = given.has(1) ? given[1] : Value::integer(0);
  if (total.is_text()) fail("sum does not add strings; use join");
  for (const Value& item : iterate(runtime, input)) {
    total = arithmetic(runtime, Op::kAdd, total, getter(runtime, item));
  }
  return total;
}

Value filter_batch(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("batch", args, {"linecount", "fill_with?"});
  const auto items = iterate(runtime, input);
  const std::int64_t size = given.integer(0, 1);
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : items) {
    if (static_cast<std::int64_t>(row.size()) == size) {
      rows.push_back(runtime.make_list(std::exchange(row, {})));
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    if (given.has(1) && !given[1].is_none() && static_cast<std::int64_t>(row.size()) < size) {
      if (size > kMaxRange) fail_limit("a row of batch is longer than {}", kMaxRange);
      row.resize(static_cast<std::size_t>(size), given[1]);
    }
    rows.push_back(runtime.make_list(std::move(row)));
  }
  return runtime.make_list(std::move(rows), ListKind::kGenerator);
}

Value filter_slice(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("slice", args, {"slices", "fill_with?"});
  const auto items = iterate(runtime, input);
  const std::int64_t slices = given.integer(0, 1);
  if (slices < 1) fail("slice needs at least one slice");
  if (slices > kMaxRange) fail_limit("slice makes more than {} slices", kMaxRange);
  const auto count = static_cast<std::size_t>(slices);
  const std::size_t each = items.size() / count;
  const std::size_t longer = items.size() % count;
  std::vector<Value> rows;
  std::size_t pos = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = pos + each + (i < longer ? 1 : 0);
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(pos),
                           items.begin() + static_cast<std::ptrdiff_t>(end));
    if (given.has(1) && !given[1].is_none() && i >= longer) row.push_back(given[1]);
    rows.push_back(runtime.make_list(std::move(row)));
    pos = end;
  }
  return runtime.make_list(std::move(rows), ListKind::kGenerator);
}

Value filter_groupby(Runtime& runtime, const Value& input, const Args& args) {
  const Bindings given("groupby", args, {"attribute", "default?", "case_sensitive?"});
  const Getter getter(given.get(0), given.get(1));
  const bool sensitive = given.truth(2, false);
  const std::vector<Value> items = iterate(runtime, input);
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(fold_case(runtime, getter(runtime, item), sensitive));
  }
  std::vector<Value> groups;
  std::vector<Value> members;
  Value group_key;
  const auto close = [&] {
    if (members.empty()) return;
    Value name = getter(runtime, members.front());
    Value list = runtime.make_list(std::exchange(members, {}));
    groups.push_back(runtime.make_list({std::move(name), std::move(list)}, ListKind::kGroup));
  };
  for (const std::size_t i : sorted_order(runtime, keys, false)) {
    if (members.empty() || !equal(runtime, keys[i], group_key)) {
      close();
      group_key = keys[i];
    }
    members.push_back(items[i]);
  }
  close();
  return runtime.make_list(std::move(groups));
}

struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};

constexpr std::array<NamedFilter, 19> kFilters = {{
    {"length", filter_length},   {"count", filter_length},      {"default", filter_default},
    {"d", filter_default},       {"items", filter_items},       {"dictsort", filter_dictsort},
    {"join", filter_join},       {"list", filter_list},         {"first", filter_first},
    {"last", filter_last},       {"reverse", filter_reverse},   {"sort", filter_sort},
    {"unique", filter_unique},   {"min", filter_extreme<true>}, {"max", filter_extreme<false>},
    {"sum", filter_sum},         {"batch", filter_batch},       {"slice", filter_slice},
    {"groupby", filter_groupby},
}};

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const NamedFilter& filter) { return filter.name == name; });
  return found == kFilters.end() ? nullptr : found->function;
}

}  // namespace strata::jinja
