// Files of logits: raw float32, little-endian, [positions][vocabulary], no header.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace strata::apps {

class LogitFile {
 public:
  static Result<LogitFile> create(const std::string& path);
  // Fails unless the file holds exactly `values` numbers.
  static Result<LogitFile> open(const std::string& path, uint64_t values);

  Status write(std::span<const float> values);
  // The next `out.size()` values; fails on a number that is not finite.
  Status read(std::span<float> out);
  // Ends writing; reports what could not be written.
  Status close();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  LogitFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace strata::apps
