// Tokenizes strings for the differential tests. Reads records from standard input: a byte for the
// policy ('s' control tokens are parsed, 'p' all is plain text), the length as four bytes, lowest
// first, then the text. Writes one line per record: the ids, separated by spaces.
//
//   tokenizer_batch TOKENIZER_JSON [--no-nfc]
#include <cstdio>
#include <iostream>
#include <string>

#include "../support/hf_tokenizer.h"

int main(int argc, char** argv) {
  using strata::text::Special;
  if (argc < 2) {
    std::fprintf(stderr, "usage: tokenizer_batch TOKENIZER_JSON [--no-nfc]\n");
    return 2;
  }
  const strata::test::HfVocabulary vocabulary = strata::test::read_hf_vocabulary(argv[1]);
  strata::text::TokenizerSpec spec = vocabulary.spec();
  spec.normalize_nfc = !(argc > 2 && std::string(argv[2]) == "--no-nfc");
  const auto tokenizer = strata::text::Tokenizer::create(spec);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "tokenizer_batch: %s\n", tokenizer.status().message().c_str());
    return 1;
  }
  std::ios::sync_with_stdio(false);
  unsigned char head[5];
  std::string text;
  std::string line;
  while (std::cin.read(reinterpret_cast<char*>(head), sizeof(head))) {
    text.resize(head[1] | head[2] << 8 | head[3] << 16 | size_t{head[4]} << 24);
    if (!std::cin.read(text.data(), static_cast<std::streamsize>(text.size()))) {
      std::fprintf(stderr, "tokenizer_batch: the last record is cut short\n");
      return 1;
    }
    const auto ids = tokenizer->encode(text, head[0] == 's' ? Special::kParse : Special::kPlain);
    if (!ids.ok()) {
      std::fprintf(stderr, "tokenizer_batch: %s\n", ids.status().message().c_str());
      return 1;
    }
    line.clear();
    for (const strata::TokenId id : *ids) line += std::to_string(id) + ' ';
    if (!line.empty()) line.pop_back();
    std::cout << line << '\n';
  }
  return 0;
}
