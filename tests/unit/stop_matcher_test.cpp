#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace strata::engine {
namespace {

using Strings = std::vector<std::string>;

StopMatcher matcher_for(const Strings& stops) {
  Result<StopMatcher> matcher = StopMatcher::create(stops);
  EXPECT_TRUE(matcher.ok()) << matcher.status().message();
  return matcher.ok() ? *matcher : StopMatcher();
}

struct Found {
  std::optional<size_t> index;
  size_t start = 0;
  size_t end = 0;  // the whole text when nothing matches
};

// The definition of the header on the whole text.
Found naive_search(const Strings& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    Found found;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t n = stops[i].size();
      if (n > end || text.compare(end - n, n, stops[i]) != 0) continue;
      if (!found.index || end - n < found.start) found = {i, end - n, end};
    }
    if (found.index) return found;
  }
  return {std::nullopt, text.size(), text.size()};
}

// Longest suffix that is a proper prefix of a stop string.
size_t naive_held(const Strings& stops, const std::string& text) {
  for (size_t n = text.size(); n > 0; --n) {
    for (const std::string& stop : stops) {
      if (n < stop.size() && text.compare(text.size() - n, n, stop, 0, n) == 0) return n;
    }
  }
  return 0;
}

// Pushes the pieces one token each and checks every promise after every push.
void check_pieces(const Strings& stops, const Strings& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  const Found want = naive_search(stops, text);
  StopMatcher matcher = matcher_for(stops);
  std::string released, seen;
  std::vector<size_t> ends;
  for (const std::string& piece : pieces) {
    const bool over = matcher.matched().has_value();
    const std::string out = matcher.push(piece);
    if (over) {
      ASSERT_EQ(out, "");
      continue;
    }
    released += out;
    seen += piece;
    ends.push_back(seen.size());
    const bool now = want.index && seen.size() >= want.end;
    ASSERT_EQ(matcher.matched().has_value(), now) << seen;
    const size_t certain = now ? want.start : seen.size() - naive_held(stops, seen);
    ASSERT_EQ(released, text.substr(0, certain)) << seen;
    const auto final_tokens = std::upper_bound(ends.begin(), ends.end(), certain) - ends.begin();
    ASSERT_EQ(matcher.released_tokens(), final_tokens) << seen;
    ASSERT_EQ(matcher.pushed_tokens(), static_cast<int64_t>(ends.size()));
  }
  ASSERT_EQ(matcher.matched(), want.index) << text;
  released += matcher.flush();
  ASSERT_EQ(released, text.substr(0, want.start)) << text;
  ASSERT_EQ(matcher.flush(), "");
  if (!want.index) {
    ASSERT_EQ(matcher.released_tokens(), static_cast<int64_t>(pieces.size()));
  }
}

TEST(StopMatcher, EveryCutOfAShortTextGivesTheNaiveResult) {
  std::mt19937 random(17);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const auto string = [&](int length, int letters) {
    std::string s;
    for (int i = 0; i < length; ++i) s += static_cast<char>('a' + below(letters));
    return s;
  };
  int matches = 0;
  for (int round = 0; round < 400; ++round) {
    const int letters = 1 + below(3);
    Strings stops;
    for (int i = 1 + below(4); i > 0; --i) stops.push_back(string(1 + below(6), letters));
    const std::string text = string(below(11), letters);
    matches += naive_search(stops, text).index ? 1 : 0;
    const uint32_t cuts = text.empty() ? 1 : 1u << (text.size() - 1);
    for (uint32_t cut = 0; cut < cuts; ++cut) {
      Strings pieces(1);
      for (size_t i = 0; i < text.size(); ++i) {
        pieces.back() += text[i];
        if (i + 1 < text.size() && (cut >> i & 1) != 0) pieces.emplace_back();
      }
      ASSERT_NO_FATAL_FAILURE(check_pieces(stops, pieces));
    }
  }
  EXPECT_GT(matches, 100);
  EXPECT_LT(matches, 390);
}

TEST(StopMatcher, RandomCutsOfLongTextsWithEmptyPiecesGiveTheNaiveResult) {
  std::mt19937 random(18);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 1500; ++round) {
    const int letters = 2 + below(2);
    const auto string = [&](int length) {
      std::string s;
      for (int i = 0; i < length; ++i) s += static_cast<char>('a' + below(letters));
      return s;
    };
    Strings stops;
    for (int i = below(8); i > 0; --i) stops.push_back(string(4 + below(12)));
    Strings pieces;
    for (int i = below(40); i > 0; --i) pieces.push_back(string(below(6)));
    ASSERT_NO_FATAL_FAILURE(check_pieces(stops, pieces));
  }
}

TEST(StopMatcher, FindsAStopStringOverSeveralTokens) {
  const auto text_of = [](const std::string& stop, const Strings& pieces) {
    StopMatcher matcher = matcher_for({stop});
    std::string text;
    for (const std::string& piece : pieces) text += matcher.push(piece);
    return text + matcher.flush();
  };
  EXPECT_EQ(text_of("beta gamma", {"al", "pha be", "ta gam", "ma del", "ta"}), "alpha ");
  EXPECT_EQ(text_of("O P Q", {"N", " O", " P", " Q", " R"}), "N ");
  EXPECT_EQ(text_of("\nUser:", {"ok", "\nUse", "d car"}), "ok\nUsed car");
  EXPECT_EQ(text_of("\nUser:", {"ok", "\nUse", "r", ": x"}), "ok");
}

