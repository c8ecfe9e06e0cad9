// Truth, comparison, arithmetic and iteration, with Python's meaning.
#pragma once

#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {

bool is_true(const Value& value);
// == ; never fails. Counts steps for what it walks.
bool equal(Runtime& runtime, const Value& a, const Value& b);
// Negative, zero or positive; throws when the types have no order.
int compare(Runtime& runtime, const Value& a, const Value& b);
// `item in container`.
bool contains(Runtime& runtime, const Value& container, const Value& item);

Value arithmetic(Runtime& runtime, Op op, const Value& a, const Value& b);
Value negate(const Value& value);
Value unary_plus(const Value& value);

// What a for loop over `value` sees: items, keys of a dict, characters; nothing for undefined.
// Throws for a value that cannot be iterated.
std::vector<Value> iterate(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value);
// len(); throws when the value has none.
std::size_t length_of(Runtime& runtime, const Value& value);

}  // namespace strata::jinja
