#include "text/grammar/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "text/grammar/free_text.h"
#include "text/grammar/schema_reader.h"
#include "text/grammar/schema_shape.h"

namespace strata::grammar {

namespace {

constexpr std::string_view kBeforeValue = "\n";

class Compiler {
 public:
  Compiler(GrammarBuilder& builder, JsonText& text, SchemaReader reader)
      : builder_(builder), text_(text), reader_(std::move(reader)) {}

  // With `end`, the value stands as text up to it; otherwise as JSON.
  Result<ExprId> compile(const SchemaParts& parts, std::optional<std::string> end) {
    end_ = std::move(end);
    const ExprId root = refer(parts, end_.has_value());
    STRATA_RETURN_IF_ERROR(finish());
    return root;
  }

  Result<ParameterList> parameters(std::string_view end, bool lenient) {
    end_ = end;
    ParameterList out;
    STRATA_ASSIGN_OR_RETURN(const FlatSchema flat,
                            reader_.flatten({{&reader_.root(), SchemaPart::kWhole}}));
    const Json& root = reader_.root();
    if (!flat.choices.empty()) {
      return reader_.error(root, "parameters with anyOf or oneOf at the top are not supported");
    }
    STRATA_ASSIGN_OR_RETURN(SchemaShape shape, merge(reader_, flat.own));
    if (flat.impossible || (shape.types & kObject) == 0 || shape.has_values) {
      return reader_.error(root, "parameters must be the schema of an object");
    }
    if (!shape.name_patterns.empty() || !shape.names.empty() || shape.min_properties > 0 ||
        shape.max_properties != kUnbounded) {
      return reader_.error(root,
                           "patternProperties, propertyNames, minProperties and maxProperties "
                           "are not supported for parameters");
    }
    for (const auto& property : shape.properties) {
      STRATA_ASSIGN_OR_RETURN(const ExprId value, parameter(property.parts, lenient));
      out.declared.push_back({property.name, value, property.required});
    }
    const bool spoken_of = std::any_of(flat.own.begin(), flat.own.end(), [](const SchemaPart& p) {
      return p.node->contains("additionalProperties");
    });
    if (!shape.others.empty() && spoken_of) {
      STRATA_ASSIGN_OR_RETURN(const FlatSchema other, reader_.flatten(shape.others[0].parts));
      if (!other.impossible) {
        STRATA_ASSIGN_OR_RETURN(out.other, parameter(shape.others[0].parts, lenient));
      }
    }
    STRATA_RETURN_IF_ERROR(finish());
    return out;
  }

 private:
  struct Key {
    SchemaParts parts;
    bool raw = false;
    friend bool operator<(const Key& a, const Key& b) {
      return a.raw != b.raw ? a.raw < b.raw : a.parts < b.parts;
    }
  };
  struct Job {
    RuleId rule = 0;
    SchemaParts parts;  // in the order they were found
    bool raw = false;
  };

  // In lenient mode the value is tried on its own first: a failure must not spoil the builder.
  Result<ExprId> parameter(const SchemaParts& parts, bool lenient) {
    if (!lenient) return refer(parts, true);
    GrammarBuilder trial;
    JsonText trial_text(trial);
    const auto root = Compiler(trial, trial_text, reader_).compile(parts, end_);
    if (!root.ok() || !trial.build(*root).ok()) return free_value(builder_, *end_);
    return refer(parts, true);
  }

  ExprId refer(const SchemaParts& parts, bool raw) {
    Key key{parts, raw};
    std::sort(key.parts.begin(), key.parts.end());
    key.parts.erase(std::unique(key.parts.begin(), key.parts.end()), key.parts.end());
    const auto found = rules_.find(key);
    if (found != rules_.end()) return builder_.ref(found->second);
    const RuleId rule = builder_.declare_rule(
        parts.empty() ? "a value" : "the schema " + reader_.pointer_of(*parts.back().node));
    rules_.emplace(std::move(key), rule);
    jobs_.push_back({rule, parts, raw});
    return builder_.ref(rule);
  }

