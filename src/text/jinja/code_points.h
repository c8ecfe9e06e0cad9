// Code points of valid UTF-8. Every string that enters the engine is validated first, so the
// functions below may assume well-formed input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata::jinja {

struct CodePoint {
  char32_t value;
  std::size_t size;  // bytes
};

// The code point that starts at byte `pos` (pos < bytes.size()).
CodePoint decode_at(std::string_view bytes, std::size_t pos);
// The code point that ends before byte `end` (end > 0).
CodePoint decode_before(std::string_view bytes, std::size_t end);
void encode(char32_t code_point, std::string& out);

std::size_t count_code_points(std::string_view bytes);
// Byte offset of code point number `index`; bytes.size() when there are fewer.
std::size_t offset_of_code_point(std::string_view bytes, std::size_t index);

// What Python's str.isspace() and the regular expression \s accept.
bool is_space(char32_t code_point);
// What str.isprintable() accepts; decides which characters repr() escapes.
bool is_printable(char32_t code_point);
bool is_alpha(char32_t code_point);
bool is_decimal(char32_t code_point);
bool is_numeric(char32_t code_point);
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);

// Case mappings append because one letter may become several (German sharp s).
void append_upper(char32_t code_point, std::string& out);
void append_lower(char32_t code_point, std::string& out);

// First position of `needle` at or after `from`, npos when there is none. Linear in the worst case:
// templates come from strangers.
std::size_t find_bytes(std::string_view haystack, std::string_view needle, std::size_t from = 0);

}  // namespace strata::jinja
