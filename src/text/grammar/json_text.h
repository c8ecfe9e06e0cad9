// The pieces of JSON text that constrained answers are made of.
//
// White space is bounded, so that an answer cannot go on with nothing else: after [ { and , and
// before ] and } there may be one space, or one or two line ends and up to 24 spaces or tabs; after
// a colon one space. Numbers have at most 18 digits before the point, 17 after it, and an exponent
// that keeps them finite.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "text/grammar/builder.h"
#include "text/grammar/code_set.h"
#include "text/grammar/regex.h"

namespace strata::grammar {

using Json = nlohmann::ordered_json;

class JsonText {
 public:
  explicit JsonText(GrammarBuilder& builder) : builder_(builder) {}

  ExprId space();        // between the parts of arrays and objects
  ExprId after_colon();  // maybe one blank
  ExprId comma();        // with the space after it

  // One character of a string in any spelling: itself, \n and the like, \uXXXX (pairs of
  // surrogates only as pairs).
  ExprId string_character();
  ExprId string(uint32_t min, uint32_t max);  // characters; quotes included
  ExprId integer();
  ExprId number();
  ExprId boolean();
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  // A value that is known, strings in the one spelling of write_json().
  ExprId value(const Json& value);
  ExprId key(std::string_view name);  // quotes and colon included

  // `open` item (comma item)* `close` and the like.
  ExprId bracketed(char open, ExprId inner, char close);

 private:
  RuleId shared(std::optional<RuleId>& rule, const char* name, ExprId (JsonText::*make)());
  ExprId make_space();
  ExprId make_character();
  ExprId make_value();
  ExprId make_object();
  ExprId make_array();

  GrammarBuilder& builder_;
  std::optional<RuleId> space_, character_, value_, object_, array_;
};

// One character out of `set` inside a JSON string, in one spelling only: itself where JSON allows
// it, else the short escape, else \u00xx in lower case.
ExprId write_json(GrammarBuilder& builder, const CodeSet& set);
// A text in that spelling, without quotes.
std::string json_escaped(std::string_view text);

}  // namespace strata::grammar
