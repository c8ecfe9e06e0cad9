#include "backend/module_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "interface_hash.h"

namespace strata::backend {

namespace fs = std::filesystem;

bool is_module_kind(std::string_view kind) {
  return kind == "cuda" || kind == "hip" || kind == "emu" || kind == "emu_race";
}

Result<std::shared_ptr<LoadedModule>> load_module(const std::string& kind,
                                                  const std::string& folder) {
  const std::string name = fmt::format("libstrata_{}.so", kind);
  std::vector<fs::path> candidates;
  if (!folder.empty()) {
    candidates.push_back(fs::path(folder) / name);
  } else {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
    candidates = {program / name, program / "../lib/strata" / name, program / ".." / name};
  }
  fs::path found;
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    if (fs::exists(candidate, error)) {
      found = candidate;
      break;
    }
  }
  if (found.empty()) {
    return not_found(
        "this build has no {} back end ({} is not beside the program); build it with {}", kind,
        name,
        kind == "cuda"  ? "-DSTRATA_ENABLE_CUDA=ON"
        : kind == "hip" ? "-DSTRATA_ENABLE_HIP=ON"
                        : "-DSTRATA_ENABLE_EMU=ON");
  }
  void* handle = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return unavailable(
        "{} does not load: {}; install the {} driver's libraries, or leave its devices "
        "out with --devices",
        found.string(), dlerror(), kind);
  }
  const auto* header = static_cast<const ModuleHeader*>(dlsym(handle, kModuleSymbol));
  if (header == nullptr || header->magic != ModuleHeader::kMagic) {
    return failed_precondition("{} is not a back end of Strata; remove the file or reinstall",
                               found.string());
  }
  if (std::string_view(header->interface_hash) != kInterfaceHash) {
    return failed_precondition(
        "{} was built for another version of Strata ({}, interface {}; this program: interface "
        "{}); "
        "install program and back ends from one build",
        found.string(), header->version, header->interface_hash, kInterfaceHash);
  }
  std::string error;
  std::unique_ptr<Module> module(header->create(error));
  if (module == nullptr) {
    return unavailable("{}: {}", kind, error);
  }
  auto loaded = std::make_shared<LoadedModule>();
  loaded->path = found.string();
  loaded->version = header->version;
  loaded->architectures = header->architectures;
  loaded->module = std::move(module);
  return loaded;
}

}  // namespace strata::backend
