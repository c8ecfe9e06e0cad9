// Compiles schemas, patterns, grammars and tools out of the input and writes an answer through the
// masks. Beyond not crashing: what is refused is refused with a sentence, a mask admits exactly
// what can be taken, and there is always a way on.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex.h"
#include "text/grammar/tool_call.h"

namespace {

using namespace strata;
using namespace strata::grammar;

void require(bool condition) {
  if (!condition) std::abort();
}

const std::shared_ptr<const Vocabulary>& vocabulary() {
  static const auto made = [] {
    static std::vector<std::string> texts;
    for (int b = 0; b < 256; ++b) texts.emplace_back(1, static_cast<char>(b));
    for (const char* piece : {"{\"", "\": ", "\"}", "\", \"", "ab", "abc", "12", "true", "\n  ",
                              "\xc3\xa9", "\xe4\xbd", "</parameter>", "]}", "}}"}) {
      texts.emplace_back(piece);
    }
    std::vector<std::pair<std::string_view, TokenId>> tokens;
    for (size_t i = 0; i < texts.size(); ++i)
      tokens.emplace_back(texts[i], static_cast<TokenId>(i));
    const auto end = static_cast<TokenId>(texts.size());
    return std::make_shared<const Vocabulary>(tokens, std::vector<TokenId>{end}, end + 1);
  }();
  return made;
}

Result<ExprId> compile(GrammarBuilder& builder, JsonText& json, uint8_t kind,
                       std::string_view text) {
  switch (kind % 5) {
    case 0: return compile_regex(builder, text, RegexMatch::kWhole, write_utf8);
    case 1: return compile_regex(builder, text, RegexMatch::kSearch, write_json);
    case 2: return compile_gbnf(builder, text);
    default: break;
  }
  const Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) return invalid_argument("no JSON");
  if (kind % 5 == 3) return compile_json_schema(builder, json, value);
  const ToolSignature tools[] = {{"strict", value, true}, {"loose", value, false}};
  return compile_tool_calls(builder, json, std::span(tools).subspan(kind / 5 % 2), true, 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 1024) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  GrammarBuilder builder;
  JsonText json(builder);
  const auto root = compile(builder, json, data[0], text);
  if (!root.ok()) {
    require(!root.status().message().empty());
    return 0;
  }
  auto grammar = builder.build(*root);
  if (!grammar.ok()) {
    require(!grammar.status().message().empty());
    return 0;
  }
  const auto cache = std::make_shared<MaskCache>(
      std::make_shared<const Grammar>(std::move(*grammar)), vocabulary(), 1 << 20);
  Matcher matcher(cache);
  std::vector<uint64_t> mask(matcher.words());
  uint32_t random = 1;
  for (int i = 0; i < 24 && !matcher.ended(); ++i) {
    const Status status = matcher.fill_mask(mask);
    if (status.code() == StatusCode::kOutOfRange) return 0;
    require(status.ok());
    std::vector<TokenId> allowed;
    Matcher probe = matcher;
    for (TokenId t = 0; t < vocabulary()->size(); ++t) {
      const bool in = (mask[static_cast<size_t>(t) >> 6] >> (t & 63)) & 1;
      if (in) allowed.push_back(t);
      if ((t + i) % 16 != 0) continue;
      const Status advanced = probe.advance(t);
      if (advanced.code() == StatusCode::kOutOfRange) return 0;
      require(advanced.ok() == in);
      if (in) require(probe.rollback(1));
    }
    random = random * 1664525 + data[static_cast<size_t>(i) % size] + 1013904223;
    const Status advanced = matcher.advance(allowed[(random >> 8) % allowed.size()]);
    if (advanced.code() == StatusCode::kOutOfRange) return 0;
    require(advanced.ok());
    if (i % 5 == 4) require(matcher.rollback(1));
  }
  return 0;
}
