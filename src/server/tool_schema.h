// The tools of a request: their names and the types of their parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/json_input.h"

namespace strata::server {

// JSON types that a value may have, as a set of bits.
using TypeSet = uint8_t;
inline constexpr TypeSet kString = 1, kInteger = 2, kNumber = 4, kBoolean = 8, kNull = 16,
                         kArray = 32, kObject = 64, kAnyType = 127;

struct Tool {
  std::string name;
  std::string description;
  Json parameters = Json::object();  // a JSON schema of type object; empty when none was given
  bool strict = false;
};

class ToolSet {
 public:
  bool empty() const { return tools_.empty(); }
  const std::vector<Tool>& tools() const { return tools_; }
  void add(Tool tool) { tools_.push_back(std::move(tool)); }
  const Tool* find(std::string_view name) const;

 private:
  std::vector<Tool> tools_;
};

// Types of one parameter by the schema of the tool: "type", "enum", "const", "anyOf", "oneOf",
// "allOf" and references into the schema are followed. What is not described may be anything.
TypeSet parameter_types(const Tool& tool, std::string_view parameter);
bool is_declared(const Tool& tool, std::string_view parameter);

// The text of an argument as JSON of one of `types`. Strings are taken as they are. Text that fits
// none of the types becomes a string: nothing is dropped. Where strings and other types are both
// possible, text that reads as one of the others is that. Numbers keep every digit they have.
std::string argument_json(std::string_view text, TypeSet types);

// `text` as the inside of a JSON string, without the quotes. Bytes that are not UTF-8 stay.
std::string json_escaped(std::string_view text);

}  // namespace strata::server
