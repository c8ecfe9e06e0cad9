// What the answer may be: the request fields of several servers, as one constraint of the engine.
#pragma once

#include <optional>

#include "engine/constraint.h"
#include "server/json_input.h"
#include "server/tool_request.h"

namespace strata::server {

// Reads response_format (OpenAI: text, json_object, json_schema), json_schema and grammar
// (llama-server), guided_json, guided_regex, guided_choice, guided_grammar and structured_outputs
// (vLLM). Two of them at once are refused: only one language can hold.
std::optional<engine::ConstraintSpec> read_output_format(FieldReader& reader);

// The same where an API has a field of its own for the form, which `own` has been read from: that
// and one of those fields are two.
std::optional<engine::ConstraintSpec> read_output_format(
    FieldReader& reader, const char* own_field, std::optional<engine::ConstraintSpec> own);

// A form {"type": "json_schema", "schema": ...} or {"type": "json_schema", "json_schema": {...}};
// nothing for "text".
Result<std::optional<engine::ConstraintSpec>> format_of(const Json& format, const std::string& path);

// The constraint that a choice of tools and a format ask for together, if any. Thinking, which
// comes before both, is left to the caller.
std::optional<engine::ConstraintSpec> constraint_of(const ToolUse& use,
                                                    std::optional<engine::ConstraintSpec> format);

}  // namespace strata::server
