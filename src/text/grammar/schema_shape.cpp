#include "text/grammar/schema_shape.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "text/grammar/json_schema.h"

namespace strata::grammar {

namespace {

constexpr size_t kMaxNamePatterns = 4;
constexpr size_t kMaxProperties = 5000;

struct NamedType {
  std::string_view name;
  uint8_t bits;
};
constexpr std::array<NamedType, 8> kTypes{{{"null", kNull},
                                           {"boolean", kBoolean},
                                           {"integer", kInteger},
                                           {"number", kInteger | kFraction},
                                           {"string", kString},
                                           {"array", kArray},
                                           {"object", kObject},
                                           {"any", kAnyType}}};

// The kind of value that a keyword speaks of.
constexpr std::array<NamedType, 22> kSpeaksOf{{{"properties", kObject},
                                               {"required", kObject},
                                               {"additionalProperties", kObject},
                                               {"patternProperties", kObject},
                                               {"propertyNames", kObject},
                                               {"minProperties", kObject},
                                               {"maxProperties", kObject},
                                               {"items", kArray},
                                               {"prefixItems", kArray},
                                               {"additionalItems", kArray},
                                               {"minItems", kArray},
                                               {"maxItems", kArray},
                                               {"uniqueItems", kArray},
                                               {"minLength", kString},
                                               {"maxLength", kString},
                                               {"pattern", kString},
                                               {"format", kString},
                                               {"minimum", kInteger | kFraction},
                                               {"maximum", kInteger | kFraction},
                                               {"exclusiveMinimum", kInteger | kFraction},
                                               {"exclusiveMaximum", kInteger | kFraction},
                                               {"multipleOf", kInteger | kFraction}}};

class Merger {
 public:
  Merger(const SchemaReader& reader, const SchemaParts& parts) : reader_(reader), parts_(parts) {}

  Result<SchemaShape> run() {
    for (const SchemaPart& part : parts_) {
      const Json& node = *part.node;
      STRATA_RETURN_IF_ERROR(types(node));
      STRATA_RETURN_IF_ERROR(values(node));
      STRATA_RETURN_IF_ERROR(numbers(node));
      STRATA_RETURN_IF_ERROR(texts(node));
      STRATA_RETURN_IF_ERROR(count(node, "minItems", "maxItems", out_.min_items, out_.max_items));
      STRATA_RETURN_IF_ERROR(
          count(node, "minProperties", "maxProperties", out_.min_properties, out_.max_properties));
    }
    STRATA_RETURN_IF_ERROR(items());
    STRATA_RETURN_IF_ERROR(properties());
    infer_types();
    return std::move(out_);
  }

 private:
  static const Json* find(const Json& node, std::string_view keyword) {
    const auto found = node.find(keyword);
    return found == node.end() ? nullptr : &*found;
  }

  Status types(const Json& node) {
    const Json* type = find(node, "type");
    if (type == nullptr) return {};
    uint8_t bits = 0;
    const auto add = [&](const Json& name) -> Status {
      if (name.is_string()) {
        for (const NamedType& t : kTypes) {
          if (name.get_ref<const std::string&>() == t.name) {
            bits |= t.bits;
            return {};
          }
        }
      }
      return reader_.error(*type,
                           "type must be null, boolean, integer, number, string, array or "
                           "object, or a list of these");
    };
    if (type->is_array()) {
      for (const Json& name : *type) STRATA_RETURN_IF_ERROR(add(name));
    } else {
      STRATA_RETURN_IF_ERROR(add(*type));
    }
    if (const Json* nullable = find(node, "nullable"); nullable && nullable->is_boolean()) {
      if (nullable->get<bool>()) bits |= kNull;
    }
    typed_ = true;
    out_.types &= bits;
    return {};
  }