  Status finish() {
    for (; !jobs_.empty(); jobs_.pop_front()) {
      if (rules_.size() > kMaxSchemaRules) {
        return invalid_argument("#: the schema combines into more than {} different subschemas",
                                kMaxSchemaRules);
      }
      const Job job = jobs_.front();
      STRATA_ASSIGN_OR_RETURN(const ExprId e, define(job.parts, job.raw));
      builder_.define_rule(job.rule, e);
      if (!builder_.status().ok()) return builder_.status().with_context("#");
    }
    return {};
  }

  Result<ExprId> define(const SchemaParts& parts, bool raw) {
    STRATA_ASSIGN_OR_RETURN(const FlatSchema flat, reader_.flatten(parts));
    if (flat.impossible) return builder_.none();
    if (!flat.choices.empty()) {
      std::vector<ExprId> ways;
      for (const SchemaPart& way : SchemaReader::alternatives(flat.choices[0])) {
        SchemaParts together = flat.own;
        together.push_back(way);
        together.insert(together.end(), flat.choices.begin() + 1, flat.choices.end());
        ways.push_back(refer(useful(together), raw));
      }
      return builder_.either(std::move(ways));
    }
    STRATA_ASSIGN_OR_RETURN(const SchemaShape shape, merge(reader_, flat.own));
    // The parts that say nothing do not count for where a failure is reported.
    const Json& place = flat.own.empty() ? reader_.root() : *flat.own.back().node;
    return raw ? raw_value(shape, place) : json_value(shape, place);
  }

  // Drops parts that are objects with nothing but a choice, so that fewer combinations differ.
  static SchemaParts useful(const SchemaParts& parts) {
    SchemaParts out;
    for (const SchemaPart& p : parts) {
      const bool only_choice = p.aspect == SchemaPart::kOwn && p.node->size() == 1 &&
                               (p.node->contains("anyOf") || p.node->contains("oneOf"));
      if (!only_choice) out.push_back(p);
    }
    return out;
  }

  Result<ExprId> json_value(const SchemaShape& shape, const Json& place) {
    if (shape.has_values) return known_values(shape, place, false);
    if (shape.unconstrained) return text_.any_value();
    std::vector<ExprId> ways;
    if (shape.types & kObject) {
      STRATA_ASSIGN_OR_RETURN(const ExprId e, object(shape, place));
      ways.push_back(e);
    }
    if (shape.types & kArray) ways.push_back(array(shape));
    if (shape.types & kString) {
      STRATA_ASSIGN_OR_RETURN(const ExprId e, string(shape.text, place));
      ways.push_back(e);
    }
    if (shape.types & (kInteger | kFraction)) {
      STRATA_ASSIGN_OR_RETURN(const ExprId e, number(shape, place));
      ways.push_back(e);
    }
    if (shape.types & kBoolean) ways.push_back(text_.boolean());
    if (shape.types & kNull) ways.push_back(builder_.literal("null"));
    return builder_.either(std::move(ways));
  }

  Result<ExprId> raw_value(const SchemaShape& shape, const Json& place) {
    if (shape.has_values) return known_values(shape, place, true);
    const TextConditions& text = shape.text;
    if ((shape.types & kString) && text.patterns.empty() && !text.bounded()) {
      return free_value(builder_, *end_);  // anything else is a text as well
    }
    std::vector<ExprId> ways;
    if (shape.types & kString) {
      const auto limited = [&]() -> Result<Automaton> {
        STRATA_ASSIGN_OR_RETURN(const Automaton a, text_automaton(text, write_utf8));
        return intersection(a, bytes_without(*end_, kBeforeValue));
      }();
      if (!limited.ok()) return at(place, limited.status());
      ways.push_back(builder_.embed(*limited));
    }
    SchemaShape others = shape;
    others.types &= static_cast<uint8_t>(~kString);
    STRATA_ASSIGN_OR_RETURN(const ExprId e, json_value(others, place));
    ways.push_back(e);
    return builder_.either(std::move(ways));
  }

