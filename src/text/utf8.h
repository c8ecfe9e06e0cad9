// UTF-8 as the Unicode Standard defines it (table 3-7: no surrogates, no overlong forms, nothing
// above U+10FFFF). All functions are pure and run in linear time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::text {

enum class Utf8Kind {
  kCharacter,   // a well-formed sequence
  kInvalid,     // no continuation can make these bytes well-formed
  kIncomplete,  // the text ends inside a sequence that is well-formed so far
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kInvalid;
  uint32_t length = 1;      // bytes of the character, or of the maximal ill-formed subpart (1..3)
  char32_t code_point = 0;  // only for kCharacter
};

// What stands at the front of `text`, which must not be empty.
Utf8Step utf8_step(std::string_view text);

// Length of the longest prefix that is well-formed UTF-8.
size_t valid_utf8_prefix(std::string_view text);

bool is_valid_utf8(std::string_view text);

// Characters of the text; every maximal ill-formed subpart counts as one, as replacing it by U+FFFD
// would.
size_t count_code_points(std::string_view text);

// Appends a Unicode scalar value.
void append_utf8(char32_t code_point, std::string* out);

// The text with every maximal ill-formed subpart replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

// Turns a byte stream cut anywhere into pieces of valid UTF-8. An unfinished character at the end
// is held back (at most 3 bytes) until its rest arrives. Not thread-safe; one object per stream.
class Utf8Stream {
 public:
  // The text that has become final, ill-formed subparts replaced by U+FFFD. May be empty.
  std::string feed(std::string_view bytes);
  // Ends the stream: U+FFFD for a character that never became whole, else empty. The object can
  // then be used for another stream.
  std::string flush();
  // Bytes held back, 0..3.
  size_t pending() const { return pending_.size(); }

 private:
  std::string pending_;
};

}  // namespace strata::text
