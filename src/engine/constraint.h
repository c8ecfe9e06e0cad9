// What an answer may be: a formal language the sampler never leaves. Plain data; it is compiled,
// and refused if it cannot be, by Engine::submit() before anything is generated.
//
// While a constraint is in force only tokens whose bytes can go on in the language are drawn, an
// end-of-generation token exactly where the language may end, and no other control token. Token
// counts still apply: an answer cut by max_tokens is a prefix of the language.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace strata::engine {

enum class ConstraintKind {
  kJsonObject,  // any JSON object
  kJsonSchema,  // `schema`
  kRegex,       // `text`: the whole answer matches it (anchors are implied)
  kGrammar,     // `text`: GBNF, from its rule `root`
  kToolCalls,   // one or more calls of `tools`, in the XML form of the model family
};

enum class ConstraintStart {
  kAtOnce,  // from the first generated token
  // Free text up to and with the first `start_text`, then at most two line ends, then the language.
  // The answer may not end before. For thinking: "</think>".
  kAfterText,
  // Free text, and the answer may end in it; once `start_text` appears the language holds, of which
  // `start_text` is the beginning. For tools the model may call: "<tool_call>". With kToolCalls
  // only.
  kOnTrigger,
};

struct ConstraintTool {
  std::string name;
  nlohmann::ordered_json parameters;  // JSON schema of an object; null: no parameters
  // Parameters stand in declared order, required ones always, values obey their schema; what cannot
  // be guaranteed is refused. Otherwise: any order, and a parameter whose schema is not supported
  // takes any text.
  bool strict = false;
};

struct ConstraintSpec {
  ConstraintKind kind = ConstraintKind::kJsonObject;
  std::string text;               // kRegex, kGrammar
  nlohmann::ordered_json schema;  // kJsonSchema; key order is the order of properties
  // kToolCalls: the functions that may be called (tool_choice named: that one alone). With another
  // kind, when not empty: the answer is in the language or is calls of these.
  std::vector<ConstraintTool> tools;
  bool parallel_calls = true;  // more than one call in an answer
  ConstraintStart start = ConstraintStart::kAtOnce;
  std::string start_text;
  // Thinking comes first (free text up to "</think>") and then `start` applies; set it when the
  // prompt ends inside a thinking block and `start` is not kAfterText already.
  bool after_thinking = false;
  std::string field;  // the request field to blame; empty: "response_format" or "tools"
};

}  // namespace strata::engine
