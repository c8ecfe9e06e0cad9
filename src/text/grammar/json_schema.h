// JSON Schema to grammar: the answers are JSON texts that validate.
//
// Keywords: type (one or several), enum, const, nullable; properties, required (also as a flag of
// the property itself), additionalProperties, patternProperties, propertyNames (a text),
// minProperties, maxProperties;
// items, prefixItems (or items as an array with additionalItems), minItems, maxItems; minLength,
// maxLength, pattern, format; minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf;
// anyOf, oneOf, allOf, $ref within the document (recursion included), $defs, definitions, $anchor;
// true and false. Annotations and unknown keywords are ignored, formats not listed in
// json_string.h are annotations.
//
// Where a schema leaves a choice, the grammar is narrower than the schema, never wider:
// - properties stand in the order of declaration, undeclared ones after them;
// - undeclared properties are allowed if additionalProperties says so or if no property is
//   declared at all;
// - without `type`, the kinds of value are those that its other keywords speak of;
// - integers have no fraction or exponent; numbers under a condition have no exponent;
// - names and constants have one spelling (see write_json()).
// oneOf is read as anyOf: that exactly one alternative matches is not checked, so alternatives that
// exclude each other are the schema's business.
//
// Refused, with the JSON pointer of the place: keywords that would be silently wrong (not, if,
// contains, uniqueItems, dependent..., unevaluated...), references to other documents, values of
// the wrong type, schemas that nothing satisfies, and anything over the limits below.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/builder.h"
#include "text/grammar/json_text.h"

namespace strata::grammar {

inline constexpr int kMaxSchemaDepth = 200;         // of the schema document
inline constexpr size_t kMaxSchemaRules = 30'000;   // combinations of subschemas
inline constexpr size_t kMaxSchemaValues = 20'000;  // of one enum

// The texts of a schema's values. `schema` needs to live only during the call.
// Errors: kInvalidArgument; a message begins with the JSON pointer at fault.
Result<ExprId> compile_json_schema(GrammarBuilder& builder, JsonText& text, const Json& schema);

// A value that stands outside JSON, after a line end and up to `end`: text as it is, without the
// byte sequence `end`, where the schema admits strings; else JSON.
struct ParameterValue {
  std::string name;
  ExprId value = 0;
  bool required = false;
};
struct ParameterList {
  std::vector<ParameterValue> declared;  // in declared order
  std::optional<ExprId> other;           // value of a parameter that is not declared
};
// The parameters of a schema of an object, each as such a value. In `lenient` mode a parameter
// whose schema is not supported takes any text.
Result<ParameterList> compile_parameters(GrammarBuilder& builder, JsonText& text,
                                         const Json& schema, std::string_view end, bool lenient);

// Such a value of which nothing more is known.
ExprId free_value(GrammarBuilder& builder, std::string_view end);

}  // namespace strata::grammar
