#include "text/tokenizer.h"

#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/tokenizer_nfc.h"
#include "text/utf8.h"
#include "tokenizer_fixture.h"

namespace strata::text {
namespace {

using test::make_tiny_tokenizer;

nlohmann::json golden(const std::string& name) {
  std::ifstream file(test::tiny_model_path("golden/" + name));
  return nlohmann::json::parse(file);
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                            Special special = Special::kParse) {
  const auto ids = tokenizer.encode(text, special);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : std::vector<TokenId>{};
}

std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                   bool include_special = true) {
  const auto text = tokenizer.decode(ids, include_special);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : std::string();
}

TEST(Tokenizer, GivesTheIdsOfTheOriginalForEveryGoldenText) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  size_t texts = 0;
  for (const char* name : {"tokenizer.json", "chat.json", "prompts.json"}) {
    for (const auto& record : golden(name)) {
      const auto text = record.at("text").get<std::string>();
      EXPECT_EQ(encode(tokenizer, text), record.at("ids").get<std::vector<TokenId>>()) << text;
      ++texts;
    }
  }
  EXPECT_GE(texts, 98u);
}

TEST(Tokenizer, DecodesEveryGoldenTextAsTheOriginalDoes) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  for (const auto& record : golden("tokenizer.json")) {
    EXPECT_EQ(decode(tokenizer, record.at("ids").get<std::vector<TokenId>>()),
              record.at("back").get<std::string>());
  }
}

TEST(Tokenizer, RestoresArbitraryBytes) {
  const Tokenizer tokenizer = make_tiny_tokenizer(false);
  std::mt19937 random(1);
  int invalid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = test::random_text(random, false);
    if (i % 3 == 0) {
      bytes.clear();
      for (size_t n = random() % 40; n > 0; --n) bytes += static_cast<char>(random());
    }
    invalid += !is_valid_utf8(bytes);
    ASSERT_EQ(decode(tokenizer, encode(tokenizer, bytes, Special::kPlain)), bytes);
    ASSERT_EQ(decode(tokenizer, encode(tokenizer, bytes, Special::kParse)), bytes);
  }
  EXPECT_GT(invalid, 10000);
}

TEST(Tokenizer, NormalizesTheValidTextAroundInvalidBytes) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  EXPECT_EQ(decode(tokenizer, encode(tokenizer,
                                     "e\u0301\xFF"
                                     "e\u0301\xE2\x82")),
            "\u00e9\xFF\u00e9\xE2\x82");
}

TEST(Tokenizer, NormalizesBetweenControlTokensAndNotAcrossThem) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  EXPECT_EQ(decode(tokenizer, encode(tokenizer, "e\u0301<|im_end|>\u0301")),
            "\u00e9<|im_end|>\u0301");
}

// Forms from the Unicode Standard's annex 15 and its NormalizationTest file.
TEST(Tokenizer, NormalFormCFollowsTheUnicodeStandard) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"A\u030A", "\u00C5"},
      {"\u212B", "\u00C5"},
      {"\u1E9B\u0323", "\u1E9B\u0323"},
      {"\u0073\u0323\u0307", "\u1E69"},
      {"\u0073\u0307\u0323", "\u1E69"},
      {"\u0064\u0307\u0323", "\u1E0D\u0307"},
      {"\u0958", "\u0915\u093C"},
      {"\u1112\u1161\u11AB", "\uD55C"},
      {"\uFB01", "\uFB01"},
      {"\u0344", "\u0308\u0301"},
      {"\U0001D15E", "\U0001D157\U0001D165"},
      {"\uAC00\u11A8x\u0302", "\uAC01x\u0302"},
      {"o\u0302\u0301o", "\u1ED1o"},
  };
  for (const auto& [text, want] : cases) {
    std::string got;
    append_nfc(text, &got);
    EXPECT_EQ(got, want) << text;
  }
}

TEST(Tokenizer, PlainTextNeverBecomesAControlToken) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  for (const char* text : {"<|im_start|>user", "<think>", "a<|im_end|>b", "<tool_call>"}) {
    const auto ids = encode(tokenizer, text, Special::kPlain);
    for (const TokenId id : ids) EXPECT_FALSE(tokenizer.is_special(id)) << text;
    EXPECT_EQ(decode(tokenizer, ids, false), text);
  }
}

TEST(Tokenizer, TakesTheLongestControlTokenAtAPlace) {
  test::HfVocabulary vocabulary = test::tiny_vocabulary();
  const auto add = [&](const char* token) {
    vocabulary.tokens.push_back(token);
    vocabulary.types.push_back(static_cast<int32_t>(TokenType::kUserDefined));
    return static_cast<TokenId>(vocabulary.tokens.size() - 1);
  };
  const TokenId shorter = add("<@x>");
  const TokenId longer = add("<@x>y>");
  const auto tokenizer = Tokenizer::create(vocabulary.spec());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(encode(*tokenizer, "<@x>y><@x>"), (std::vector<TokenId>{longer, shorter}));
  EXPECT_EQ(encode(*tokenizer, "<@x><@x>y>"), (std::vector<TokenId>{shorter, longer}));
  EXPECT_EQ(encode(*tokenizer, "<@x>y"), (std::vector<TokenId>{shorter, 88}));
}

