// Grammars, vocabularies and random answers for the tests of constrained output.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "text/grammar/builder.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/mask_cache.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex.h"

namespace strata::grammar {

// All 256 bytes, the given texts, and an end-of-generation token as the last id.
inline std::shared_ptr<const Vocabulary> vocabulary_of(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (int b = 0; b < 256; ++b) all.emplace_back(1, static_cast<char>(b));
  all.insert(all.end(), texts.begin(), texts.end());
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (size_t i = 0; i < all.size(); ++i) tokens.emplace_back(all[i], static_cast<TokenId>(i));
  const auto end = static_cast<TokenId>(all.size());
  return std::make_shared<Vocabulary>(tokens, std::vector<TokenId>{end}, end + 1);
}

// Pieces as they are common in JSON, code and prose.
inline const std::vector<std::string>& usual_pieces() {
  static const std::vector<std::string> pieces = {"{\"",
                                                  "\":",
                                                  "\": ",
                                                  "\": \"",
                                                  "\",",
                                                  "\", \"",
                                                  "\"}",
                                                  "\"}}",
                                                  "\"]",
                                                  "\"],",
                                                  "[{\"",
                                                  "}]",
                                                  "}}",
                                                  "]]",
                                                  "],",
                                                  "},",
                                                  "}, {\"",
                                                  "[",
                                                  "[[",
                                                  "[\"",
                                                  ": ",
                                                  ", ",
                                                  "true",
                                                  "false",
                                                  "null",
                                                  "true}",
                                                  "null,",
                                                  "123",
                                                  "12",
                                                  "00",
                                                  "0.",
                                                  ".5",
                                                  "-1",
                                                  "e+",
                                                  "name",
                                                  "age",
                                                  "value",
                                                  "type",
                                                  "id",
                                                  "abc",
                                                  "ab",
                                                  "hello",
                                                  " world",
                                                  "\\n",
                                                  "\\\"",
                                                  "\\u00",
                                                  "\\u",
                                                  "\xc3\xa9",
                                                  "\xe4\xbd\xa0",
                                                  "\xe4\xbd",
                                                  "\xf0\x9f\x98\x80",
                                                  "\xf0\x9f",
                                                  "\n",
                                                  "\n\n",
                                                  "\n  ",
                                                  "\n    ",
                                                  "  ",
                                                  "    ",
                                                  "\t",
                                                  "</",
                                                  "<",
                                                  ">",
                                                  ">\n",
                                                  "</parameter>",
                                                  "\n</parameter>\n",
                                                  "<parameter=",
                                                  "</function>\n",
                                                  "<tool_call>",
                                                  "</tool_call>",
                                                  "<function=",
                                                  "</think>",
                                                  "2024-",
                                                  "-01",
                                                  "T12:",
                                                  "Z",
                                                  "\"name\"",
                                                  "\"type\": \"",
                                                  "foo",
                                                  "x_",
                                                  "_s",
                                                  "=",
                                                  "a",
                                                  "b",
                                                  "c"};
  return pieces;
}

inline std::shared_ptr<MaskCache> compile(GrammarBuilder& builder, ExprId root,
                                          std::shared_ptr<const Vocabulary> vocabulary) {
  auto grammar = builder.build(root);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  if (!grammar.ok()) return nullptr;
  return std::make_shared<MaskCache>(std::make_shared<const Grammar>(std::move(*grammar)),
                                     std::move(vocabulary));
}

inline std::shared_ptr<MaskCache> gbnf(std::string_view text,
                                       std::shared_ptr<const Vocabulary> vocabulary) {
  GrammarBuilder builder;
  auto root = compile_gbnf(builder, text);
  EXPECT_TRUE(root.ok()) << root.status().message();
  return root.ok() ? compile(builder, *root, std::move(vocabulary)) : nullptr;
}

inline std::shared_ptr<MaskCache> regex(std::string_view pattern,
                                        std::shared_ptr<const Vocabulary> vocabulary) {
  GrammarBuilder builder;
  auto root = compile_regex(builder, pattern, RegexMatch::kWhole, write_utf8);
  EXPECT_TRUE(root.ok()) << root.status().message();
  return root.ok() ? compile(builder, *root, std::move(vocabulary)) : nullptr;
}

inline bool accepts(const std::shared_ptr<MaskCache>& cache, std::string_view text) {
  Matcher matcher(cache);
  if (!text.empty() && !matcher.advance_text(text).ok()) return false;
  return matcher.may_end();
}

inline bool in_mask(const std::vector<uint64_t>& mask, TokenId token) {
  return (mask[static_cast<size_t>(token) >> 6] >> (token & 63)) & 1;
}

// The mask by definition: every token tried on a copy.
inline std::vector<uint64_t> mask_by_trial(const Matcher& matcher) {
  std::vector<uint64_t> mask(matcher.words());
  for (TokenId t = 0; t < matcher.cache().vocabulary().size(); ++t) {
    Matcher copy = matcher;
    if (copy.advance(t).ok()) mask[static_cast<size_t>(t) >> 6] |= uint64_t{1} << (t & 63);
  }
  return mask;
}

inline std::vector<TokenId> members(const std::vector<uint64_t>& mask, int size) {
  std::vector<TokenId> out;
  for (TokenId t = 0; t < size; ++t) {
    if (in_mask(mask, t)) out.push_back(t);
  }
  return out;
}

}  // namespace strata::grammar
