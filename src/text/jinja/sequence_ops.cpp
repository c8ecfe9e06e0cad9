#include "text/jinja/sequence_ops.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"

namespace strata::jinja {

Getter::Getter(const Value* attribute, const Value* fallback) : fallback_(fallback) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (attribute->is_undefined()) fail_undefined(*attribute);
  if (!attribute->is_text()) {
    parts_.push_back(*attribute);
    return;
  }
  for (Text& part : split(attribute->text(), Text(".", true), -1)) {
    std::int64_t index = 0;
    const std::string_view name = part.view();
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    if (!name.empty() && name[0] != '-' && read.ec == std::errc() &&
        read.ptr == name.data() + name.size()) {
      parts_.push_back(Value::integer(index));
    } else {
      parts_.emplace_back(std::make_shared<const TextNode>(TextNode{std::move(part), {}}));
    }
  }
}

Value Getter::operator()(Runtime& runtime, const Value& item) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = get_item(runtime, value, part);
    if (value.is_undefined() && fallback_ != nullptr && !fallback_->is_none()) value = *fallback_;
  }
  return value;
}

Value fold_case(Runtime& runtime, const Value& value, bool case_sensitive) {
  return value.is_text() && !case_sensitive ? runtime.make_text(to_lower(value.text())) : value;
}

Value sort_key(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
  if (attribute == nullptr || !attribute->is_text() ||
      attribute->view().find(',') == std::string_view::npos) {
    return fold_case(runtime, Getter(attribute)(runtime, item), case_sensitive);
  }
  std::vector<Value> keys;
  for (Text& name : split(attribute->text(), Text(",", true), -1)) {
    const Value part = runtime.make_text(std::move(name));
    keys.push_back(fold_case(runtime, Getter(&part)(runtime, item), case_sensitive));
  }
  return runtime.make_list(std::move(keys));
}

std::vector<std::size_t> sorted_order(Runtime& runtime, const std::vector<Value>& keys,
                                      bool reverse) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // An ordering that NaN makes inconsistent may not reach std::sort's unguarded loops: merge sort
  // (stable_sort) tolerates it.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? compare(runtime, keys[b], keys[a]) < 0
                   : compare(runtime, keys[a], keys[b]) < 0;
  });
  return order;
}

std::vector<Value> sorted_by(Runtime& runtime, const std::vector<Value>& items,
                             const std::vector<Value>& keys, bool reverse) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (const std::size_t i : sorted_order(runtime, keys, reverse)) out.push_back(items[i]);
  return out;
}

}  // namespace strata::jinja
