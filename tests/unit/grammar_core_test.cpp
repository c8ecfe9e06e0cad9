// The grammar engine itself: what is accepted, masks against their definition, copies and rollback.
#include <gtest/gtest.h>

#include "grammar_fixture.h"

namespace strata::grammar {
namespace {

std::shared_ptr<const Vocabulary> usual() { return vocabulary_of(usual_pieces()); }

constexpr std::string_view kNested = R"(
root  ::= value
value ::= "[" (value ("," value)*)? "]" | "{" pair? "}" | [0-9]+ | "\"" [^"\\]* "\""
pair  ::= "\"" [a-z]{1,3} "\":" value
)";

TEST(Gbnf, ReadsRulesGroupsClassesAndCounts) {
  const auto cache = gbnf(kNested, usual());
  EXPECT_TRUE(accepts(cache, "[]"));
  EXPECT_TRUE(accepts(cache, "[1,[22,{\"ab\":[]}],\"x\xc3\xa9\"]"));
  EXPECT_FALSE(accepts(cache, "[1,]"));
  EXPECT_FALSE(accepts(cache, "{\"abcd\":1}"));
  EXPECT_FALSE(accepts(cache, "[1"));
  EXPECT_FALSE(accepts(cache, "\"\xc3\""));
}

TEST(Gbnf, ReadsEscapesCommentsAndContinuedLines) {
  const auto cache = gbnf(
      "# comment\nroot ::= \"a\\x41\\u00e9\" | # more\n  b\n  | \"c\" [\\]\\-x-z]\nb ::= ( \"d\"\n "
      ")?",
      usual());
  EXPECT_TRUE(accepts(cache, "aA\xc3\xa9"));
  EXPECT_TRUE(accepts(cache, ""));
  EXPECT_TRUE(accepts(cache, "d"));
  EXPECT_TRUE(accepts(cache, "c]"));
  EXPECT_TRUE(accepts(cache, "c-"));
  EXPECT_TRUE(accepts(cache, "cy"));
  EXPECT_FALSE(accepts(cache, "ca"));
}

Status gbnf_error(std::string_view text) {
  GrammarBuilder builder;
  auto root = compile_gbnf(builder, text);
  if (!root.ok()) return root.status();
  return builder.build(*root).status();
}

TEST(Gbnf, SaysWhatIsWrong) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "no rule named root"},
      {"root ::= x", "line 1: the rule x is used but not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule root is defined twice"},
      {"root ::= root \"a\" | \"b\"", "left recursion"},
      {"root ::= a\na ::= b? root \"x\" | \"c\"\nb ::= \"q\"", "left recursion"},
      {"root ::= \"a", "closing quote"},
      {"root ::= [a", "a [ without a ]"},
      {"root ::= (\"a\"", "a ( without a )"},
      {"root ::= \"a\" )", "expected the end of the rule"},
      {"root ::= \"a\"{3,2}", "is empty"},
      {"root ::= <think>", "angle brackets"},
      {"root ::= \"\\q\"", "escape"},
      {"root ::= \"x\" root", "nothing finite"},
      {"root = \"x\"", "expected ::="},
  };
  for (const auto& [text, part] : cases) {
    const Status status = gbnf_error(text);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(part), std::string::npos) << text << ": " << status.message();
  }
}

TEST(Regex, MatchesTheWholeText) {
  const std::tuple<std::string_view, std::vector<std::string>, std::vector<std::string>> cases[] = {
      {"a|bc", {"a", "bc"}, {"", "b", "abc"}},
      {"^(ab?)+$", {"a", "ab", "aab"}, {"", "b", "abb"}},
      {"[^a-c]{2,3}", {"xy", "xyz", "\xc3\xa9\xc3\xa9"}, {"x", "ab", "wxyz"}},
      {"\\d{4}-\\d\\d", {"2024-01"}, {"2024-1", "x024-01"}},
      {"(?:\\w+\\s)*?end", {"end", "a b end"}, {"a", "aend "}},
      {"(?<n>x)\\.\\x41\\u{1F600}", {"x.A\xf0\x9f\x98\x80"}, {"xxA\xf0\x9f\x98\x80"}},
      {"\\p{Lu}\\p{L}*", {"A", "\xc3\x89t"}, {"a", "A1"}},
      {".*", {"", "abc", "\xe4\xbd\xa0"}, {"\n", "\xe4\xbd"}},
      {"a{0,3}b{2,}", {"bb", "aaabbb"}, {"aaaabb", "ab"}},
      {"[a\\]-]+", {"a]-"}, {"b"}},
      {"x{,2}", {"x{,2}"}, {"x", "xx"}},
      {"(a{0,1000}){3}", {"", "a", std::string(3000, 'a')}, {std::string(3001, 'a')}},
      {"(?:ab){300,400}",
       {std::string(0, 'x') +
        [] {
          std::string s;
          for (int i = 0; i < 350; ++i) s += "ab";
          return s;
        }()},
       {"ab", ""}},
  };
  for (const auto& [pattern, good, bad] : cases) {
    const auto cache = regex(pattern, usual());
    ASSERT_NE(cache, nullptr) << pattern;
    for (const auto& text : good)
      EXPECT_TRUE(accepts(cache, text)) << pattern << " " << text.substr(0, 40);
    for (const auto& text : bad)
      EXPECT_FALSE(accepts(cache, text)) << pattern << " " << text.substr(0, 40);
  }
}

