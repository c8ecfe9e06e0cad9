#include "text/utf8.h"

#include <random>

#include <gtest/gtest.h>

namespace strata::text {
namespace {

constexpr const char* kMark = "\xEF\xBF\xBD";

std::string feed_in_pieces(std::string_view bytes, std::mt19937& random, size_t most) {
  Utf8Stream stream;
  std::string out;
  while (!bytes.empty()) {
    const size_t n = std::min<size_t>(1 + random() % most, bytes.size());
    out += stream.feed(bytes.substr(0, n));
    EXPECT_LE(stream.pending(), 3u);
    bytes.remove_prefix(n);
  }
  return out + stream.flush();
}

TEST(Utf8, AcceptsExactlyTheWellFormedSequences) {
  for (const char* good :
       {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_valid_utf8(good)) << testing::PrintToString(good);
  }
  for (const char* bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFF", "ab\xFE"}) {
    EXPECT_FALSE(is_valid_utf8(bad)) << testing::PrintToString(bad);
  }
  EXPECT_TRUE(is_valid_utf8(std::string_view("a\0b", 3)));
}

TEST(Utf8, WritesEveryScalarValueAsItReadsIt) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(c, &text);
    const Utf8Step step = utf8_step(text);
    ASSERT_EQ(step.kind, Utf8Kind::kCharacter) << static_cast<uint32_t>(c);
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(step.code_point, c);
  }
}

TEST(Utf8, FindsTheLongestValidPrefix) {
  EXPECT_EQ(valid_utf8_prefix("plain ascii, long enough for whole words"), 40u);
  EXPECT_EQ(valid_utf8_prefix("abc\xFFzzz"), 3u);
  EXPECT_EQ(valid_utf8_prefix("0123456789\xE2\x82"), 10u);
  EXPECT_EQ(valid_utf8_prefix("\xE2\x82\xAC\xE2\x82"), 3u);
}

// The examples of the Unicode Standard, chapter 3, tables 3-8 to 3-11.
TEST(Utf8, ReplacesMaximalSubpartsAsTheUnicodeStandardShows) {
  const auto marks = [](int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += kMark;
    return out;
  };
  EXPECT_EQ(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), marks(8) + "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), marks(8) + "A");
  EXPECT_EQ(to_valid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), marks(5) + "A" + marks(2) + "B");
  EXPECT_EQ(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), marks(4) + "A");
  EXPECT_EQ(to_valid_utf8("x\xF0\x9F\x90"), std::string("x") + kMark);
}

TEST(Utf8, CountsCharactersAndIllFormedSubparts) {
  EXPECT_EQ(count_code_points(""), 0u);
  EXPECT_EQ(count_code_points("a\xE2\x82\xAC\xF0\x9F\x90\xB1z"), 4u);
  EXPECT_EQ(count_code_points("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), 5u);
}

TEST(Utf8Stream, HoldsBackAnUnfinishedCharacterUntilItIsWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("hi \xF0\x9F"), "hi ");
  EXPECT_EQ(stream.pending(), 2u);
  EXPECT_EQ(stream.feed("\x90"), "");
  EXPECT_EQ(stream.pending(), 3u);
  EXPECT_EQ(stream.feed("\xB1!"), "\xF0\x9F\x90\xB1!");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, EachHalfOfACharacterWaitsForTheOther) {
  const std::string family = "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";
  for (const std::string& text : {std::string("\xF0\x9F\x98\x80"), std::string("\xC3\xA9"),
                                  std::string("\xE6\xBC\xA2"), family}) {
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      Utf8Stream stream;
      const std::string first = stream.feed(text.substr(0, cut));
      const std::string second = stream.feed(text.substr(cut));
      EXPECT_TRUE(is_valid_utf8(first) && is_valid_utf8(second)) << cut;
      EXPECT_EQ(first + second + stream.flush(), text) << cut;
    }
  }
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xF0\x9F\x98"), "");
  EXPECT_EQ(stream.flush(), kMark) << "an answer that ends inside a character";
  EXPECT_EQ(stream.feed("\xFF\xFE'\xC3"), std::string(kMark) + kMark + "'");
  EXPECT_EQ(stream.flush(), kMark);
}

TEST(Utf8Stream, ReplacesAnUnfinishedCharacterThatSomethingElseFollows) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xE2\x82"), "");
  EXPECT_EQ(stream.feed("A"), std::string(kMark) + "A");
  EXPECT_EQ(stream.feed("\xE2\x82"), "");
  EXPECT_EQ(stream.feed("\xE2"), kMark);
  EXPECT_EQ(stream.flush(), kMark);
  EXPECT_EQ(stream.feed("again"), "again");
}

TEST(Utf8Stream, GivesTheSameTextWhereverTheStreamIsCut) {
  std::mt19937 random(11);
  const std::string alphabet = "a \xC3\xA9\xE2\x82\xAC\xF0\x9F\x90\xB1\xED\xA0\xFF\x80\xC0\xF4\x90";
  for (int i = 0; i < 20000; ++i) {
    std::string bytes;
    for (size_t n = random() % 24; n > 0; --n) {
      bytes += random() % 2 ? alphabet[random() % alphabet.size()] : static_cast<char>(random());
    }
    const std::string whole = to_valid_utf8(bytes);
    ASSERT_TRUE(is_valid_utf8(whole));
    ASSERT_EQ(feed_in_pieces(bytes, random, 1 + random() % 5), whole);
    ASSERT_EQ(count_code_points(bytes), count_code_points(whole));
    if (is_valid_utf8(bytes)) {
      ASSERT_EQ(whole, bytes);
    }
  }
}

}  // namespace
}  // namespace strata::text
