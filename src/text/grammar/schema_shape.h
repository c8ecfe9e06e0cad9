// What several subschemas that apply together ask of a value, keyword by keyword.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/json_number.h"
#include "text/grammar/json_string.h"
#include "text/grammar/schema_reader.h"

namespace strata::grammar {

enum JsonType : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,  // numbers that are no integers; "number" is both
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAnyType = 127,
};

uint8_t type_of(const Json& value);

struct SchemaShape {
  uint8_t types = kAnyType;
  bool unconstrained = false;  // any value at all

  bool has_values = false;
  std::vector<const Json*> values;  // of enum and const, those that all of them have

  NumberConditions number;  // `integer` unused
  TextConditions text;

  std::vector<SchemaParts> prefix;  // of items by position
  SchemaParts rest;                 // of the items after those
  uint32_t min_items = 0, max_items = kUnbounded;

  struct Property {
    std::string name;
    SchemaParts parts;
    bool required = false;
  };
  std::vector<Property> properties;  // in order of declaration
  // A property that is not declared: its name matches exactly `matching` of these patterns.
  std::vector<std::string> name_patterns;
  struct OtherProperties {
    std::vector<bool> matching;  // by name_patterns
    SchemaParts parts;
  };
  std::vector<OtherProperties> others;
  SchemaParts names;  // what propertyNames says
  uint32_t min_properties = 0, max_properties = kUnbounded;
};

// `parts`: each kOwn. Fails with the pointer of the keyword whose value is of the wrong kind, and
// where a combination is too large.
Result<SchemaShape> merge(const SchemaReader& reader, const SchemaParts& parts);

}  // namespace strata::grammar