TEST(Regex, SearchesUnlessAnchored) {
  const std::tuple<std::string_view, std::vector<std::string>, std::vector<std::string>> cases[] = {
      {"ab", {"ab", "xabx", "aab"}, {"a", "ba"}},
      {"^ab", {"ab", "abx"}, {"xab"}},
      {"ab$", {"ab", "xab"}, {"abx"}},
      {"^a|b$", {"ax", "xb", "a"}, {"xax"}},
      {"^(a|b$)", {"ax", "b"}, {"bx", "xa"}},
      {"(^a|b)c", {"ac", "xbc", "acx"}, {"xac"}},
      {"^$", {""}, {"x"}},
      {"", {"", "x"}, {}},
  };
  for (const auto& [pattern, good, bad] : cases) {
    GrammarBuilder builder;
    auto root = compile_regex(builder, pattern, RegexMatch::kSearch, write_utf8);
    ASSERT_TRUE(root.ok()) << root.status().message();
    const auto cache = compile(builder, *root, usual());
    for (const auto& text : good) EXPECT_TRUE(accepts(cache, text)) << pattern << " " << text;
    for (const auto& text : bad) EXPECT_FALSE(accepts(cache, text)) << pattern << " " << text;
  }
}

TEST(Regex, RefusesWhatIsNotRegularOrNotKnown) {
  for (const std::string_view pattern :
       {"(a",         "a)",          "[a",          "*a",  "a**",     "a++",   "(?=a)b",
        "(?!a)b",     "(?<=a)b",     "(?i)a",       "\\1", "\\bword", "a\\",   "\\q",
        "\\p{Greek}", "a{3,2}",      "a^b",         "a$b", "(^a)*",   "[z-a]", "[\\d-z]",
        "\\u12",      "\\x{110000}", "[[:alpha:]]", "\xff"}) {
    GrammarBuilder builder;
    const auto root = compile_regex(builder, pattern, RegexMatch::kSearch, write_utf8);
    EXPECT_EQ(root.status().code(), StatusCode::kInvalidArgument) << pattern;
  }
}

TEST(Masks, EqualTryingEveryToken) {
  const std::shared_ptr<const Vocabulary> vocabulary = usual();
  const std::vector<std::shared_ptr<MaskCache>> caches = {
      gbnf(kNested, vocabulary),
      gbnf("root ::= word (\" \" word)* \".\"\nword ::= [a-z]+ | \"(\" root \")\"", vocabulary),
      gbnf("root ::= \"x\" root \"y\" | \"\"", vocabulary),
      gbnf("root ::= item{3,400} \"!\"\nitem ::= \"ab\" | \"a\" | [0-9]{2,90} \",\"", vocabulary),
      gbnf("root ::= (a | b){2,300}\na ::= \"a\" [xy]{0,200}\nb ::= \"b\" root \"c\"", vocabulary),
      gbnf("root ::= (a? b?){2,90} \"!\"\na ::= \"a\" [xy]{0,200}\nb ::= \"b\" \"c\"{0,100}",
           vocabulary),
      regex("(.*a.{12}\\n)*", vocabulary),
      regex("(\\w{0,70} )*end", vocabulary),
      regex("\"[^\"]{5,100}\"", vocabulary),
  };
  std::mt19937 random(7);
  for (size_t g = 0; g < caches.size(); ++g) {
    for (int round = 0; round < 6; ++round) {
      Matcher matcher(caches[g]);
      std::vector<uint64_t> mask(matcher.words());
      for (int i = 0; i < 40 && !matcher.ended(); ++i) {
        ASSERT_TRUE(matcher.fill_mask(mask).ok());
        ASSERT_EQ(mask, mask_by_trial(matcher)) << "grammar " << g << " token " << i;
        const auto allowed = members(mask, vocabulary->size());
        const TokenId token = allowed[random() % allowed.size()];
        ASSERT_TRUE(matcher.advance(token).ok());
      }
    }
  }
}