TEST(Tokenizer, LeavesControlTokensOutOfDecodedTextAndKeepsUserDefinedOnes) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  const auto ids = encode(tokenizer, "<think>x</think><|im_end|>");
  EXPECT_EQ(decode(tokenizer, ids, false), "<think>x</think>");
  EXPECT_EQ(decode(tokenizer, ids, true), "<think>x</think><|im_end|>");
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  const TokenId end = tokenizer.find("<|im_end|>").value();
  const TokenId text_end = tokenizer.find("<|endoftext|>").value();
  const TokenId think = tokenizer.find("<think>").value();
  EXPECT_EQ(tokenizer.vocab_size(), 4096);
  EXPECT_EQ(tokenizer.eos(), end);
  EXPECT_EQ(tokenizer.bos(), text_end);
  EXPECT_EQ(tokenizer.pad(), text_end);
  EXPECT_EQ(tokenizer.end_of_generation(), (std::vector<TokenId>{text_end, end}));
  EXPECT_TRUE(tokenizer.is_end_of_generation(end));
  EXPECT_TRUE(tokenizer.is_end_of_generation(text_end));
  EXPECT_FALSE(tokenizer.is_end_of_generation(think));
  EXPECT_TRUE(tokenizer.is_special(think));
  EXPECT_FALSE(tokenizer.is_control(think));
  EXPECT_TRUE(tokenizer.is_control(end));
  EXPECT_FALSE(tokenizer.is_special(64));
}

TEST(Tokenizer, FindsEveryTokenByItsBytes) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    ASSERT_EQ(tokenizer.find(tokenizer.token_bytes(id)), id);
  }
  EXPECT_EQ(tokenizer.find(" the"), 263);
  EXPECT_EQ(tokenizer.find("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.find(""), std::nullopt);
}

TEST(Tokenizer, AnswersForIdsOutsideTheVocabulary) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  for (const TokenId id : {-1, 4096, 1 << 30}) {
    EXPECT_EQ(tokenizer.token_bytes(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_FALSE(tokenizer.is_end_of_generation(id));
    const auto text = tokenizer.decode(std::vector<TokenId>{64, id}, true);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().code(), StatusCode::kOutOfRange);
    EXPECT_NE(text.status().message().find(std::to_string(id)), std::string::npos);
  }
}

TEST(Tokenizer, TakesHostileTextInTimeLinearInItsLength) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  // Ten million bytes for one word of many merges, a run of spaces, marks in the wrong order and
  // control-token beginnings; fewer for their variants.
  const std::pair<const char*, size_t> cases[] = {
      {"th", 10'000'000},         {" ", 10'000'000},       {"\u0323\u0301", 10'000'000},
      {"<|im_start", 10'000'000}, {"a", 10'000'000},       {"\n", 1'000'000},
      {" \n", 1'000'000},         {"\u0301", 1'000'000},   {"!", 1'000'000},
      {"'", 1'000'000},           {"<", 1'000'000},        {"1", 1'000'000},
      {"\xFF", 1'000'000},        {"\u00a0", 1'000'000},   {"a\u0301", 1'000'000},
      {"\t ", 1'000'000},         {"\xE2\x82", 1'000'000}, {"\u0301\u0323\u0308", 1'000'000}};
  for (const auto& [unit, bytes] : cases) {
    std::string text;
    while (text.size() < bytes) text += unit;
    text += "x";
    const double start = test::cpu_seconds();
    const auto ids = tokenizer.encode(text, Special::kParse);
    const double took = test::cpu_seconds() - start;
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_LT(took, 40.0) << testing::PrintToString(unit);
    EXPECT_GT(ids->size(), bytes / 64);
  }
}

TEST(Tokenizer, RefusesATextThatIsTooLong) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  const std::string block(size_t{1} << 20, ' ');
  const std::vector<Span> spans(Tokenizer::max_text_bytes() / block.size() + 1, Span{block, true});
  const auto ids = tokenizer.encode_spans(spans);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kOutOfRange);
}

TEST(Tokenizer, ServesManyThreadsAtOnce) {
  const Tokenizer tokenizer = make_tiny_tokenizer();
  std::mt19937 random(5);
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> want;
  for (int i = 0; i < 300; ++i) {
    texts.push_back(test::random_text(random, false));
    want.push_back(encode(tokenizer, texts.back()));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 2 * texts.size(); ++i) {
        const size_t at = (i * 7 + t) % texts.size();
        const auto ids = tokenizer.encode(texts[at], Special::kParse);
        wrong[t] += !ids.ok() || *ids != want[at];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

}  // namespace
}  // namespace strata::text
