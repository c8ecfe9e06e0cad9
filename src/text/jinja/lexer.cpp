#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"

namespace strata::jinja {
namespace {

constexpr std::size_t kNpos = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Line ends become "\n"; one line end at the very end is dropped.
std::string normalise_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(normalise_lines(source)), source_(owned_) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) lex_data();
    push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  char at(std::size_t pos) const { return pos < source_.size() ? source_[pos] : '\0'; }
  bool starts(std::size_t pos, std::string_view what) const {
    return source_.substr(std::min(pos, source_.size())).starts_with(what);
  }
  std::size_t skip_spaces(std::size_t pos) const {
    while (pos < source_.size()) {
      const CodePoint c = decode_at(source_, pos);
      if (!is_space(c.value)) break;
      pos += c.size;
    }
    return pos;
  }

  void push(TokenKind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  // Moves on to `pos`, counting lines; what was passed decides whether a line starts there.
  void advance_to(std::size_t pos) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(pos), '\n'));
    if (pos > pos_) line_starting_ = source_[pos - 1] == '\n';
    pos_ = pos;
  }

  // Text before a tag that opens with `sign` ('-', '+' or anything else for none).
  void push_data(std::size_t begin, std::size_t end, char sign, bool may_lstrip) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      while (!text.empty()) {
        const CodePoint c = decode_before(text, text.size());
        if (!is_space(c.value)) break;
        text.remove_suffix(c.size);
      }
    } else if (sign != '+' && may_lstrip) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_begin = newline == kNpos ? 0 : newline + 1;
      if (line_begin > 0 || line_starting_) {
        std::size_t i = line_begin;
        while (i < text.size()) {
          const CodePoint c = decode_at(text, i);
          if (!is_space(c.value)) break;
          i += c.size;
        }
        if (i == text.size()) text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) push(TokenKind::kData, std::string(text));
  }

  // Where the text after a closing delimiter of two bytes at `pos` goes on. `sign` stands before
  // it.
  std::size_t after_close(std::size_t pos, char sign, bool trim_newline) const {
    pos += 2;
    if (sign == '-') return skip_spaces(pos);
    if (sign != '+' && trim_newline && at(pos) == '\n') ++pos;
    return pos;
  }

  // End of "<sign>? raw <sign>? %}" after "{%" at `open`, npos when this is no raw tag.
  std::size_t match_raw_begin(std::size_t open) const {
    std::size_t pos = open + 2;
    if (at(pos) == '-' || at(pos) == '+') ++pos;
    pos = skip_spaces(pos);
    if (!starts(pos, "raw")) return kNpos;
    pos = skip_spaces(pos + 3);
    if (starts(pos, "-%}")) return skip_spaces(pos + 3);
    return starts(pos, "%}") ? pos + 2 : kNpos;
  }

  void lex_data() {
    std::size_t open = pos_;
    while (true) {
      open = source_.find('{', open);
      if (open == kNpos) {
        push(TokenKind::kData, std::string(source_.substr(pos_)));
        advance_to(source_.size());
        return;
      }
      const char next = at(open + 1);
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    const char kind = source_[open + 1];
    char sign = at(open + 2);
    if (sign != '-' && sign != '+') sign = '\0';
    push_data(pos_, open, sign, kind != '{');
    const std::size_t inside = open + 2 + (sign == '\0' ? 0 : 1);
    if (kind == '#') {
      lex_comment(open, inside);
    } else if (const std::size_t raw = kind == '%' ? match_raw_begin(open) : kNpos; raw != kNpos) {
      advance_to(raw);
      lex_raw();
    } else {
      advance_to(inside);
      push(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin);
      lex_code(kind == '%');
    }
  }

  void lex_comment(std::size_t open, std::size_t inside) {
    advance_to(open);
    const std::size_t close = source_.find("#}", inside);
    if (close == kNpos) fail_at(line_, "this comment is never closed: \"#}}\" is missing");
    const char sign = close > inside ? source_[close - 1] : '\0';
    advance_to(after_close(close, sign, true));
  }

  void lex_raw() {
    const int opened = line_;
    for (std::size_t open = pos_;; open += 2) {
      open = source_.find("{%", open);
      if (open == kNpos) fail_at(opened, "this raw block is never closed: endraw is missing");
      std::size_t pos = open + 2;
      char sign = at(pos);
      if (sign == '-' || sign == '+')
        ++pos;
      else
        sign = '\0';
      pos = skip_spaces(pos);
      if (!starts(pos, "endraw")) continue;
      pos = skip_spaces(pos + 6);
      const char closing = at(pos);
      if (closing == '-' || closing == '+') ++pos;
      if (!starts(pos, "%}")) continue;
      push_data(pos_, open, sign, true);
      advance_to(after_close(pos, closing, true));
      return;
    }
  }

  void lex_code(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    const int opened = line_;
    std::string brackets;
    while (true) {
      advance_to(skip_spaces(pos_));
      if (pos_ >= source_.size()) {
        fail_at(opened, "this {} is never closed: \"{}\" is missing",
                block ? "block tag" : "expression", close);
      }
      const char c = source_[pos_];
      if (brackets.empty()) {
        const bool signed_close = (c == '-' || (c == '+' && block)) && starts(pos_ + 1, close);
        if (signed_close || starts(pos_, close)) {
          push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
          advance_to(signed_close ? after_close(pos_ + 1, c, false)
                                  : after_close(pos_, '\0', block));
          return;
        }
      }
      if (is_digit(c)) {
        lex_number();
      } else if (is_name_start(c)) {
        std::size_t end = pos_;
        while (end < source_.size() && is_name_part(source_[end])) ++end;
        push(TokenKind::kName, std::string(source_.substr(pos_, end - pos_)));
        advance_to(end);
      } else if (c == '"' || c == '\'') {
        lex_string(c);
      } else {
        lex_operator(brackets);
      }
    }
  }

  void lex_operator(std::string& brackets) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "<",
        ">",  "=",  ".",  ":",  "|",  ",",  ";", "(", ")", "[", "]", "{", "}"};
    for (const std::string_view op : kOperators) {
      if (!starts(pos_, op)) continue;
      if (op == "(" || op == "[" || op == "{") {
        brackets += op == "(" ? ')' : op == "[" ? ']' : '}';
      } else if (op == ")" || op == "]" || op == "}") {
        if (brackets.empty() || brackets.back() != op[0]) fail_at(line_, "unexpected '{}'", op);
        brackets.pop_back();
      }
      push(TokenKind::kOperator, std::string(op));
      advance_to(pos_ + op.size());
      return;
    }
    const CodePoint c = decode_at(source_, pos_);
    fail_at(line_, "unexpected character '{}'", source_.substr(pos_, c.size));
  }

  // Digits of `base` with single underscores between them, from `pos`; returns the end.
  std::size_t scan_digits(std::size_t pos, int base, std::string& digits) const {
    while (true) {
      if (digit_value(at(pos)) < base) {
        digits += source_[pos++];
      } else if (at(pos) == '_' && !digits.empty() && digit_value(at(pos + 1)) < base) {
        ++pos;
      } else {
        return pos;
      }
    }
  }

  void lex_number() {
    std::string digits;
    int base = 10;
    std::size_t end = pos_;
    if (at(pos_) == '0') {
      const char mark = static_cast<char>(at(pos_ + 1) | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      const std::size_t first = at(pos_ + 2) == '_' ? pos_ + 3 : pos_ + 2;
      if (base != 10 && digit_value(at(first)) >= base) base = 10;
      if (base != 10) end = scan_digits(first, base, digits);
    }
    if (base == 10) {
      end = scan_digits(pos_, 10, digits);
      const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
      if (!after_dot && lex_float(end, digits)) return;
      // A literal such as 012 is not a number of the language.
      if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != kNpos) {
        fail_at(line_, "a whole number cannot start with 0");
      }
    }
    std::int64_t value = 0;
    for (const char c : digits) {
      if (__builtin_mul_overflow(value, base, &value) ||
          __builtin_add_overflow(value, digit_value(c), &value)) {
        fail_at(line_, "the number {} does not fit 64 bits", digits);
      }
    }
    push(TokenKind::kInteger);
    tokens_.back().integer = value;
    advance_to(end);
  }

  // Goes on after the whole digits that end at `end`; false when no fraction or exponent follows.
  bool lex_float(std::size_t end, std::string digits) {
    bool is_float = false;
    if (at(end) == '.' && is_digit(at(end + 1))) {
      std::string fraction;
      end = scan_digits(end + 1, 10, fraction);
      digits += '.' + fraction;
      is_float = true;
    }
    if (at(end) == 'e' || at(end) == 'E') {
      std::size_t pos = end + 1;
      std::string exponent = "e";
      if (at(pos) == '+' || at(pos) == '-') exponent += source_[pos++];
      if (is_digit(at(pos))) {
        std::string power;
        end = scan_digits(pos, 10, power);
        digits += exponent + power;
        is_float = true;
      }
    }
    if (!is_float) return false;
    push(TokenKind::kFloat);
    // from_chars, unlike strtod, does not depend on the locale; it fails only on overflow.
    double value = HUGE_VAL;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec != std::errc() && digits.find("e-") != kNpos) value = 0;
    tokens_.back().real = value;
    advance_to(end);
    return true;
  }

  // `count` hexadecimal digits from `pos`.
  char32_t scan_hex(std::size_t pos, int count) {
    char32_t value = 0;
    for (int i = 0; i < count; ++i) {
      const int digit = digit_value(at(pos + static_cast<std::size_t>(i)));
      if (digit > 15) fail_at(line_, "a string holds an incomplete \\x, \\u or \\U escape");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      fail_at(line_, "a string holds an escape for U+{:04X}, which is no character",
              static_cast<unsigned>(value));
    }
    return value;
  }

  void lex_string(char quote) {
    std::string out;
    std::size_t pos = pos_ + 1;
    while (true) {
      if (pos >= source_.size()) fail_at(line_, "this string is never closed");
      const char c = source_[pos++];
      if (c == quote) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (pos >= source_.size()) fail_at(line_, "this string is never closed");
      const char escape = source_[pos++];
      switch (escape) {
        case '\n': break;
        case '\\': out += '\\'; break;
        case '\'': out += '\''; break;
        case '"': out += '"'; break;
        case 'a': out += '\a'; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        case 'v': out += '\v'; break;
        case 'x':
          encode(scan_hex(pos, 2), out);
          pos += 2;
          break;
        case 'u':
          encode(scan_hex(pos, 4), out);
          pos += 4;
          break;
        case 'U':
          encode(scan_hex(pos, 8), out);
          pos += 8;
          break;
        case 'N': fail_at(line_, "the string escape \\N{{...}} is not supported");
        default:
          if (digit_value(escape) < 8) {
            char32_t value = static_cast<char32_t>(digit_value(escape));
            for (int i = 0; i < 2 && digit_value(at(pos)) < 8; ++i) {
              value = value * 8 + static_cast<char32_t>(digit_value(source_[pos++]));
            }
            encode(value, out);
          } else {
            out += '\\';
            out += escape;
          }
      }
    }
    push(TokenKind::kString, std::move(out));
    advance_to(pos);
  }

  std::string owned_;
  std::string_view source_;
  std::size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace strata::jinja
