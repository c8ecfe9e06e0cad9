#include "text/grammar/gbnf.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar/code_set.h"
#include "text/utf8.h"

namespace strata::grammar {

namespace {

constexpr int kMaxGroups = 200;  // open at once

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class Parser {
 public:
  Parser(GrammarBuilder& builder, std::string_view text) : builder_(builder), text_(text) {}

  Result<ExprId> parse() {
    skip(true);
    while (more()) {
      STRATA_RETURN_IF_ERROR(rule());
      skip(true);
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return invalid_argument("the grammar has no rule named root");
    for (const auto& [name, rule] : rules_) {
      if (!builder_.is_defined(rule.id)) {
        return invalid_argument("line {}: the rule {} is used but not defined", rule.line, name);
      }
    }
    STRATA_RETURN_IF_ERROR(builder_.status());
    return builder_.ref(root->second.id);
  }

 private:
  struct Rule {
    RuleId id = 0;
    size_t line = 0;  // of its first mention
  };

  template <class... Args>
  Status error(fmt::format_string<Args...> f, Args&&... args) const {
    return invalid_argument("line {}: {}", line(), fmt::format(f, std::forward<Args>(args)...));
  }
  size_t line() const {
    return 1 + static_cast<size_t>(std::count(
                   text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
  }

  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }

  // Blanks and comments; line ends too when `lines`.
  void skip(bool lines) {
    while (more()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else if (c == '#') {
        while (more() && peek() != '\n' && peek() != '\r') ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view name() {
    const size_t begin = at_;
    while (more() && is_name_byte(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  RuleId rule_named(std::string_view name) {
    const auto [it, added] = rules_.try_emplace(std::string(name), Rule{});
    if (added) it->second = {builder_.declare_rule(fmt::format("the rule {}", name)), line()};
    return it->second.id;
  }

  Status rule() {
    const std::string_view rule_name = name();
    if (rule_name.empty()) return error("expected the name of a rule, found '{}'", shown());
    const RuleId id = rule_named(rule_name);
    skip(false);
    if (!take("::=")) return error("expected ::= after {}", rule_name);
    if (builder_.is_defined(id)) return error("the rule {} is defined twice", rule_name);
    skip(true);
    STRATA_ASSIGN_OR_RETURN(const ExprId e, alternatives(0));
    builder_.define_rule(id, e);
    if (more() && peek() != '\n' && peek() != '\r') {
      return error("expected the end of the rule {}, found '{}'", rule_name, shown());
    }
    return builder_.status();
  }

  std::string shown() const {
    if (!more()) return "the end";
    const auto step = text::utf8_step(text_.substr(at_));
    return text::to_valid_utf8(text_.substr(at_, step.length));
  }

  Result<ExprId> alternatives(int groups) {
    std::vector<ExprId> ways;
    for (;;) {
      STRATA_ASSIGN_OR_RETURN(const ExprId way, sequence(groups));
      ways.push_back(way);
      const size_t before = at_;
      skip(true);
      if (!take("|")) {
        at_ = before;
        break;
      }
      skip(true);
    }
    return builder_.either(std::move(ways));
  }

  Result<ExprId> sequence(int groups) {
    std::vector<ExprId> parts;
    for (;;) {
      skip(groups > 0);
      const char c = peek();
      ExprId part = builder_.empty();
      if (!more() || c == '|' || c == ')' || c == '\n' || c == '\r') break;
      if (c == '"') {
        STRATA_ASSIGN_OR_RETURN(part, quoted());
      } else if (c == '[') {
        STRATA_ASSIGN_OR_RETURN(part, char_class());
      } else if (c == '(') {
        if (groups >= kMaxGroups) return error("more than {} nested groups", kMaxGroups);
        ++at_;
        STRATA_ASSIGN_OR_RETURN(part, alternatives(groups + 1));
        skip(true);
        if (!take(")")) return error("a ( without a )");
      } else if (c == '.') {
        ++at_;
        part = write(CodeSet::all());
      } else if (c == '<' || c == '!') {
        return error("tokens in angle brackets are not supported; write their text in quotes");
      } else if (is_name_byte(c)) {
        part = builder_.ref(rule_named(name()));
      } else {
        return error("unexpected '{}'", shown());
      }
      STRATA_ASSIGN_OR_RETURN(part, repeated(part));
      parts.push_back(part);
      STRATA_RETURN_IF_ERROR(builder_.status());
    }
    return builder_.concat(std::move(parts));
  }

  Result<ExprId> repeated(ExprId e) {
    for (;;) {
      skip(false);
      if (take("*")) {
        e = builder_.repeat(e, 0, kUnbounded);
      } else if (take("+")) {
        e = builder_.repeat(e, 1, kUnbounded);
      } else if (take("?")) {
        e = builder_.optional(e);
      } else if (take("{")) {
        skip(true);
        const auto low = number();
        if (!low) return error("expected a number after {{");
        skip(true);
        uint32_t high = *low;
        if (take(",")) {
          skip(true);
          high = number().value_or(kUnbounded);
          skip(true);
        }
        if (!take("}")) return error("expected }} after a count");
        if (high < *low) return error("a repetition from {} to {} is empty", *low, high);
        if (*low > kMaxCount || (high > kMaxCount && high != kUnbounded)) {
          return error("a repetition beyond {}", kMaxCount);
        }
        e = builder_.repeat(e, *low, high);
      } else {
        return e;
      }
    }
  }

  std::optional<uint32_t> number() {
    const size_t begin = at_;
    uint64_t value = 0;
    while (more() && peek() >= '0' && peek() <= '9') {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(peek() - '0'), UINT32_MAX - 1);
      ++at_;
    }
    if (begin == at_) return std::nullopt;
    return static_cast<uint32_t>(value);
  }

  ExprId write(const CodeSet& set) {
    return set.empty() ? builder_.none() : builder_.characters(set.ranges());
  }

  Result<ExprId> quoted() {
    ++at_;
    std::string literal;
    while (!take("\"")) {
      if (!more()) return error("a text without a closing quote");
      STRATA_ASSIGN_OR_RETURN(const char32_t c, character());
      text::append_utf8(c, &literal);
    }
    return builder_.literal(literal);
  }

  Result<ExprId> char_class() {
    ++at_;
    const bool negated = take("^");
    std::vector<CodeRange> ranges;
    while (!take("]")) {
      if (!more()) return error("a [ without a ]");
      STRATA_ASSIGN_OR_RETURN(const char32_t low, character());
      char32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        STRATA_ASSIGN_OR_RETURN(high, character());
        if (high < low) return error("a range of characters that is empty");
      }
      ranges.push_back({low, high});
    }
    const CodeSet set(std::move(ranges));
    return write(negated ? set.complement() : set);
  }

  Result<char32_t> character() {
    if (!take("\\")) {
      const auto step = text::utf8_step(text_.substr(at_));
      if (step.kind != text::Utf8Kind::kCharacter) return error("invalid UTF-8");
      at_ += step.length;
      return step.code_point;
    }
    const char c = peek();
    if (!more()) return error("a backslash at the end");
    ++at_;
    switch (c) {
      case 'n': return U'\n';
      case 'r': return U'\r';
      case 't': return U'\t';
      case 'x': return hex(2);
      case 'u': return hex(4);
      case 'U': return hex(8);
      default: break;
    }
    if (c > ' ' && c < 0x7F && !is_name_byte(c)) return static_cast<char32_t>(c);
    if (c == '-' || c == '_') return static_cast<char32_t>(c);
    --at_;
    return error("the escape \\{} is unknown", shown());
  }

  Result<char32_t> hex(size_t digits) {
    uint64_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const char lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<uint64_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value * 16 + static_cast<uint64_t>(lower - 'a' + 10);
      } else {
        return error("a code point needs {} hexadecimal digits", digits);
      }
    }
    if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF)) {
      return error("{:X} is no character", value);
    }
    return static_cast<char32_t>(value);
  }

  GrammarBuilder& builder_;
  std::string_view text_;
  size_t at_ = 0;
  std::unordered_map<std::string, Rule> rules_;
};

}  // namespace

Result<ExprId> compile_gbnf(GrammarBuilder& builder, std::string_view text) {
  if (text.size() > kMaxGbnfBytes) {
    return invalid_argument("the grammar has {} bytes; at most {} are allowed", text.size(),
                            kMaxGbnfBytes);
  }
  return Parser(builder, text).parse();
}

}  // namespace strata::grammar