TEST(Masks, DroppingWhatIsKeptChangesNothing) {
  GrammarBuilder builder;
  const auto root = compile_gbnf(builder, kNested);
  auto grammar = std::make_shared<const Grammar>(std::move(*builder.build(*root)));
  const auto vocabulary = usual();
  const auto small = std::make_shared<MaskCache>(grammar, vocabulary, 2000);
  const auto large = std::make_shared<MaskCache>(grammar, vocabulary);
  Matcher a(small), b(large);
  std::vector<uint64_t> mask_a(a.words()), mask_b(a.words());
  std::mt19937 random(3);
  for (int i = 0; i < 300 && !a.ended(); ++i) {
    ASSERT_TRUE(a.fill_mask(mask_a).ok());
    ASSERT_TRUE(b.fill_mask(mask_b).ok());
    ASSERT_EQ(mask_a, mask_b);
    const auto allowed = members(mask_a, vocabulary->size());
    const TokenId token = allowed[random() % allowed.size()];
    ASSERT_TRUE(a.advance(token).ok() && b.advance(token).ok());
  }
  EXPECT_GT(small->stats().dropped, 0u);
}

TEST(Masks, EndOfGenerationIsAllowedExactlyWhereTheTextMayEnd) {
  const auto vocabulary = usual();
  const TokenId end = vocabulary->size() - 1;
  Matcher matcher(regex("ab(cd)?", vocabulary));
  std::vector<uint64_t> mask(matcher.words());
  const auto end_allowed = [&] {
    EXPECT_TRUE(matcher.fill_mask(mask).ok());
    EXPECT_EQ(in_mask(mask, end), matcher.may_end());
    return in_mask(mask, end);
  };
  EXPECT_FALSE(end_allowed());
  EXPECT_EQ(matcher.advance(end).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(matcher.advance_text("ab").ok());
  EXPECT_TRUE(end_allowed());
  ASSERT_TRUE(matcher.advance_text("c").ok());
  EXPECT_FALSE(end_allowed());
  ASSERT_TRUE(matcher.advance_text("d").ok());
  EXPECT_TRUE(end_allowed());
  EXPECT_EQ(members(mask, vocabulary->size()), std::vector<TokenId>{end});
  ASSERT_TRUE(matcher.advance(end).ok());
  EXPECT_TRUE(matcher.ended());
  EXPECT_FALSE(matcher.advance_text("a").ok());
}

TEST(Masks, AVocabularyThatCannotGoOnIsAnError) {
  std::vector<std::pair<std::string_view, TokenId>> tokens = {{"a", 0}, {"b", 1}};
  const auto vocabulary = std::make_shared<const Vocabulary>(tokens, std::vector<TokenId>{2}, 3);
  Matcher matcher(regex("ac", vocabulary));
  std::vector<uint64_t> mask(matcher.words());
  ASSERT_TRUE(matcher.fill_mask(mask).ok());
  ASSERT_TRUE(matcher.advance(0).ok());
  EXPECT_EQ(matcher.fill_mask(mask).code(), StatusCode::kFailedPrecondition);
}

TEST(Matcher, CopiesGoOnAloneAndRollbackRestores) {
  const auto vocabulary = usual();
  const auto cache = gbnf(kNested, vocabulary);
  std::mt19937 random(11);
  Matcher matcher(cache);
  std::vector<uint64_t> mask(matcher.words());
  std::vector<std::vector<uint64_t>> masks;  // before each token
  std::vector<TokenId> tokens;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(matcher.fill_mask(mask).ok());
    auto allowed = members(mask, vocabulary->size());
    std::erase(allowed, vocabulary->size() - 1);
    if (allowed.empty()) {
      matcher = Matcher(cache);
      masks.clear();
      tokens.clear();
      continue;
    }
    masks.push_back(mask);
    tokens.push_back(allowed[random() % allowed.size()]);
    ASSERT_TRUE(matcher.advance(tokens.back()).ok());
    if (random() % 10 != 0) continue;
    const size_t back = random() % (std::min<size_t>(tokens.size(), Matcher::kMaxRollback) + 1);
    Matcher copy = matcher;
    ASSERT_TRUE(copy.rollback(back));
    if (back > 0) {
      ASSERT_TRUE(copy.fill_mask(mask).ok());
      EXPECT_EQ(mask, masks[masks.size() - back]);
    }
    for (size_t k = tokens.size() - back; k < tokens.size(); ++k) {
      ASSERT_TRUE(copy.advance(tokens[k]).ok());
    }
    std::vector<uint64_t> again(matcher.words());
    ASSERT_EQ(copy.fill_mask(again).ok(), matcher.fill_mask(mask).ok());
    EXPECT_EQ(again, mask);
    if (random() % 2 == 0) matcher = copy;
  }
  EXPECT_FALSE(Matcher(cache).rollback(1));
  EXPECT_TRUE(Matcher(cache).rollback(0));
}

