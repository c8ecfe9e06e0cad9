// How much RAM this process may still use.
#pragma once

#include <cstdint>
#include <string>

namespace strata::engine {

// Bytes that can be used without swapping, pages of files that can be dropped included; no more
// than the control group at the top of the file system grants (a container's limit). 0 when the
// kernel does not say. Reads below the folder `root` ("" for this machine).
uint64_t available_ram(const std::string& root = "");

}  // namespace strata::engine