  Status values(const Json& node) {
    const auto keep = [this](const std::vector<const Json*>& list) {
      if (!out_.has_values) {
        out_.has_values = true;
        out_.values = list;
        return;
      }
      std::erase_if(out_.values, [&](const Json* v) {
        return std::none_of(list.begin(), list.end(), [v](const Json* w) { return *v == *w; });
      });
    };
    if (const Json* one = find(node, "const")) keep({one});
    if (const Json* list = find(node, "enum")) {
      if (!list->is_array()) return reader_.error(*list, "enum must be a list");
      if (list->size() > kMaxSchemaValues) {
        return reader_.error(*list, "enum has {} values; at most {} are allowed", list->size(),
                             kMaxSchemaValues);
      }
      std::vector<const Json*> all;
      for (const Json& v : *list) all.push_back(&v);
      keep(all);
    }
    return {};
  }

  Status numbers(const Json& node) {
    const auto bound = [&](const char* keyword, const char* exclusive,
                           std::vector<NumberBound>& out) -> Status {
      const Json* value = find(node, keyword);
      const Json* beyond = find(node, exclusive);
      if (value != nullptr) {
        if (!value->is_number()) return reader_.error(*value, "{} must be a number", keyword);
        // Draft 4 has a flag where later drafts have a number.
        const bool flagged = beyond != nullptr && beyond->is_boolean() && beyond->get<bool>();
        out.push_back({Decimal::of(*value), flagged});
      }
      if (beyond != nullptr && !beyond->is_boolean()) {
        if (!beyond->is_number()) return reader_.error(*beyond, "{} must be a number", exclusive);
        out.push_back({Decimal::of(*beyond), true});
      }
      return {};
    };
    STRATA_RETURN_IF_ERROR(bound("minimum", "exclusiveMinimum", out_.number.at_least));
    STRATA_RETURN_IF_ERROR(bound("maximum", "exclusiveMaximum", out_.number.at_most));
    if (const Json* of = find(node, "multipleOf")) {
      if (!of->is_number()) return reader_.error(*of, "multipleOf must be a number");
      const Decimal value = Decimal::of(*of);
      if (value.negative || value.is_zero()) {
        return reader_.error(*of, "multipleOf must be above 0");
      }
      out_.number.multiple_of.push_back(value);
    }
    return {};
  }

  Status texts(const Json& node) {
    STRATA_RETURN_IF_ERROR(count(node, "minLength", "maxLength", out_.text.min, out_.text.max));
    if (const Json* pattern = find(node, "pattern")) {
      if (!pattern->is_string()) return reader_.error(*pattern, "pattern must be a text");
      out_.text.patterns.push_back({pattern->get<std::string>(), RegexMatch::kSearch});
    }
    if (const Json* format = find(node, "format")) {
      if (!format->is_string()) return reader_.error(*format, "format must be a text");
      auto condition = format_condition(format->get_ref<const std::string&>());
      if (condition) out_.text.patterns.push_back(std::move(*condition));
    }
    return {};
  }

  Status count(const Json& node, const char* least, const char* most, uint32_t& min,
               uint32_t& max) {
    const auto read = [&](const char* keyword, uint32_t limit) -> Result<uint32_t> {
      const Json* value = find(node, keyword);
      if (value == nullptr) return limit;
      if (!value->is_number() || value->get<double>() < 0 ||
          value->get<double>() !=
              static_cast<double>(static_cast<uint64_t>(std::min(value->get<double>(), 1e15)))) {
        return reader_.error(*value, "{} must be a whole number of at least 0", keyword);
      }
      if (value->get<double>() > kMaxCount) {
        if (limit == kUnbounded) return limit;
        return reader_.error(*value, "{} is above {}", keyword, kMaxCount);
      }
      return static_cast<uint32_t>(value->get<double>());
    };
    STRATA_ASSIGN_OR_RETURN(const uint32_t low, read(least, 0));
    STRATA_ASSIGN_OR_RETURN(const uint32_t high, read(most, kUnbounded));
    min = std::max(min, low);
    max = std::min(max, high);
    return {};
  }