TEST(Matcher, ARefusedTokenChangesNothing) {
  Matcher matcher(regex("(abc)*", usual()));
  ASSERT_TRUE(matcher.advance_text("ab").ok());
  EXPECT_FALSE(matcher.advance_text("cabx").ok());
  EXPECT_FALSE(matcher.advance_text("").ok());
  EXPECT_FALSE(matcher.may_end());
  EXPECT_TRUE(matcher.advance_text("cabc").ok());
  EXPECT_TRUE(matcher.may_end());
  EXPECT_EQ(matcher.rollback_limit(), 2u);
}

TEST(Matcher, DeepNestingNeedsNoCallStack) {
  const auto cache = gbnf("root ::= \"[\" root? \"]\"", usual());
  Matcher matcher(cache);
  for (int i = 0; i < 200000; ++i) ASSERT_TRUE(matcher.advance_text("[").ok());
  std::vector<uint64_t> mask(matcher.words());
  ASSERT_TRUE(matcher.fill_mask(mask).ok());
  for (int i = 0; i < 200000; ++i) ASSERT_TRUE(matcher.advance_text("]").ok());
  EXPECT_TRUE(matcher.may_end());
}

TEST(Limits, HostileGrammarsAreRefusedOrCheap) {
  // Each is either compiled and usable or refused with a sentence.
  std::vector<std::string> patterns = {"(((a{1000}){1000}){1000}){1000}",
                                       "(a*)*b",
                                       "(a|a)*b",
                                       "(a|aa)+$",
                                       "(.*)(.*)(.*)(.*)x{20}",
                                       "(.*a){30}",
                                       ".*a.{400}",
                                       "(a?){5000}a{5000}",
                                       "((((((((a?)*)*)*)*)*)*)*)*",
                                       std::string(20000, '(') + std::string(20000, ')'),
                                       "[\\x{0}-\\x{10FFFF}]{100000}",
                                       "(\\p{L}|\\p{N}){0,100000}",
                                       "x{268435457}"};
  std::string wide = "a0";
  for (int i = 1; i < 8000; ++i) wide += "|a" + std::to_string(i);
  patterns.push_back(wide);
  const auto vocabulary = usual();
  for (const auto& pattern : patterns) {
    GrammarBuilder builder;
    const auto root = compile_regex(builder, pattern, RegexMatch::kWhole, write_utf8);
    if (!root.ok()) {
      EXPECT_EQ(root.status().code(), StatusCode::kInvalidArgument);
      continue;
    }
    auto grammar = builder.build(*root);
    if (!grammar.ok()) {
      EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
      continue;
    }
    const auto cache = std::make_shared<MaskCache>(
        std::make_shared<const Grammar>(std::move(*grammar)), vocabulary);
    Matcher matcher(cache);
    std::vector<uint64_t> mask(matcher.words());
    for (int i = 0; i < 40; ++i) {
      if (!matcher.fill_mask(mask).ok() || !matcher.advance_text("a").ok()) break;
    }
  }
}

TEST(Limits, ARuleChainDoesNotExhaustTheCallStack) {
  for (const std::string way : {"", " | \"x\""}) {
    const int length = way.empty() ? 15000 : 3500;
    std::string text = "root ::= r0\n";
    for (int i = 0; i < length; ++i) {
      text += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + way + "\n";
    }
    text += "r" + std::to_string(length) + " ::= \"y\"\n";
    EXPECT_TRUE(accepts(gbnf(text, usual()), "y"));
  }
}

TEST(Limits, TooManyReadingsAreAnErrorNotAHang) {
  const auto cache = gbnf("root ::= (\"a\"{0,5000}){0,5000}", usual());
  Matcher matcher(cache);
  std::vector<uint64_t> mask(matcher.words());
  Status status;
  for (int i = 0; i < 500 && status.ok(); ++i) {
    status = matcher.fill_mask(mask);
    if (status.ok()) status = matcher.advance_text("a");
  }
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("too ambiguous"), std::string::npos);
}

}  // namespace
}  // namespace strata::grammar