  Status at(const Json& place, const Status& status) const {
    return reader_.error(place, "{}", status.message());
  }

  // ---- constants

  Result<ExprId> known_values(const SchemaShape& shape, const Json& place, bool raw) {
    std::vector<ExprId> ways;
    for (const Json* value : shape.values) {
      STRATA_ASSIGN_OR_RETURN(const bool fits, admits(shape, *value, place));
      if (!fits) continue;
      if (raw && value->is_string()) {
        const auto& content = value->get_ref<const std::string&>();
        if (content.find(*end_) != std::string::npos) {
          return reader_.error(*value, "the value contains the text that ends a parameter");
        }
        ways.push_back(builder_.literal(content));
      } else {
        ways.push_back(text_.value(*value));
      }
    }
    return builder_.either(std::move(ways));
  }

  Result<bool> admits(const SchemaShape& shape, const Json& value, const Json& place) {
    if ((shape.types & type_of(value)) == 0) return false;
    if (value.is_number()) {
      const Decimal v = Decimal::of(value);
      for (const NumberBound& b : shape.number.at_least) {
        if (v < b.value || (b.exclusive && !(b.value < v))) return false;
      }
      for (const NumberBound& b : shape.number.at_most) {
        if (b.value < v || (b.exclusive && !(v < b.value))) return false;
      }
      if (!shape.number.multiple_of.empty()) {
        NumberConditions only;
        only.multiple_of = shape.number.multiple_of;
        const auto automaton = number_automaton(only);
        if (!automaton.ok()) return at(place, automaton.status());
        return automaton->accepts(v.text());
      }
      return true;
    }
    if (value.is_string() && (shape.text.bounded() || !shape.text.patterns.empty())) {
      const auto automaton = text_automaton(shape.text, write_utf8);
      if (!automaton.ok()) return at(place, automaton.status());
      return automaton->accepts(value.get_ref<const std::string&>());
    }
    const bool object_conditions = !shape.properties.empty() || !shape.name_patterns.empty() ||
                                   !shape.names.empty() || shape.min_properties > 0 ||
                                   shape.max_properties != kUnbounded ||
                                   place.contains("additionalProperties");
    const bool array_conditions = !shape.prefix.empty() || !shape.rest.empty() ||
                                  shape.min_items > 0 || shape.max_items != kUnbounded;
    if ((value.is_object() && object_conditions) || (value.is_array() && array_conditions)) {
      return reader_.error(place,
                           "constants that are objects or arrays, with conditions on their "
                           "parts besides, are not supported");
    }
    return true;
  }

  // ---- numbers and strings

  Result<ExprId> number(const SchemaShape& shape, const Json& place) {
    NumberConditions conditions = shape.number;
    conditions.integer = (shape.types & kFraction) == 0;
    if (!conditions.any()) return conditions.integer ? text_.integer() : text_.number();
    auto automaton = number_automaton(conditions);
    if (!automaton.ok()) return at(place, automaton.status());
    return builder_.embed(std::move(*automaton));
  }

  Result<ExprId> string(const TextConditions& conditions, const Json& place) {
    if (conditions.patterns.empty()) return text_.string(conditions.min, conditions.max);
    std::string key = fmt::format("{} {}", conditions.min, conditions.max);
    for (const TextCondition& c : conditions.patterns) {
      key += fmt::format("\n{} {}", static_cast<int>(c.match), c.pattern);
    }
    const auto known = strings_.find(key);
    if (known != strings_.end()) return builder_.ref(known->second);
    const auto content = text_expression(builder_, conditions, write_json);
    if (!content.ok()) return at(place, content.status());
    const RuleId rule = builder_.declare_rule("a text of " + reader_.pointer_of(place));
    const ExprId quote = builder_.literal("\"");
    builder_.define_rule(rule, builder_.concat({quote, *content, quote}));
    strings_.emplace(std::move(key), rule);
    return builder_.ref(rule);
  }

