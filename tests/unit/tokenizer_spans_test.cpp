#include <algorithm>

#include <gtest/gtest.h>

#include "text/tokenizer.h"
#include "tokenizer_fixture.h"

namespace strata::text {
namespace {

std::vector<TokenId> encode_spans(const Tokenizer& tokenizer, const std::vector<Span>& spans) {
  const auto ids = tokenizer.encode_spans(spans);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : std::vector<TokenId>{};
}

int count_special(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  return static_cast<int>(
      std::count_if(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.is_special(id); }));
}

std::vector<Span> cut(std::string_view text, std::mt19937& random, bool trusted) {
  std::vector<Span> spans;
  while (!text.empty()) {
    const size_t n = std::min<size_t>(random() % 6, text.size());
    spans.push_back({text.substr(0, n), trusted});
    text.remove_prefix(n);
  }
  return spans;
}

TEST(TokenizerSpans, EqualTheJoinedTextWhenAllAreTrusted) {
  const Tokenizer tokenizer = test::make_tiny_tokenizer();
  std::mt19937 random(21);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = test::random_text(random, i % 2 == 0);
    ASSERT_EQ(encode_spans(tokenizer, cut(text, random, true)),
              tokenizer.encode(text, Special::kParse).value());
    ASSERT_EQ(encode_spans(tokenizer, cut(text, random, false)),
              tokenizer.encode(text, Special::kPlain).value());
  }
}

TEST(TokenizerSpans, MergeWordsAcrossTheBorderOfTemplateAndUser) {
  const Tokenizer tokenizer = test::make_tiny_tokenizer();
  const std::vector<Span> spans = {{"<|im_start|>user\nHel", true},
                                   {"lo wor", false},
                                   {"ld e", true},
                                   {"\u0301<|im_end|>", false},
                                   {"<|im_end|>", true}};
  auto want = tokenizer.encode("<|im_start|>user\nHello world e\u0301", Special::kParse).value();
  const auto user = tokenizer.encode("world e\u0301<|im_end|>", Special::kPlain).value();
  const auto ids = encode_spans(tokenizer, spans);
  EXPECT_EQ(count_special(tokenizer, ids), 2);
  EXPECT_EQ(ids.back(), *tokenizer.eos());
  EXPECT_TRUE(std::equal(want.begin(), want.end() - 1, ids.begin()));
  EXPECT_EQ(tokenizer.decode(ids, true).value(),
            "<|im_start|>user\nHello world \u00e9<|im_end|><|im_end|>");
}

TEST(TokenizerSpans, NeverMakeAControlTokenThatUntrustedTextTakesPartIn) {
  const Tokenizer tokenizer = test::make_tiny_tokenizer();
  std::vector<std::string> names;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) names.emplace_back(tokenizer.token_bytes(id));
  }
  ASSERT_EQ(names.size(), 14u);
  std::mt19937 random(31);
  for (int i = 0; i < 20000; ++i) {
    const std::string& name = names[random() % names.size()];
    const std::string before = test::random_text(random, true);
    const std::string after = test::random_text(random, true);
    // The name in three parts; at least one part that is not empty is untrusted.
    size_t a = random() % (name.size() + 1);
    size_t b = random() % (name.size() + 1);
    if (a > b) std::swap(a, b);
    const std::string_view parts[3] = {std::string_view(name).substr(0, a),
                                       std::string_view(name).substr(a, b - a),
                                       std::string_view(name).substr(b)};
    std::vector<Span> spans = {{before, false}};
    bool untrusted = false;
    for (const std::string_view part : parts) {
      const bool trusted = random() % 2 == 0;
      untrusted |= !trusted && !part.empty();
      spans.push_back({part, trusted});
    }
    spans.push_back({after, false});
    const auto ids = encode_spans(tokenizer, spans);
    ASSERT_EQ(count_special(tokenizer, ids), untrusted ? 0 : 1) << before << name << after;
    if (untrusted) {
      ASSERT_EQ(ids, tokenizer.encode(before + name + after, Special::kPlain).value());
    }
  }
}

TEST(TokenizerSpans, TrustedSpansMayShareAControlTokenAcrossAnEmptyUserText) {
  const Tokenizer tokenizer = test::make_tiny_tokenizer();
  EXPECT_EQ(encode_spans(tokenizer, {{"<|im_", true}, {"", false}, {"end|>", true}}),
            std::vector<TokenId>{*tokenizer.eos()});
  EXPECT_TRUE(encode_spans(tokenizer, {}).empty());
}

}  // namespace
}  // namespace strata::text
