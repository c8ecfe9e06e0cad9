#include "server/tool_schema.h"

#include <algorithm>
#include <cmath>

namespace strata::server {
namespace {

constexpr int kMaxSchemaDepth = 16;
constexpr int kMaxSchemaVisits = 4096;  // references may lead to the same place again and again

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

TypeSet type_named(std::string_view name) {
  if (name == "string") return kString;
  if (name == "integer") return kInteger;
  if (name == "number") return kNumber | kInteger;
  if (name == "boolean") return kBoolean;
  if (name == "null") return kNull;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return kAnyType;
}

TypeSet type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return kNull;
    case Json::value_t::boolean: return kBoolean;
    case Json::value_t::string: return kString;
    case Json::value_t::array: return kArray;
    case Json::value_t::object: return kObject;
    case Json::value_t::number_float: return kNumber;
    default: return kInteger;
  }
}

// The schema that "#/$defs/name" stands for, or nullptr.
const Json* resolve(const Json& root, std::string_view reference) {
  if (!reference.starts_with("#/")) return reference == "#" ? &root : nullptr;
  const Json* at = &root;
  for (size_t begin = 2; begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    std::string key;
    for (size_t i = begin; i < end; ++i) {
      if (reference[i] == '~' && i + 1 < end) {
        key += reference[++i] == '0' ? '~' : '/';
      } else {
        key += reference[i];
      }
    }
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
    begin = end + 1;
  }
  return at;
}

TypeSet types_of(const Json& root, const Json& schema, int depth, int& visits) {
  if (!schema.is_object() || depth > kMaxSchemaDepth || ++visits > kMaxSchemaVisits)
    return kAnyType;
  TypeSet types = kAnyType;
  if (const auto reference = schema.find("$ref");
      reference != schema.end() && reference->is_string()) {
    if (const Json* target = resolve(root, reference->get_ref<const std::string&>())) {
      types &= types_of(root, *target, depth + 1, visits);
    }
  }
  if (const auto type = schema.find("type"); type != schema.end()) {
    TypeSet named = 0;
    if (type->is_string()) {
      named = type_named(type->get_ref<const std::string&>());
    } else if (type->is_array()) {
      for (const Json& one : *type) {
        if (one.is_string()) named |= type_named(one.get_ref<const std::string&>());
      }
    }
    if (named != 0) types &= named;
  } else if (const auto values = schema.find("enum");
             values != schema.end() && values->is_array()) {
    TypeSet listed = 0;
    for (const Json& one : *values) listed |= type_of(one);
    if (listed != 0) types &= listed;
  } else if (const auto value = schema.find("const"); value != schema.end()) {
    types &= type_of(*value);
  } else if (schema.contains("properties")) {
    types &= kObject;
  }
  for (const char* name : {"anyOf", "oneOf"}) {
    const auto list = schema.find(name);
    if (list == schema.end() || !list->is_array()) continue;
    TypeSet either = 0;
    for (const Json& one : *list) either |= types_of(root, one, depth + 1, visits);
    if (either != 0) types &= either;
  }
  if (const auto list = schema.find("allOf"); list != schema.end() && list->is_array()) {
    for (const Json& one : *list) types &= types_of(root, one, depth + 1, visits);
  }
  return types != 0 ? types : kAnyType;
}

const Json* property(const Tool& tool, std::string_view parameter) {
  const auto properties = tool.parameters.find("properties");
  if (properties == tool.parameters.end() || !properties->is_object()) return nullptr;
  const auto found = properties->find(parameter);
  return found == properties->end() ? nullptr : &*found;
}

// A JSON number that says the same as `text`, empty when it is none.
std::string number_json(std::string_view text, bool whole) {
  const Json number = json_in(text);
  if (!number.is_number()) return {};
  if (text.find_first_of(".eE") == std::string_view::npos) return std::string(text);
  if (!whole) return std::string(text);
  const double value = number.get<double>();
  if (value != std::floor(value) || std::abs(value) > 9.0e15) return {};
  return fmt::format("{}", static_cast<int64_t>(value));
}

}  // namespace

const Tool* ToolSet::find(std::string_view name) const {
  for (const Tool& tool : tools_) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

bool is_declared(const Tool& tool, std::string_view parameter) {
  return property(tool, parameter) != nullptr;
}

TypeSet parameter_types(const Tool& tool, std::string_view parameter) {
  int visits = 0;
  if (const Json* schema = property(tool, parameter)) {
    return types_of(tool.parameters, *schema, 0, visits);
  }
  if (const auto more = tool.parameters.find("additionalProperties");
      more != tool.parameters.end() && more->is_object()) {
    return types_of(tool.parameters, *more, 0, visits);
  }
  return kAnyType;
}

std::string json_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string argument_json(std::string_view text, TypeSet types) {
  const std::string_view word = trimmed(text);
  if (types != kString) {
    if ((types & kNull) != 0 && (word == "null" || word == "None")) return "null";
    if ((types & kBoolean) != 0) {
      if (word == "true" || word == "True") return "true";
      if (word == "false" || word == "False") return "false";
    }
    if ((types & (kInteger | kNumber)) != 0) {
      std::string number = number_json(word, (types & kNumber) == 0);
      if (!number.empty()) return number;
    }
    const bool object = (types & kObject) != 0 && word.starts_with('{');
    const bool array = (types & kArray) != 0 && word.starts_with('[');
    JsonLimits limits;
    --limits.max_depth;  // it becomes a part of an object
    if ((object || array) && parse_json(word, limits).ok()) return std::string(word);
  }
  return "\"" + json_escaped(text) + "\"";
}

}  // namespace strata::server
