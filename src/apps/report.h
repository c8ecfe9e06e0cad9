// From a Status to a message on standard error and an exit code.
#pragma once

#include <string_view>

#include "apps/command_table.h"
#include "base/status.h"

namespace strata::apps {

// Says what went wrong. kInterrupted for kCancelled (nothing is said), else kFailure.
int report_failure(const Status& status);

// The same for a command line that asks for something impossible: kUsageError, with a hint at the
// help.
int report_usage(CommandId id, const Status& status);

// Writes the result of a command to standard output; kFailure, with a message, when it is gone.
int print_result(std::string_view text);

}  // namespace strata::apps
