#include "text/byte_level.h"

#include "text/utf8.h"

namespace strata::text {

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    characters_[byte] = printable ? byte : next++;
    bytes_[characters_[byte]] = static_cast<int16_t>(byte);
  }
}

Result<std::string> ByteAlphabet::to_bytes(std::string_view vocabulary_text) const {
  std::string out;
  out.reserve(vocabulary_text.size());
  for (size_t at = 0; at < vocabulary_text.size();) {
    const Utf8Step step = utf8_step(vocabulary_text.substr(at));
    if (step.kind != Utf8Kind::kCharacter) {
      return invalid_argument("it is not valid UTF-8 at its byte {}", at);
    }
    if (step.code_point >= kLimit || bytes_[step.code_point] < 0) {
      return invalid_argument("its character U+{:04X} stands for no byte",
                              static_cast<uint32_t>(step.code_point));
    }
    out.push_back(static_cast<char>(bytes_[step.code_point]));
    at += step.length;
  }
  return out;
}

}  // namespace strata::text
