// How names from a file appear in messages.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace strata::gguf {

// In quotes, at most 100 bytes, with everything but printable ASCII escaped.
inline std::string quoted(std::string_view text) {
  constexpr size_t kMax = 100;
  std::string out = "'";
  for (const char c : text.substr(0, kMax)) {
    if (c >= 0x20 && c < 0x7F && c != '\'' && c != '\\') {
      out.push_back(c);
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + (text.size() > kMax ? "...'" : "'");
}

}  // namespace strata::gguf
