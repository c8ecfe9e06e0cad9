// Splits a template into data and the tokens between {{ }}, {% %}, with the whitespace rules of
// trim_blocks and lstrip_blocks applied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::jinja {

enum class TokenKind : std::uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;
  std::string text;  // data, name, decoded string, operator
  std::int64_t integer = 0;
  double real = 0;
};

// The last token is kEnd. Throws Failure with the line at fault. `source` must be valid UTF-8.
std::vector<Token> tokenize(std::string_view source);

}  // namespace strata::jinja
