// Where the large test material lies that the repository does not carry (the reference model file).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace strata::test {

// Folder named by STRATA_SHARED, else ../shared beside the checkout; empty when neither exists.
inline std::string shared_material() {
  if (const char* named = std::getenv("STRATA_SHARED"); named != nullptr && *named != '\0') {
    return std::filesystem::is_directory(named) ? named : "";
  }
  const auto beside = std::filesystem::path(STRATA_SOURCE_DIR).parent_path() / "shared";
  return std::filesystem::is_directory(beside) ? beside.string() : "";
}

}  // namespace strata::test
