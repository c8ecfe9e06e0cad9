#include "apps/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <unistd.h>

#include "text/utf8.h"

namespace strata::apps {

namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, Close>;

Status cannot(std::string_view verb, const std::string& path, int error) {
  const auto code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kInvalidArgument;
  return {code, fmt::format("cannot {} {}: {}", verb, path, std::strerror(error))};
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  const bool standard = path == "-";
  FilePtr opened;
  if (!standard) {
    opened.reset(std::fopen(path.c_str(), "rb"));
    if (!opened) return cannot("read", path, errno);
  }
  std::FILE* file = standard ? stdin : opened.get();
  const std::string name = standard ? "standard input" : path;
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, file)) {
    if (text.size() + count > kMaxTextBytes) {
      return out_of_range("{} holds more than the {} MiB of text that can be read", name,
                          kMaxTextBytes >> 20);
    }
    text.append(buffer, count);
  }
  if (std::ferror(file) != 0) return cannot("read", name, errno);
  return text;
}

Status write_text(const std::string& path, std::string_view text) {
  FilePtr file(std::fopen(path.c_str(), "wb"));
  if (!file) return cannot("write", path, errno);
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) {
    return cannot("write", path, errno);
  }
  if (std::fclose(file.release()) != 0) return cannot("write", path, errno);
  return {};
}

bool write_out(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

void complain(std::string_view message) {
  std::fprintf(stderr, "strata: %.*s\n", static_cast<int>(message.size()), message.data());
}

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

std::string fit_for_terminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const text::Utf8Step step = text::utf8_step(text);
    const bool whole = step.kind == text::Utf8Kind::kCharacter;
    const char32_t c = step.code_point;
    const bool steers = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
    if (whole && !steers) {
      out += text.substr(0, step.length);
    } else {
      text::append_utf8(U'\ufffd', &out);
    }
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace strata::apps