  // ---- arrays

  ExprId array(const SchemaShape& shape) {
    const auto length =
        static_cast<uint32_t>(std::min<size_t>(shape.prefix.size(), shape.max_items));
    const uint32_t end = length + 1;
    const ExprId close = text_.space();
    std::vector<GrammarBuilder::Arc> arcs;
    const ExprId comma = text_.comma();
    for (uint32_t i = 0; i <= length; ++i) {
      if (i >= shape.min_items) arcs.push_back({i, i > 0 ? close : builder_.empty(), end});
      if (i == length) break;
      const ExprId item = refer(shape.prefix[i], false);
      arcs.push_back({i, i > 0 ? builder_.concat({comma, item}) : item, i + 1});
    }
    if (shape.max_items > length) {
      const ExprId item = shape.rest.empty() ? text_.any_value() : refer(shape.rest, false);
      const ExprId more = builder_.concat({comma, item});
      const uint32_t missing = std::max(shape.min_items, length + 1) - length;
      const uint32_t most = shape.max_items == kUnbounded ? kUnbounded : shape.max_items - length;
      if (missing <= most) {
        const ExprId items =
            length > 0
                ? builder_.repeat(more, missing, most)
                : builder_.concat({item, builder_.repeat(more, missing - 1,
                                                         most == kUnbounded ? most : most - 1)});
        arcs.push_back({length, builder_.concat({items, close}), end});
      }
    }
    return text_.bracketed('[', builder_.graph(end + 1, end, std::move(arcs)), ']');
  }

  // ---- objects

  // The names that propertyNames admits, as they stand between quotes; nothing: all names.
  Result<std::optional<Automaton>> name_conditions(const SchemaShape& shape, const Json& place) {
    if (shape.names.empty()) return std::optional<Automaton>();
    STRATA_ASSIGN_OR_RETURN(const FlatSchema flat, reader_.flatten(shape.names));
    STRATA_ASSIGN_OR_RETURN(const SchemaShape names, merge(reader_, flat.own));
    if (!flat.choices.empty()) {
      return reader_.error(place, "propertyNames with anyOf or oneOf is not supported");
    }
    if (flat.impossible || (names.types & kString) == 0) {
      Automaton nothing;
      nothing.states.resize(1);
      return std::optional<Automaton>(std::move(nothing));
    }
    if (names.has_values) {
      GrammarBuilder b;
      std::vector<ExprId> all;
      for (const Json* value : names.values) {
        if (value->is_string()) {
          all.push_back(b.literal(json_escaped(value->get_ref<const std::string&>())));
        }
      }
      auto list = b.to_automaton(b.either(std::move(all)));
      if (!list.ok()) return at(place, list.status());
      return std::optional<Automaton>(std::move(*list));
    }
    auto automaton = text_automaton(names.text, write_json);
    if (!automaton.ok()) return at(place, automaton.status());
    return std::optional<Automaton>(std::move(*automaton));
  }

