#define PCRE2_CODE_UNIT_WIDTH 8

#include "text/pretokenizer.h"

#include <gtest/gtest.h>
#include <pcre2.h>

#include "text/utf8.h"
#include "tokenizer_fixture.h"

namespace strata::text {
namespace {

using Words = std::vector<std::string>;

Words split(const Pretokenizer& rules, std::string_view text) {
  auto cursor = rules.cursor();
  EXPECT_TRUE(cursor.ok()) << cursor.status().message();
  Words words;
  cursor->reset(text);
  while (!cursor->done()) {
    const auto word = cursor->next();
    EXPECT_TRUE(word.ok()) << word.status().message();
    if (!word.ok()) break;
    words.emplace_back(*word);
  }
  return words;
}

Pretokenizer make(Pretokenizer::Engine engine = Pretokenizer::Engine::kFastest) {
  return std::move(Pretokenizer::create("qwen35", engine)).value();
}

TEST(Pretokenizer, CutsAsTheRulesOfTheFamilySay) {
  const Pretokenizer rules = make();
  const std::pair<const char*, Words> cases[] = {
      {"", {}},
      {"I'll don't", {"I", "'ll", " don", "'t"}},
      {"O'NEIL'S", {"O", "'NEIL", "'S"}},
      {"'\u017f", {"'\u017f"}},
      {"a1b22", {"a", "1", "b", "2", "2"}},
      {" 7", {" ", "7"}},
      {"x   y", {"x", "  ", " y"}},
      {"x   ", {"x", "   "}},
      {"a \n\n  b", {"a", " \n\n", " ", " b"}},
      {"!!\n\nx", {"!!\n\n", "x"}},
      {" ?!", {" ?!"}},
      {"e\u0301\u0301", {"e\u0301\u0301"}},
      {"\u0301", {"\u0301"}},
      {"\n\u0301", {"\n", "\u0301"}},
      {"a\u180eb", {"a", "\u180eb"}},
      {" \u180e", {" \u180e"}},
      {"1\u0085\u00851", {"1", "\u0085", "\u0085", "1"}},
      {"1\u200b\u200b1", {"1", "\u200b\u200b", "1"}},
      {"1\u2028\u20291", {"1", "\u2028", "\u2029", "1"}},
      {"1\u1680\u30001", {"1", "\u1680", "\u3000", "1"}},
  };
  for (const auto& [text, want] : cases) {
    EXPECT_EQ(split(rules, text), want) << testing::PrintToString(text);
  }
}

// Code points of Unicode 15.0, 15.1 and 16.0, whatever the PCRE2 in use knows.
TEST(Pretokenizer, KnowsLettersMarksAndNumbersUpToUnicode16) {
  const Pretokenizer rules = make();
  EXPECT_EQ(split(rules, "a\U00031350\U0002EBF0\U000105C0b"),
            Words{"a\U00031350\U0002EBF0\U000105C0b"});
  EXPECT_EQ(split(rules, "a\u0897\U00011F00b"), Words{"a\u0897\U00011F00b"});
  EXPECT_EQ(split(rules, "a\U00010D40\U0001CCF0b"), (Words{"a", "\U00010D40", "\U0001CCF0", "b"}));
}

// The regular expression as the model's tokenizer.json has it, run by PCRE2 as it stands. Its \s
// includes U+180E and its (?i:) U+017F, which the texts therefore leave out.
TEST(Pretokenizer, AgreesWithTheOriginalExpression) {
  const std::string original =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
      R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(original.data()), original.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr);
  ASSERT_NE(code, nullptr);
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  const Pretokenizer fast = make();
  const Pretokenizer plain = make(Pretokenizer::Engine::kInterpreter);
  std::mt19937 random(3);
  const std::u32string alphabet =
      U"aZ\u00e9\u4f60\u0301\u093f7\u0663\u00bd "
      U"\t\n\r\u000b\u0085\u00a0\u2003\u2028\u3000'sStTlLrReEmMdDvV!.<|\u200d"
      U"\U0001F431";
  for (int i = 0; i < 30000; ++i) {
    std::string text;
    for (size_t n = random() % 16; n > 0; --n) {
      append_utf8(alphabet[random() % alphabet.size()], &text);
    }
    Words want;
    for (PCRE2_SIZE from = 0; from < text.size();) {
      ASSERT_GT(pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, 0,
                            match, nullptr),
                0);
      const PCRE2_SIZE end = pcre2_get_ovector_pointer(match)[1];
      want.push_back(text.substr(from, end - from));
      from = end;
    }
    ASSERT_EQ(split(fast, text), want) << testing::PrintToString(text);
    ASSERT_EQ(split(plain, text), want) << testing::PrintToString(text);
  }
  pcre2_match_data_free(match);
  pcre2_code_free(code);
}

TEST(Pretokenizer, NeedsNoMachineCodeForHostileText) {
  constexpr size_t kBytes = 10'000'000;
  const Pretokenizer rules = make(Pretokenizer::Engine::kInterpreter);
  for (const char* unit : {" ", " \n"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    text += "x";
    auto cursor = rules.cursor();
    ASSERT_TRUE(cursor.ok());
    cursor->reset(text);
    size_t covered = 0;
    const double start = test::cpu_seconds();
    while (!cursor->done()) {
      const auto word = cursor->next();
      ASSERT_TRUE(word.ok()) << word.status().message();
      covered += word->size();
    }
    const double took = test::cpu_seconds() - start;
    EXPECT_EQ(covered, text.size());
    EXPECT_LT(took, 40.0) << testing::PrintToString(unit);
  }
}

TEST(Pretokenizer, NamesTheRulesItDoesNotKnow) {
  for (const char* name : {"", "qwen2", "default", "llama-bpe"}) {
    const auto rules = Pretokenizer::create(name);
    ASSERT_FALSE(rules.ok());
    EXPECT_EQ(rules.status().code(), StatusCode::kUnimplemented);
    EXPECT_NE(rules.status().message().find(std::string("\"") + name + "\""), std::string::npos);
  }
}

}  // namespace
}  // namespace strata::text
