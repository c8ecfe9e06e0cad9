// The messages of a chat body: what is allowed in them, and the form that templates take.
#pragma once

#include <string>

#include "server/json_input.h"

namespace strata::server {

// Fails, naming the field, unless every message of the array is one that can be rendered.
Status check_messages(const Json& messages, const std::string& path);

// Templates of this model family take one system message, at the beginning. Several at the
// beginning are joined; a later one, as agents send them as reminders, stays in its place as a note
// of the user, so that the beginning of the prompt does not change. Arguments of calls that are no
// JSON object become one. "reasoning", "function_call", the role "function" and refusal parts take
// their newer forms. A chat without a user's message gets a note of the user. Everything else is passed on unchanged. `messages` has been checked.
Json messages_for_template(const Json& messages);

}  // namespace strata::server
