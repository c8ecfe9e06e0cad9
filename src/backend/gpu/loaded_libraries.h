// Which shared libraries a driver really brought into the process.
#pragma once

#include <string>
#include <vector>

#include "backend/gpu/runtime.h"

namespace strata::gpu {

// Mapped libraries whose file name starts with one of `prefixes`; versions left empty.
std::vector<RuntimeLibrary> loaded_libraries(const std::vector<std::string>& prefixes);

}  // namespace strata::gpu
