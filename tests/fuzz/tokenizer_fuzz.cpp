// Any bytes, any cuts into spans, and vocabularies with damage in them: nothing crashes, bytes come
// back, untrusted text makes no control token.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/tokenizer_nfc.h"
#include "text/utf8.h"

namespace {

using strata::TokenId;
using namespace strata::text;

void require(bool holds) {
  if (!holds) __builtin_trap();
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;

  TokenizerSpec spec(bool nfc) const {
    TokenizerSpec spec;
    spec.tokens.assign(tokens.begin(), tokens.end());
    spec.types = types;
    spec.merges.assign(merges.begin(), merges.end());
    spec.pre = "qwen35";
    spec.normalize_nfc = nfc;
    return spec;
  }
};

Vocabulary small_vocabulary() {
  Vocabulary v;
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(alphabet.character(static_cast<uint8_t>(byte)), &text);
    v.tokens.push_back(text);
  }
  for (const auto& [left, right] :
       std::vector<std::pair<std::string, std::string>>{{"t", "h"},
                                                        {"th", "e"},
                                                        {"\u0120", "the"},
                                                        {"a", "a"},
                                                        {"aa", "aa"},
                                                        {"\u00cc", "\u0123"},
                                                        {"\u010a", "\u010a"},
                                                        {"<", "|"},
                                                        {"|", ">"}}) {
    v.merges.push_back(left + " " + right);
    v.tokens.push_back(left + right);
  }
  v.types.assign(v.tokens.size(), 1);
  for (const char* control : {"<|im_start|>", "<|im_end|>", "<|im_end|>>", "<|a"}) {
    v.tokens.emplace_back(control);
    v.types.push_back(3);
  }
  v.tokens.emplace_back("<think>");
  v.types.push_back(4);
  return v;
}

Tokenizer make(bool nfc) {
  const Vocabulary vocabulary = small_vocabulary();
  auto tokenizer = Tokenizer::create(vocabulary.spec(nfc));
  require(tokenizer.ok());
  return std::move(tokenizer).value();
}

void check_text(std::string_view text) {
  static const Tokenizer exact = make(false);
  static const Tokenizer normal = make(true);
  for (const Special special : {Special::kParse, Special::kPlain}) {
    const auto ids = exact.encode(text, special);
    require(ids.ok() && exact.decode(*ids, true).value() == text);
    require(normal.encode(text, special).ok());
  }
  const auto plain = normal.encode(text, Special::kPlain).value();
  for (const TokenId id : plain) require(!normal.is_special(id));
  if (is_valid_utf8(text)) {
    std::string once;
    append_nfc(text, &once);
    require(is_valid_utf8(once) && normal.decode(plain, true).value() == once);
    std::string twice;
    append_nfc(once, &twice);
    require(once == twice);
  }
}

// Spans end at every byte 0x01 (the next one is trusted) or 0x02 (it is not).
void check_spans(std::string_view text) {
  static const Tokenizer exact = make(false);
  std::vector<Span> spans;
  bool trusted = false;
  std::string joined;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\x01\x02"), text.size());
    spans.push_back({text.substr(0, end), trusted});
    joined += text.substr(0, end);
    if (end == text.size()) break;
    trusted = text[end] == '\x01';
    text.remove_prefix(end + 1);
  }
  const auto ids = exact.encode_spans(spans);
  require(ids.ok() && exact.decode(*ids, true).value() == joined);
  for (Span& span : spans) span.trusted = true;
  require(exact.encode_spans(spans).value() == exact.encode(joined, Special::kParse).value());
  for (Span& span : spans) span.trusted = false;
  require(exact.encode_spans(spans).value() == exact.encode(joined, Special::kPlain).value());
}

void check_stream(std::string_view text) {
  Utf8Stream stream;
  std::string out;
  const size_t step = text.empty() ? 1 : 1 + static_cast<uint8_t>(text[0]) % 7;
  for (size_t at = 0; at < text.size(); at += step) {
    out += stream.feed(text.substr(at, step));
    require(stream.pending() <= 3);
  }
  out += stream.flush();
  require(is_valid_utf8(out) && out == to_valid_utf8(text));
}

// Lines of the input become extra tokens (first byte: type) and merges, or replace what is there.
void check_vocabulary(std::string_view text) {
  Vocabulary v = small_vocabulary();
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const auto kind = static_cast<uint8_t>(line[0]);
    const std::string rest(line.substr(1));
    if (kind % 4 == 0) {
      v.merges.push_back(rest);
    } else if (kind % 4 == 1) {
      v.merges[kind % v.merges.size()] = rest;
    } else if (kind % 4 == 2) {
      v.tokens[kind % v.tokens.size()] = rest;
    } else {
      v.tokens.push_back(rest);
      v.types.push_back((kind >> 2) % 8);
    }
  }
  const auto tokenizer = Tokenizer::create(v.spec(false));
  if (!tokenizer.ok()) {
    require(is_valid_utf8(tokenizer.status().message()));
    return;
  }
  for (const std::string& token : v.tokens) {
    const auto ids = tokenizer->encode(token, Special::kParse);
    require(ids.ok() && tokenizer->decode(*ids, true).value() == token);
    const auto plain = tokenizer->encode(token, Special::kPlain);
    require(plain.ok());
    for (const TokenId id : *plain) require(!tokenizer->is_control(id));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: check_text(text); break;
    case 1: check_spans(text); break;
    case 2: check_stream(text); break;
    default: check_vocabulary(text);
  }
  return 0;
}
