// Answers questions about schemas, one JSON object per line: {"schema", "instances": [text...],
// "samples": n} gives {"error"} or {"accepts": [bool...], "samples": [text...], "unfinished": n}.
// Samples are drawn through the token masks from random logits. Run by grammar_schema_check.py.
#include <iostream>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

#include "grammar_fixture.h"
#include "text/grammar/json_schema.h"

namespace strata::grammar {
namespace {

constexpr int kFreeTokens = 120;  // after which the sampler hurries to the end
constexpr int kMostTokens = 6000;

Result<std::shared_ptr<MaskCache>> compile_schema(const Json& schema,
                                                  std::shared_ptr<const Vocabulary> vocabulary) {
  GrammarBuilder builder;
  JsonText text(builder);
  STRATA_ASSIGN_OR_RETURN(const ExprId root, compile_json_schema(builder, text, schema));
  STRATA_ASSIGN_OR_RETURN(Grammar grammar, builder.build(root));
  return std::make_shared<MaskCache>(std::make_shared<const Grammar>(std::move(grammar)),
                                     std::move(vocabulary));
}

// The end if it is allowed, else what closes something, else anything.
TokenId hurried(const std::vector<uint64_t>& mask, const std::vector<TokenId>& allowed, TokenId end,
                std::mt19937& random) {
  if (in_mask(mask, end)) return end;
  const bool closing = random() % 2 != 0;
  for (const char c : {'"', '}', ']', '0', 'n', 't', ','}) {
    if (closing && in_mask(mask, static_cast<unsigned char>(c))) {
      return static_cast<unsigned char>(c);
    }
  }
  return allowed[random() % allowed.size()];
}

// A whole text of the grammar; empty when it became too long.
std::string sample(const std::shared_ptr<MaskCache>& cache, std::mt19937& random) {
  Matcher matcher(cache);
  const Vocabulary& vocabulary = cache->vocabulary();
  const TokenId end = vocabulary.size() - 1;
  std::vector<uint64_t> mask(matcher.words());
  std::string text;
  for (int i = 0; i < kMostTokens; ++i) {
    if (const Status status = matcher.fill_mask(mask); !status.ok()) return "!" + status.message();
    const auto allowed = members(mask, vocabulary.size());
    const TokenId token =
        i < kFreeTokens ? allowed[random() % allowed.size()] : hurried(mask, allowed, end, random);
    if (const Status status = matcher.advance(token); !status.ok()) return "!" + status.message();
    if (matcher.ended()) return text;
    text += vocabulary.bytes(token);
  }
  return {};
}

nlohmann::json answer(const Json& question, const std::shared_ptr<const Vocabulary>& vocabulary) {
  const auto cache = compile_schema(question["schema"], vocabulary);
  if (!cache.ok()) return {{"error", cache.status().message()}};
  nlohmann::json out = {{"accepts", nlohmann::json::array()},
                        {"samples", nlohmann::json::array()},
                        {"unfinished", 0}};
  for (const Json& text : question["instances"]) {
    out["accepts"].push_back(accepts(*cache, text.get<std::string>()));
  }
  std::mt19937 random(question.value("seed", 1u));
  for (int i = 0; i < question["samples"].get<int>(); ++i) {
    std::string text = sample(*cache, random);
    if (text.empty()) {
      out["unfinished"] = out["unfinished"].get<int>() + 1;
    } else {
      out["samples"].push_back(std::move(text));
    }
  }
  return out;
}

}  // namespace
}  // namespace strata::grammar

int main() {
  using namespace strata::grammar;
  const auto vocabulary = vocabulary_of(usual_pieces());
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line), vocabulary).dump() << std::endl;
  }
}