  // name, colon and value of the properties that are not declared.
  Result<ExprId> other_pair(const SchemaShape& shape, const std::optional<Automaton>& admitted) {
    std::vector<ExprId> ways;
    if (shape.others.empty()) return builder_.none();
    STRATA_ASSIGN_OR_RETURN(Automaton names, text_automaton({}, write_json));
    if (admitted) {
      STRATA_ASSIGN_OR_RETURN(names, intersection(names, *admitted));
    }
    if (!shape.properties.empty()) {
      GrammarBuilder b;
      std::vector<ExprId> declared;
      for (const auto& p : shape.properties) declared.push_back(b.literal(json_escaped(p.name)));
      STRATA_ASSIGN_OR_RETURN(const Automaton taken, b.to_automaton(b.either(std::move(declared))));
      STRATA_ASSIGN_OR_RETURN(names, difference(names, taken));
    }
    std::vector<Automaton> patterns;
    for (const std::string& p : shape.name_patterns) {
      TextConditions conditions;
      conditions.patterns.push_back({p, RegexMatch::kSearch});
      STRATA_ASSIGN_OR_RETURN(Automaton a, text_automaton(conditions, write_json));
      patterns.push_back(std::move(a));
    }
    for (const auto& other : shape.others) {
      STRATA_ASSIGN_OR_RETURN(const FlatSchema flat, reader_.flatten(other.parts));
      if (flat.impossible) continue;
      Automaton mine = names;
      for (size_t p = 0; p < patterns.size(); ++p) {
        STRATA_ASSIGN_OR_RETURN(mine, other.matching[p] ? intersection(mine, patterns[p])
                                                        : difference(mine, patterns[p]));
      }
      if (accepts_nothing(mine)) continue;
      const ExprId value = other.parts.empty() ? text_.any_value() : refer(other.parts, false);
      const ExprId quote = builder_.literal("\"");
      ways.push_back(builder_.concat({quote, builder_.embed(std::move(mine)), quote,
                                      builder_.literal(":"), text_.after_colon(), value}));
    }
    return builder_.either(std::move(ways));
  }

  Result<ExprId> object(const SchemaShape& shape, const Json& place) {
    if (shape.properties.empty() && shape.name_patterns.empty() && shape.names.empty() &&
        shape.min_properties == 0 && shape.max_properties == kUnbounded &&
        shape.others.size() == 1 && shape.others[0].parts.empty()) {
      return text_.any_object();
    }
    STRATA_ASSIGN_OR_RETURN(const auto admitted, name_conditions(shape, place));
    const auto other = other_pair(shape, admitted);
    if (!other.ok()) return at(place, other.status());
    std::vector<const SchemaShape::Property*> properties;
    uint32_t required = 0;
    for (const auto& p : shape.properties) {
      if (admitted && !admitted->accepts(json_escaped(p.name))) {
        if (p.required) return builder_.none();
        continue;
      }
      properties.push_back(&p);
      required += p.required ? 1 : 0;
    }
    const bool open = *other != builder_.none();
    // Two undeclared properties could have one name, and would then count as one.
    if (open && shape.min_properties > required + 1) {
      return reader_.error(place,
                           "minProperties {} cannot be guaranteed with undeclared properties",
                           shape.min_properties);
    }
    const auto declared = static_cast<uint32_t>(properties.size());
    const bool bounded =
        shape.max_properties != kUnbounded && (open || shape.max_properties < declared);
    // How many properties there are so far; without an upper bound, no more than matters.
    const uint32_t most = bounded ? shape.max_properties : std::max(shape.min_properties, 1u);
    if (uint64_t{declared + 1} * (uint64_t{most} + 1) > 20'000) {
      return reader_.error(place, "the bounds on the number of properties are too large");
    }
    ObjectPlan plan{{}, *other, shape.min_properties, most, bounded};
    for (const auto* p : properties) {
      const ExprId value = p->parts.empty() ? text_.any_value() : refer(p->parts, false);
      plan.pairs.push_back({builder_.concat({text_.key(p->name), value}), p->required});
    }
    return text_.bracketed('{', members(plan), '}');
  }

  struct ObjectPlan {
    struct Pair {
      ExprId written = 0;  // name, colon and value
      bool required = false;
    };
    std::vector<Pair> pairs;
    ExprId other = 0;      // a pair that is not declared; none() when there may be none
    uint32_t min = 0;      // properties
    uint32_t most = 0;     // counted so far, and no further
    bool bounded = false;  // more than `most` are too many
  };

