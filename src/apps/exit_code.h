// How the program ends; documented in `strata --help`.
#pragma once

namespace strata::apps {

enum ExitCode : int {
  kSuccess = 0,
  kFailure = 1,
  kUsageError = 2,
  kInterrupted = 130,  // 128 + SIGINT, as shells report it
};

}  // namespace strata::apps
