#include <algorithm>

#include <gtest/gtest.h>

#include "text/tokenizer.h"
#include "tokenizer_fixture.h"

namespace strata::text {
namespace {

// The message of the failure that creating a tokenizer from the changed tiny vocabulary gives.
template <class Change>
std::string refusal(Change change, StatusCode code = StatusCode::kInvalidArgument) {
  test::HfVocabulary vocabulary = test::tiny_vocabulary();
  change(vocabulary);
  const auto tokenizer = Tokenizer::create(vocabulary.spec());
  if (tokenizer.ok()) return "accepted";
  EXPECT_EQ(tokenizer.status().code(), code);
  return tokenizer.status().message();
}

#define EXPECT_MENTIONS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << (message)

TEST(TokenizerCreate, NamesAnUnknownPreTokenizer) {
  TokenizerSpec spec = test::tiny_vocabulary().spec();
  spec.pre = "llama-bpe";
  const auto tokenizer = Tokenizer::create(spec);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnimplemented);
  EXPECT_MENTIONS(tokenizer.status().message(), "llama-bpe");
}

TEST(TokenizerCreate, RefusesAnEmptyVocabulary) {
  EXPECT_MENTIONS(refusal([](auto& v) {
                    v.tokens.clear();
                    v.types.clear();
                  }),
                  "no tokens");
}

TEST(TokenizerCreate, RefusesAVocabularyWithoutMerges) {
  EXPECT_MENTIONS(refusal([](auto& v) { v.merges.clear(); }), "no merges");
}

TEST(TokenizerCreate, RefusesTypesThatDoNotMatchTheTokens) {
  EXPECT_MENTIONS(refusal([](auto& v) { v.types.pop_back(); }), "4095 token types");
  EXPECT_MENTIONS(refusal([](auto& v) { v.types[7] = 0; }), "token 7");
  EXPECT_MENTIONS(refusal([](auto& v) { v.types[7] = 99; }), "type 99");
}

TEST(TokenizerCreate, RefusesDuplicateAndEmptyTokens) {
  EXPECT_MENTIONS(refusal([](auto& v) { v.tokens[300] = v.tokens[299]; }), "tokens 299 and 300");
  EXPECT_MENTIONS(refusal([](auto& v) { v.tokens[4095].clear(); }), "token 4095 is empty");
}

TEST(TokenizerCreate, RefusesTokensOfAbsurdLength) {
  EXPECT_MENTIONS(refusal([](auto& v) { v.tokens[4090] = std::string(1025, 'x'); }),
                  "special token 4090");
  EXPECT_MENTIONS(refusal([](auto& v) { v.tokens[2000] = std::string(70000, 'x'); }),
                  "token 2000 has 70000 bytes");
}

TEST(TokenizerCreate, RefusesANormalTokenOutsideTheByteAlphabet) {
  const auto add = [](test::HfVocabulary& v, const char* token) {
    v.tokens.push_back(token);
    v.types.push_back(1);
  };
  EXPECT_MENTIONS(refusal([&](auto& v) { add(v, "a b"); }), "U+0020");
  EXPECT_MENTIONS(refusal([&](auto& v) { add(v, "\u4f60"); }), "U+4F60");
  EXPECT_MENTIONS(refusal([&](auto& v) { add(v, "x\xFF"); }), "not valid UTF-8");
}

TEST(TokenizerCreate, RefusesAVocabularyWithoutATokenForSomeByte) {
  EXPECT_MENTIONS(refusal([](auto& v) { v.types[198] = 3; }), "0x0A");
  EXPECT_MENTIONS(refusal([](auto& v) { v.tokens[198] = "ZZZZZZZZ"; }), "0x0A");
}

TEST(TokenizerCreate, RefusesBadMerges) {
  for (const char* line : {"", " ", "ab", "a b c", "a  b", " ab", "ab "}) {
    const std::string message = refusal([&](auto& v) { v.merges[5] = line; });
    EXPECT_MENTIONS(message, "merge 5");
    EXPECT_MENTIONS(message, "one space");
  }
  EXPECT_MENTIONS(refusal([](auto& v) { v.merges[5] = "QQQ x"; }), "\"QQQ\", which is no token");
  EXPECT_MENTIONS(refusal([](auto& v) { v.merges[5] = "x QQQ"; }), "\"QQQ\", which is no token");
  EXPECT_MENTIONS(refusal([](auto& v) { v.merges[5] = v.merges[4]; }), "repeats");
}

TEST(TokenizerCreate, IgnoresAMergeThatBuildsNoToken) {
  test::HfVocabulary vocabulary = test::tiny_vocabulary();
  const auto plain = text::Tokenizer::create(vocabulary.spec());
  vocabulary.merges.insert(vocabulary.merges.begin(), "x Q");
  const auto with_dead_merge = text::Tokenizer::create(vocabulary.spec());
  ASSERT_TRUE(plain.ok());
  ASSERT_TRUE(with_dead_merge.ok()) << with_dead_merge.status().message();
  const auto expected = plain->encode("axQy, boxQueue", text::Special::kPlain);
  const auto ids = with_dead_merge->encode("axQy, boxQueue", text::Special::kPlain);
  ASSERT_TRUE(expected.ok() && ids.ok());
  EXPECT_EQ(*ids, *expected);
}

TEST(TokenizerCreate, RefusesAMergeThatBuildsAControlToken) {
  EXPECT_MENTIONS(refusal([](auto& v) {
                    v.tokens.push_back("qzq");
                    v.types.push_back(3);
                    v.tokens.push_back("qz");
                    v.types.push_back(1);
                    v.merges.push_back("qz q");
                  }),
                  "must not come from text");
}

TEST(TokenizerCreate, RefusesIdsOutsideTheVocabulary) {
  EXPECT_MENTIONS(refusal([](auto& v) { v.eos = 4096; }), "eos_token_id is 4096");
  EXPECT_MENTIONS(refusal([](auto& v) { v.bos = -1; }), "bos_token_id is -1");
  EXPECT_MENTIONS(refusal([](auto& v) { v.pad = 1 << 30; }), "padding_token_id");
  TokenizerSpec spec = test::tiny_vocabulary().spec();
  spec.extra_end_of_generation = {4, 5000};
  EXPECT_FALSE(Tokenizer::create(spec).ok());
}

TEST(TokenizerCreate, ShowsHostileTokenTextSafely) {
  const std::string message =
      refusal([](auto& v) { v.merges[0] = std::string(5000, '\x1B') + "\xFF\n"; });
  EXPECT_LT(message.size(), 400u);
  EXPECT_EQ(message.find('\x1B'), std::string::npos);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(TokenizerCreate, UnusedTokensHaveNoBytesAndAreNeverMade) {
  test::HfVocabulary vocabulary = test::tiny_vocabulary();
  vocabulary.tokens.push_back("[PAD4096]");
  vocabulary.types.push_back(static_cast<int32_t>(TokenType::kUnused));
  const auto tokenizer = Tokenizer::create(vocabulary.spec());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->token_bytes(4096), "");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{64, 4096, 65}, true).value(), "ab");
  const auto ids = tokenizer->encode("[PAD4096]", Special::kParse).value();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 4096), 0);
}

TEST(TokenizerCreate, FurtherEndTokensEndAnAnswer) {
  TokenizerSpec spec = test::tiny_vocabulary().spec();
  spec.extra_end_of_generation = {7};
  spec.eos.reset();
  const auto tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->end_of_generation(), (std::vector<TokenId>{7, 4082, 4084}));
  EXPECT_EQ(tokenizer->eos(), std::nullopt);
}

}  // namespace
}  // namespace strata::text