  // Positions by `prefixItems`, or `items` as a list; the rest by `items`, or `additionalItems`.
  struct Items {
    const Json* prefix = nullptr;
    const Json* rest = nullptr;
  };
  Result<Items> items_of(const Json& node) const {
    Items out;
    const Json* items = find(node, "items");
    out.prefix = find(node, "prefixItems");
    if (items != nullptr && items->is_array()) {
      out.prefix = items;
      out.rest = find(node, "additionalItems");
    } else {
      out.rest = items;
    }
    if (out.prefix != nullptr && !out.prefix->is_array()) {
      return reader_.error(*out.prefix, "prefixItems must be a list of schemas");
    }
    return out;
  }

  Status items() {
    size_t length = 0;
    for (const SchemaPart& part : parts_) {
      STRATA_ASSIGN_OR_RETURN(const Items items, items_of(*part.node));
      if (items.prefix != nullptr) length = std::max(length, items.prefix->size());
      if (items.rest != nullptr) out_.rest.push_back({items.rest, SchemaPart::kWhole});
    }
    out_.prefix.resize(length);
    for (const SchemaPart& part : parts_) {
      STRATA_ASSIGN_OR_RETURN(const Items items, items_of(*part.node));
      for (size_t i = 0; i < length; ++i) {
        if (items.prefix != nullptr && i < items.prefix->size()) {
          out_.prefix[i].push_back({&(*items.prefix)[i], SchemaPart::kWhole});
        } else if (items.rest != nullptr) {
          out_.prefix[i].push_back({items.rest, SchemaPart::kWhole});
        }
      }
    }
    return {};
  }

  // ---- objects

  Status collect_names() {
    for (const SchemaPart& part : parts_) {
      if (const Json* declared = find(*part.node, "properties")) {
        if (!declared->is_object()) return reader_.error(*declared, "properties must be an object");
        for (const auto& [name, schema] : declared->items()) {
          // As in draft 3, and in many schemas written by hand.
          const Json* flag = schema.is_object() ? find(schema, "required") : nullptr;
          declare(name, flag != nullptr && flag->is_boolean() && flag->get<bool>());
        }
        declares_ |= !declared->empty();
      }
      if (const Json* patterns = find(*part.node, "patternProperties")) {
        if (!patterns->is_object()) {
          return reader_.error(*patterns, "patternProperties must be an object");
        }
        for (const auto& [pattern, schema] : patterns->items()) {
          auto& known = out_.name_patterns;
          if (std::find(known.begin(), known.end(), pattern) == known.end())
            known.push_back(pattern);
        }
        if (out_.name_patterns.size() > kMaxNamePatterns) {
          return reader_.error(*patterns, "more than {} patterns of names are not supported",
                               kMaxNamePatterns);
        }
      }
      if (const Json* names = find(*part.node, "propertyNames")) {
        out_.names.push_back({names, SchemaPart::kWhole});
      }
    }
    for (const SchemaPart& part : parts_) {
      const Json* required = find(*part.node, "required");
      if (required == nullptr || required->is_boolean()) continue;  // of the property itself
      if (!required->is_array())
        return reader_.error(*required, "required must be a list of names");
      for (const Json& name : *required) {
        if (!name.is_string()) return reader_.error(*required, "required must be a list of names");
        declare(name.get<std::string>(), true);
      }
    }
    if (out_.properties.size() > kMaxProperties) {
      return reader_.error(*parts_[0].node, "more than {} properties", kMaxProperties);
    }
    return {};
  }

  void declare(const std::string& name, bool required) {
    const auto [it, added] = index_.try_emplace(name, out_.properties.size());
    if (added) out_.properties.push_back({name, {}, false});
    out_.properties[it->second].required |= required;
  }

