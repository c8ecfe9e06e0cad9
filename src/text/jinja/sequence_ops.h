// Keys and order, shared by the filters over sequences.
#pragma once

#include <vector>

#include "text/jinja/runtime.h"

namespace strata::jinja {

// Reads the value that a filter's `attribute` argument names: "a.b.0", an index, or nothing for the
// item itself.
class Getter {
 public:
  // `fallback` replaces an undefined result; both pointers may be null and must outlive the Getter.
  explicit Getter(const Value* attribute, const Value* fallback = nullptr);
  Value operator()(Runtime& runtime, const Value& item) const;

 private:
  std::vector<Value> parts_;
  const Value* fallback_;
};

// Strings in lower case unless `case_sensitive`, other values as they are.
Value fold_case(Runtime& runtime, const Value& value, bool case_sensitive);
// The key of `item` for an attribute that may list several, separated by commas.
Value sort_key(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive);
// Stable order of `keys`; throws when two of them have no order.
std::vector<std::size_t> sorted_order(Runtime& runtime, const std::vector<Value>& keys,
                                      bool reverse);
std::vector<Value> sorted_by(Runtime& runtime, const std::vector<Value>& items,
                             const std::vector<Value>& keys, bool reverse);

}  // namespace strata::jinja
