// The byte alphabet of byte-level BPE vocabularies (GPT-2 and all its heirs): every byte is written
// as one printable character, so that vocabulary texts and merges contain neither spaces nor
// controls. Bytes 0x21..0x7E, 0xA1..0xAC and 0xAE..0xFF stand for themselves as code points; the
// other 68, in ascending order, are written as U+0100, U+0101, ... U+0143.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace strata::text {

class ByteAlphabet {
 public:
  ByteAlphabet();

  // The character that stands for a byte.
  char32_t character(uint8_t byte) const { return characters_[byte]; }

  // The bytes that a vocabulary text stands for. Fails on ill-formed UTF-8 and on a character that
  // stands for no byte.
  Result<std::string> to_bytes(std::string_view vocabulary_text) const;

 private:
  static constexpr char32_t kLimit = 0x144;  // one past the last character of the alphabet

  std::array<char32_t, 256> characters_;
  std::array<int16_t, kLimit> bytes_;  // -1: not a character of the alphabet
};

}  // namespace strata::text