  Result<bool> matches(size_t pattern, const std::string& name) {
    if (automata_.size() <= pattern) automata_.resize(pattern + 1);
    if (automata_[pattern].states.empty()) {
      TextConditions conditions;
      conditions.patterns.push_back({out_.name_patterns[pattern], RegexMatch::kSearch});
      auto automaton = text_automaton(conditions, write_utf8);
      if (!automaton.ok()) return automaton.status();
      automata_[pattern] = std::move(*automaton);
    }
    return automata_[pattern].accepts(name);
  }

  // What the subschema says of a property whose name matches `matching` of the patterns.
  void add_parts(const Json& node, const std::string* name, const std::vector<bool>& matching,
                 SchemaParts& out) const {
    bool spoken_of = false;
    if (const Json* declared = find(node, "properties"); declared && name) {
      if (const auto found = declared->find(*name); found != declared->end()) {
        out.push_back({&*found, SchemaPart::kWhole});
        spoken_of = true;
      }
    }
    if (const Json* patterns = find(node, "patternProperties")) {
      for (size_t p = 0; p < matching.size(); ++p) {
        if (!matching[p]) continue;
        if (const auto found = patterns->find(out_.name_patterns[p]); found != patterns->end()) {
          out.push_back({&*found, SchemaPart::kWhole});
          spoken_of = true;
        }
      }
    }
    if (const Json* additional = find(node, "additionalProperties"); additional && !spoken_of) {
      out.push_back({additional, SchemaPart::kWhole});
    }
  }

  Status properties() {
    STRATA_RETURN_IF_ERROR(collect_names());
    const size_t patterns = out_.name_patterns.size();
    for (auto& property : out_.properties) {
      std::vector<bool> matching(patterns);
      for (size_t p = 0; p < patterns; ++p) {
        STRATA_ASSIGN_OR_RETURN(const bool yes, matches(p, property.name));
        matching[p] = yes;
      }
      for (const SchemaPart& part : parts_) {
        add_parts(*part.node, &property.name, matching, property.parts);
      }
    }
    const bool spoken_of = std::any_of(parts_.begin(), parts_.end(), [](const SchemaPart& p) {
      return p.node->contains("additionalProperties");
    });
    for (size_t subset = 0; subset < (size_t{1} << patterns); ++subset) {
      if (subset == 0 && !spoken_of && (declares_ || patterns > 0)) continue;
      SchemaShape::OtherProperties other;
      for (size_t p = 0; p < patterns; ++p) other.matching.push_back((subset >> p) & 1);
      for (const SchemaPart& part : parts_) {
        add_parts(*part.node, nullptr, other.matching, other.parts);
      }
      out_.others.push_back(std::move(other));
    }
    return {};
  }

  void infer_types() {
    uint8_t spoken_of = 0;
    for (const SchemaPart& part : parts_) {
      for (const NamedType& k : kSpeaksOf) {
        const Json* value = find(*part.node, k.name);
        if (value == nullptr) continue;
        const bool flag = k.name == "required" && value->is_boolean();  // of a property, see above
        if (!flag) spoken_of |= k.bits;
      }
    }
    if (!typed_ && !out_.has_values && spoken_of == 0) out_.unconstrained = true;
    if (!typed_ && !out_.has_values && spoken_of != 0) out_.types = spoken_of;
  }

  const SchemaReader& reader_;
  const SchemaParts& parts_;
  SchemaShape out_;
  bool typed_ = false;
  bool declares_ = false;                          // some property by name
  std::unordered_map<std::string, size_t> index_;  // of properties
  std::vector<Automaton> automata_;                // of name_patterns
};

}  // namespace

uint8_t type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return kNull;
    case Json::value_t::boolean: return kBoolean;
    case Json::value_t::string: return kString;
    case Json::value_t::array: return kArray;
    case Json::value_t::object: return kObject;
    case Json::value_t::number_float: {
      const Decimal d = Decimal::of(value);
      return d.fraction.empty() ? kInteger : kFraction;
    }
    default: return kInteger;
  }
}

Result<SchemaShape> merge(const SchemaReader& reader, const SchemaParts& parts) {
  return Merger(reader, parts).run();
}

}  // namespace strata::grammar
