// Finds and opens back end modules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/module.h"

namespace strata::backend {

struct LoadedModule {
  std::string path;
  std::string version;
  std::string architectures;
  std::unique_ptr<Module> module;
};

// Kinds that can exist: "cuda", "hip", "emu" (and "emu_race").
bool is_module_kind(std::string_view kind);

// Opens libstrata_<kind>.so from `folder`, or, when that is empty, from the program's own folder or
// ../lib/strata beside it. Stays mapped until the process ends: drivers do not survive unloading.
// kNotFound when there is no such file; kFailedPrecondition when it was built for another version;
// kUnavailable when its driver does not start. Each message says what to do.
Result<std::shared_ptr<LoadedModule>> load_module(const std::string& kind,
                                                  const std::string& folder = {});

}  // namespace strata::backend
