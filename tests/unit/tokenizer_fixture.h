// The tokenizer of the tiny model, built from its tokenizer.json.
#pragma once

#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "../support/hf_tokenizer.h"

namespace strata::test {

inline std::string tiny_model_path(const std::string& name) {
  return std::string(STRATA_SOURCE_DIR) + "/models/tiny/" + name;
}

inline const HfVocabulary& tiny_vocabulary() {
  static const HfVocabulary vocabulary =
      read_hf_vocabulary(tiny_model_path("tokenizer/tokenizer.json"));
  return vocabulary;
}

inline text::Tokenizer make_tiny_tokenizer(bool normalize_nfc = true) {
  text::TokenizerSpec spec = tiny_vocabulary().spec();
  spec.normalize_nfc = normalize_nfc;
  auto tokenizer = text::Tokenizer::create(spec);
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().message());
  return std::move(tokenizer).value();
}

// Processor time of this process, which a busy machine does not stretch as it does the clock's.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Bytes with much of what a tokenizer treats specially: words, spaces, scripts, marks, pieces of
// control tokens, and bytes that are no UTF-8.
inline std::string random_text(std::mt19937& random, bool valid) {
  static constexpr const char* kParts[] = {"hello",
                                           " world",
                                           "'s",
                                           "'LL",
                                           " ",
                                           "  ",
                                           "\n",
                                           "\r\n",
                                           "\t",
                                           "7",
                                           "42",
                                           "\u0663",
                                           "\u00e9",
                                           "e\u0301",
                                           "\u0323\u0301",
                                           "\u4f60\u597d",
                                           "\u0928\u092e\u0938\u094d\u0924\u0947",
                                           "\U0001F431",
                                           "\u200d",
                                           "\u00a0",
                                           "\u3000",
                                           "\u0085",
                                           "\u180e",
                                           "<|im_start|>",
                                           "<|im_end|>",
                                           "<think>",
                                           "</think>",
                                           "<|",
                                           "|>",
                                           "<",
                                           "im_",
                                           "start|>",
                                           "!?",
                                           "...",
                                           "{\"a\":",
                                           "\\n"};
  std::string out;
  for (size_t n = random() % 12; n > 0; --n) {
    if (!valid && random() % 4 == 0) {
      out += static_cast<char>(random());
    } else {
      out += kParts[random() % std::size(kParts)];
    }
  }
  return out;
}

}  // namespace strata::test
