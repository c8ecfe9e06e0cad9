// Logging: one process-wide spdlog logger on stderr. stdout belongs to the program's answer.
// Prompts and generated text are never logged.
#pragma once

#include <spdlog/spdlog.h>

namespace strata::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// `level`: debug, info, warn, error or off. Call once at start, before threads exist.
// Returns false for any other name.
bool init(std::string_view level);

}  // namespace strata::log