TEST(StopMatcher, FindsAStopStringAfterAFalseStartInsideItself) {
  StopMatcher matcher = matcher_for({"aab"});
  EXPECT_EQ(matcher.push("a"), "");
  EXPECT_EQ(matcher.push("a"), "");
  EXPECT_EQ(matcher.push("a"), "a");
  EXPECT_EQ(matcher.held(), "aa");
  EXPECT_EQ(matcher.push("bc"), "");
  EXPECT_EQ(matcher.matched(), 0u);
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, TakesTheMatchThatCompletesFirstAndThenTheLongest) {
  StopMatcher first = matcher_for({"abcd", "bc"});
  EXPECT_EQ(first.push("xabcd"), "xa");
  EXPECT_EQ(first.matched(), 1u);
  StopMatcher longest = matcher_for({"c", "bc", "abc"});
  EXPECT_EQ(longest.push("xabc"), "x");
  EXPECT_EQ(longest.matched(), 2u);
  StopMatcher equal = matcher_for({"zz", "b", "b"});
  EXPECT_EQ(equal.push("ab"), "a");
  EXPECT_EQ(equal.matched(), 1u);
}

TEST(StopMatcher, KeepsUtf8CharactersWholeWhenPiecesAre) {
  const std::string stop = "\xE7\xB5\x82\xE3\x82\x8F\xE3\x82\x8A";  // three characters of 3 bytes
  StopMatcher matcher = matcher_for({stop});
  EXPECT_EQ(matcher.push("\xE7\xB4\x85"), "\xE7\xB4\x85") << "shares one byte with the stop string";
  EXPECT_EQ(matcher.push("\xE7\xB5\x82"), "");
  EXPECT_EQ(matcher.push("\xE3\x82\x8F"), "");
  EXPECT_EQ(matcher.push("\xE7\xB5\x82"), "\xE7\xB5\x82\xE3\x82\x8F");
  EXPECT_EQ(matcher.push("\xE3\x82\x8F\xE3\x82\x8A!"), "");
  EXPECT_EQ(matcher.matched(), 0u);
}

TEST(StopMatcher, FindsUtf8StopStringsAcrossCutsInsideCharacters) {
  const Strings stops{"\xE7\xB5\x82", "\xF0\x9F\x9B\x91"};
  const std::string text = "a\xE7\xB5\x81\xF0\x9F\x9B\x90 \xF0\x9F\x9B\x91z";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      ASSERT_NO_FATAL_FAILURE(
          check_pieces(stops, {text.substr(0, i), text.substr(i, j - i), text.substr(j)}));
    }
  }
}

TEST(StopMatcher, ReleasesTokensWhenAllTheirTextIsReleased) {
  StopMatcher matcher = matcher_for({"END"});
  EXPECT_EQ(matcher.push("one E"), "one ");
  EXPECT_EQ(matcher.released_tokens(), 0) << "its last letter is held";
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.released_tokens(), 0) << "an empty token keeps its place behind held text";
  EXPECT_EQ(matcher.push("x", 2), "Ex");
  EXPECT_EQ(matcher.released_tokens(), 4) << "a piece may end two tokens";
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.released_tokens(), 5);
  EXPECT_EQ(matcher.push("yEN"), "y");
  EXPECT_EQ(matcher.push("D and more"), "");
  EXPECT_EQ(matcher.push("ignored"), "");
  EXPECT_EQ(matcher.released_tokens(), 5);
  EXPECT_EQ(matcher.pushed_tokens(), 7);
}

TEST(StopMatcher, WithoutStopStringsLetsEverythingThrough) {
  StopMatcher matcher;
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.push("", 1), "");
  EXPECT_EQ(matcher.released_tokens(), 2);
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_FALSE(matcher.matched().has_value());
}

TEST(StopMatcher, RefusesAnEmptyStopString) {
  const Status status = StopMatcher::create(Strings{"a", ""}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "stop");
}

TEST(StopMatcher, ACopyContinuesFromTheSameState) {
  StopMatcher matcher = matcher_for({"stop"});
  matcher.push("a sto");
  StopMatcher copy = matcher;
  EXPECT_EQ(matcher.push("ve"), "stove");
  EXPECT_EQ(copy.push("p"), "");
  EXPECT_EQ(copy.matched(), 0u);
  EXPECT_FALSE(matcher.matched().has_value());
}

TEST(StopMatcher, HandlesManyLongStopStringsThatAlmostMatch) {
  Strings stops;
  for (int i = 0; i < 100; ++i) stops.push_back(std::string(10000, 'a') + std::to_string(i + 100));
  StopMatcher matcher = matcher_for(stops);
  std::string released;
  for (int i = 0; i < 30000; ++i) released += matcher.push("a");
  EXPECT_EQ(released.size(), 20000u);
  released += matcher.push("1");
  released += matcher.push("9");
  EXPECT_EQ(matcher.held().size(), 10002u);
  released += matcher.push("7");
  EXPECT_EQ(matcher.matched(), 97u);
  EXPECT_EQ(released.size(), 20000u);
}

TEST(StopMatcher, LooksBehindTheMarkerAndItsLineEndsOnly) {
  const std::vector<std::string> stops{"\n", "think>"};
  const std::string text = "a\nb</think>\n\nyes\nno";
  for (size_t every = 1; every <= text.size(); ++every) {
    auto matcher = StopMatcher::create(stops);
    ASSERT_TRUE(matcher.ok());
    matcher->start_after("</think>");
    std::string out;
    for (size_t at = 0; at < text.size(); at += every) out += matcher->push(text.substr(at, every));
    out += matcher->flush();
    EXPECT_EQ(out, "a\nb</think>\n\nyes") << every;
    EXPECT_EQ(matcher->matched(), std::optional<size_t>(0)) << every;
  }
}

}  // namespace
}  // namespace strata::engine
