#include "apps/logit_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

namespace strata::apps {

static_assert(std::endian::native == std::endian::little, "logit files are written as they lie");

Result<LogitFile> LogitFile::create(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return invalid_argument("cannot write {}: {}", path, std::strerror(errno));
  return LogitFile(path, file);
}

Result<LogitFile> LogitFile::open(const std::string& path, uint64_t values) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return not_found("cannot read {}: {}", path, error.message());
  if (bytes != values * sizeof(float)) {
    return failed_precondition(
        "{} holds {} bytes, but logits of these tokens and this vocabulary are {} bytes; save them "
        "with the same tokens and a model of the same vocabulary",
        path, bytes, values * sizeof(float));
  }
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return invalid_argument("cannot read {}: {}", path, std::strerror(errno));
  return LogitFile(path, file);
}

Status LogitFile::write(std::span<const float> values) {
  if (std::fwrite(values.data(), sizeof(float), values.size(), file_.get()) == values.size()) {
    return {};
  }
  return unavailable("cannot write {}: {}; it is incomplete", path_, std::strerror(errno));
}

Status LogitFile::read(std::span<float> out) {
  if (std::fread(out.data(), sizeof(float), out.size(), file_.get()) != out.size()) {
    return unavailable("cannot read {}: it ended early", path_);
  }
  if (!std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); })) {
    return failed_precondition("{} holds a number that is not finite; these are no logits", path_);
  }
  return {};
}

Status LogitFile::close() {
  if (std::fclose(file_.release()) == 0) return {};
  return unavailable("cannot write {}: {}; it is incomplete", path_, std::strerror(errno));
}

}  // namespace strata::apps
