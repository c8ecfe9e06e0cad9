#include "text/grammar/json_text.h"

#include <array>
#include <utility>

namespace strata::grammar {

namespace {

constexpr uint32_t kMaxIndent = 24;

ByteSet set_of(std::string_view bytes) {
  ByteSet set;
  for (const char c : bytes) set.add(static_cast<uint8_t>(c), static_cast<uint8_t>(c));
  return set;
}

constexpr std::array<std::pair<char, char>, 7> kShortEscapes{
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

std::string escaped(char c) {
  for (const auto& [raw, letter] : kShortEscapes) {
    if (c == raw) return {'\\', letter};
  }
  if (static_cast<unsigned char>(c) < 0x20) {
    return fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
  }
  return {c};
}

}  // namespace

std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += escaped(c);
  return out;
}

ExprId write_json(GrammarBuilder& builder, const CodeSet& set) {
  static const CodeSet raw({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}});
  std::vector<ExprId> ways{builder.characters(set.intersected(raw).ranges())};
  for (char32_t c = 0; c < 0x60; ++c) {
    if (raw.contains(c) || !set.contains(c)) continue;
    ways.push_back(builder.literal(escaped(static_cast<char>(c))));
  }
  return builder.either(std::move(ways));
}

RuleId JsonText::shared(std::optional<RuleId>& rule, const char* name, ExprId (JsonText::*make)()) {
  if (!rule) {
    rule = builder_.declare_rule(name);
    builder_.define_rule(*rule, (this->*make)());
  }
  return *rule;
}

ExprId JsonText::space() {
  return builder_.ref(shared(space_, "white space", &JsonText::make_space));
}
ExprId JsonText::make_space() {
  const ExprId line = builder_.literal("\n");
  const ExprId indent = builder_.repeat(builder_.bytes(set_of(" \t")), 0, kMaxIndent);
  return builder_.either({builder_.empty(), builder_.literal(" "),
                          builder_.concat({builder_.repeat(line, 1, 2), indent})});
}
ExprId JsonText::after_colon() { return builder_.optional(builder_.literal(" ")); }
ExprId JsonText::comma() { return builder_.concat({builder_.literal(","), space()}); }

ExprId JsonText::string_character() {
  return builder_.ref(shared(character_, "a character of a string", &JsonText::make_character));
}
ExprId JsonText::make_character() {
  GrammarBuilder b;
  const std::array<CodeRange, 3> raw{{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}}};
  const ExprId hex = b.bytes(set_of("0123456789abcdefABCDEF"));
  const ExprId no_surrogate =
      b.either({b.concat({b.bytes(set_of("0123456789abcefABCEF")), hex, hex, hex}),
                b.concat({b.bytes(set_of("dD")), b.bytes(set_of("01234567")), hex, hex})});
  const ExprId pair =
      b.concat({b.bytes(set_of("dD")), b.bytes(set_of("89abAB")), hex, hex, b.literal("\\u"),
                b.bytes(set_of("dD")), b.bytes(set_of("cdefCDEF")), hex, hex});
  const ExprId one =
      b.either({b.characters(raw), b.concat({b.literal("\\"), b.bytes(set_of("\"\\/bfnrt"))}),
                b.concat({b.literal("\\u"), b.either({no_surrogate, pair})})});
  auto automaton = b.to_automaton(one);
  return automaton.ok() ? builder_.embed(std::move(*automaton)) : builder_.none();
}

ExprId JsonText::string(uint32_t min, uint32_t max) {
  const ExprId quote = builder_.literal("\"");
  return builder_.concat({quote, builder_.repeat(string_character(), min, max), quote});
}

ExprId JsonText::integer() {
  const ExprId digit = builder_.bytes(ByteSet::range('0', '9'));
  return builder_.concat(
      {builder_.optional(builder_.literal("-")),
       builder_.either(
           {builder_.literal("0"), builder_.concat({builder_.bytes(ByteSet::range('1', '9')),
                                                    builder_.repeat(digit, 0, 17)})})});
}

ExprId JsonText::number() {
  const ExprId digit = builder_.bytes(ByteSet::range('0', '9'));
  const ExprId fraction = builder_.concat({builder_.literal("."), builder_.repeat(digit, 1, 17)});
  // 18 digits times 10^289 stay below the largest double.
  const ExprId power =
      builder_.either({builder_.repeat(digit, 1, 2),
                       builder_.concat({builder_.bytes(set_of("12")),
                                        builder_.bytes(ByteSet::range('0', '8')), digit})});
  const ExprId exponent = builder_.concat(
      {builder_.bytes(set_of("eE")), builder_.optional(builder_.bytes(set_of("+-"))), power});
  return builder_.concat({integer(), builder_.optional(fraction), builder_.optional(exponent)});
}

ExprId JsonText::boolean() {
  return builder_.either({builder_.literal("true"), builder_.literal("false")});
}

ExprId JsonText::bracketed(char open, ExprId inner, char close) {
  return builder_.concat(
      {builder_.literal({&open, 1}), space(), inner, builder_.literal({&close, 1})});
}

ExprId JsonText::any_value() {
  if (!value_) {
    value_ = builder_.declare_rule("a value");
    builder_.define_rule(*value_, make_value());
  }
  return builder_.ref(*value_);
}
ExprId JsonText::make_value() {
  return builder_.either({any_object(), any_array(), string(0, kUnbounded), number(), boolean(),
                          builder_.literal("null")});
}

ExprId JsonText::any_object() {
  return builder_.ref(shared(object_, "an object", &JsonText::make_object));
}
ExprId JsonText::make_object() {
  const ExprId pair =
      builder_.concat({string(0, kUnbounded), builder_.literal(":"), after_colon(), any_value()});
  const ExprId more = builder_.repeat(builder_.concat({comma(), pair}), 0, kUnbounded);
  return bracketed('{', builder_.optional(builder_.concat({pair, more, space()})), '}');
}

ExprId JsonText::any_array() {
  return builder_.ref(shared(array_, "an array", &JsonText::make_array));
}
ExprId JsonText::make_array() {
  const ExprId more = builder_.repeat(builder_.concat({comma(), any_value()}), 0, kUnbounded);
  return bracketed('[', builder_.optional(builder_.concat({any_value(), more, space()})), ']');
}

ExprId JsonText::key(std::string_view name) {
  return builder_.concat({builder_.literal("\"" + json_escaped(name) + "\":"), after_colon()});
}

ExprId JsonText::value(const Json& value) {
  if (value.is_string()) {
    return builder_.literal("\"" + json_escaped(value.get_ref<const std::string&>()) + "\"");
  }
  if (!value.is_structured()) return builder_.literal(value.dump());
  if (value.empty())
    return bracketed(value.is_array() ? '[' : '{', builder_.empty(), value.is_array() ? ']' : '}');
  std::vector<ExprId> parts;
  for (const auto& [name, member] : value.items()) {
    if (!parts.empty()) parts.push_back(comma());
    if (value.is_object()) parts.push_back(key(name));
    parts.push_back(this->value(member));
  }
  parts.push_back(space());
  return bracketed(value.is_array() ? '[' : '{', builder_.concat(std::move(parts)),
                   value.is_array() ? ']' : '}');
}

}  // namespace strata::grammar
