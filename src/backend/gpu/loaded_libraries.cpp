#include "backend/gpu/loaded_libraries.h"

#include <link.h>

#include <filesystem>
#include <system_error>

namespace strata::gpu {

std::vector<RuntimeLibrary> loaded_libraries(const std::vector<std::string>& prefixes) {
  struct Search {
    const std::vector<std::string>& prefixes;
    std::vector<RuntimeLibrary> found;
  } search{prefixes, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        const std::filesystem::path path(info->dlpi_name);
        const std::string name = path.filename();
        for (const std::string& prefix : s.prefixes) {
          if (!name.starts_with(prefix)) continue;
          std::error_code error;
          const auto real = std::filesystem::canonical(path, error);
          s.found.push_back({name, error ? path.string() : real.string(), ""});
          break;
        }
        return 0;
      },
      &search);
  return search.found;
}

}  // namespace strata::gpu
