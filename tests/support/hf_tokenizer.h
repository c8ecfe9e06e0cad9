// Builds a TokenizerSpec from a tokenizer.json of Hugging Face's format, so that tests of the
// tokenizer do not depend on the GGUF reader.
#pragma once

#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace strata::test {

// Owns the strings that the spec's views point at; hand out the spec only while this lives.
struct HfVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  std::optional<TokenId> bos, eos, pad;

  text::TokenizerSpec spec() const {
    text::TokenizerSpec spec;
    spec.tokens.assign(tokens.begin(), tokens.end());
    spec.types = types;
    spec.merges.assign(merges.begin(), merges.end());
    spec.pre = "qwen35";
    spec.bos = bos;
    spec.eos = eos;
    spec.pad = pad;
    return spec;
  }
};

// Throws on a file that is missing or of another form: a broken test setup must be loud.
inline HfVocabulary read_hf_vocabulary(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  const nlohmann::json json = nlohmann::json::parse(file);
  HfVocabulary out;
  const auto put = [&](size_t id, const std::string& token, text::TokenType type) {
    if (out.tokens.size() <= id) {
      out.tokens.resize(id + 1);
      out.types.resize(id + 1, static_cast<int32_t>(text::TokenType::kUnused));
    }
    out.tokens[id] = token;
    out.types[id] = static_cast<int32_t>(type);
    if (token == "<|endoftext|>") out.bos = out.pad = static_cast<TokenId>(id);
    if (token == "<|im_end|>") out.eos = static_cast<TokenId>(id);
  };
  for (const auto& [token, id] : json.at("model").at("vocab").items()) {
    put(id.get<size_t>(), token, text::TokenType::kNormal);
  }
  for (const auto& added : json.at("added_tokens")) {
    put(added.at("id").get<size_t>(), added.at("content").get<std::string>(),
        added.at("special").get<bool>() ? text::TokenType::kControl
                                        : text::TokenType::kUserDefined);
  }
  for (const auto& merge : json.at("model").at("merges")) {
    out.merges.push_back(merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  }
  return out;
}

}  // namespace strata::test
