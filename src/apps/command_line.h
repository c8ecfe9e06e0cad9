// From the arguments of the program to the settings of one command.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/command_table.h"
#include "apps/options.h"
#include "base/status.h"

namespace strata::apps {

// Reads what follows the name of the command. With --help among the arguments nothing else is
// checked. A failure is one sentence that names the option and what is allowed, and the nearest
// option where one is unknown.
Result<Settings> read_arguments(CommandId id, std::span<const std::string> arguments);

// "there is no command ...", with the nearest one.
Status unknown_command(std::string_view name);

}  // namespace strata::apps