  // From the opening space to the closing brace. Each node knows how far in the order of
  // declaration the object is, and how many properties it has. Where many properties may be left
  // out, every node leads to all that follow; cutting the order into blocks that call the next one
  // keeps that from growing with the square of their number.
  ExprId members(const ObjectPlan& plan) {
    constexpr size_t kBlock = 64;
    const size_t declared = plan.pairs.size();
    const size_t block = plan.most <= 2 ? kBlock : std::max<size_t>(declared, 1);
    std::vector<ExprId> next;  // by count: what follows the block
    for (size_t first = declared == 0 ? 0 : (declared - 1) / block * block;; first -= block) {
      std::vector<ExprId> ways;
      const size_t count_of_entries = first == 0 ? 1 : plan.most + 1;
      for (uint32_t count = 0; count < count_of_entries; ++count) {
        ExprId way = members(plan, first, std::min(first + block, declared), count, next);
        if (first > 0) {
          const RuleId rule = builder_.declare_rule("the properties of an object");
          builder_.define_rule(rule, way);
          way = builder_.ref(rule);
        }
        ways.push_back(way);
      }
      next = std::move(ways);
      if (first == 0) return next[0];
    }
  }

  // The pairs from `first` to `last`, with `entered` properties before, and then `next`, by count;
  // when that is empty, undeclared pairs and the end.
  ExprId members(const ObjectPlan& plan, size_t first, size_t last, uint32_t entered,
                 const std::vector<ExprId>& next) {
    const uint32_t most = plan.most;
    const auto steps = static_cast<uint32_t>(last - first);
    // Node 0 is where it is entered; the count there changes places with 0.
    const auto node = [&](uint32_t i, uint32_t count) {
      if (i == 0) count = count == entered ? 0 : count == 0 ? entered : count;
      return i * (most + 1) + count;
    };
    const uint32_t end = (steps + 1) * (most + 1);
    const ExprId comma = text_.comma();
    std::vector<GrammarBuilder::Arc> arcs;
    for (uint32_t i = 0; i <= steps; ++i) {
      const bool inside = i < steps;
      if (!inside && !next.empty()) {
        for (uint32_t count = 0; count <= most; ++count) {
          arcs.push_back({node(i, count), next[count], end});
        }
        break;
      }
      const ExprId pair = inside ? plan.pairs[first + i].written : plan.other;
      const ExprId later_pair = builder_.concat({comma, pair});
      const uint32_t to = inside ? i + 1 : i;
      for (uint32_t count = 0; count <= most; ++count) {
        if (count < most || !plan.bounded) {
          arcs.push_back(
              {node(i, count), count > 0 ? later_pair : pair, node(to, std::min(count + 1, most))});
        }
        if (inside && !plan.pairs[first + i].required) {
          arcs.push_back({node(i, count), builder_.empty(), node(to, count)});
        }
        if (!inside && count >= plan.min) {
          arcs.push_back({node(i, count), count > 0 ? text_.space() : builder_.empty(), end});
        }
      }
    }
    return builder_.graph(end + 1, end, std::move(arcs));
  }

  GrammarBuilder& builder_;
  JsonText& text_;
  SchemaReader reader_;
  std::optional<std::string> end_;
  std::map<Key, RuleId> rules_;
  std::map<std::string, RuleId> strings_;
  std::deque<Job> jobs_;
};

}  // namespace

ExprId free_value(GrammarBuilder& builder, std::string_view end) {
  auto text = text_without(end, kBeforeValue);
  return text.ok() ? builder.embed(std::move(*text)) : builder.none();
}

Result<ExprId> compile_json_schema(GrammarBuilder& builder, JsonText& text, const Json& schema) {
  STRATA_ASSIGN_OR_RETURN(SchemaReader reader, SchemaReader::create(schema));
  return Compiler(builder, text, std::move(reader))
      .compile({{&schema, SchemaPart::kWhole}}, std::nullopt);
}

Result<ParameterList> compile_parameters(GrammarBuilder& builder, JsonText& text,
                                         const Json& schema, std::string_view end, bool lenient) {
  STRATA_ASSIGN_OR_RETURN(SchemaReader reader, SchemaReader::create(schema));
  return Compiler(builder, text, std::move(reader)).parameters(end, lenient);
}

}  // namespace strata::grammar
