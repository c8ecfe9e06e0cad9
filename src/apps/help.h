// The help texts, made from the tables of commands and options.
#pragma once

#include <string>

#include "apps/command_table.h"

namespace strata::apps {

std::string general_help();
std::string command_help(CommandId id);

// Every option of every command as Markdown tables, for the documentation.
std::string options_markdown();

}  // namespace strata::apps
