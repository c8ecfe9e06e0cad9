#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace strata::log {

bool init(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") return false;
  auto logger = spdlog::get("strata");
  if (!logger) logger = spdlog::stderr_color_mt("strata");
  logger->set_level(parsed);
  logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_default_logger(logger);
  return true;
}

}  // namespace strata::log
