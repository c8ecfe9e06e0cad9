// The byte-level BPE tokenizer of a model file: text to token ids and back.
//
// Encoding, in this order: control and user-defined tokens are cut out of the text where the caller
// allows it (leftmost first, longest at a place); what lies between them is brought into Unicode
// form NFC; the pre-tokenizer cuts it into words; each word is byte-pair encoded. Bytes that are
// not valid UTF-8 are kept as they are: every run of them is one word, the valid text on either
// side of it is treated as a text of its own.
//
// Decoding gives the bytes back: decode(encode(s)) is the NFC form of s (s itself with
// normalize_nfc off), for any bytes whatever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_bpe.h"
#include "text/tokenizer_special.h"

namespace strata::text {

// Values of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,       // text in the byte alphabet
  kUnknown = 2,      // literal text; never made from text
  kControl = 3,      // literal text; matched whole; steers the model, no part of the answer
  kUserDefined = 4,  // literal text; matched whole; part of the answer ("<think>")
  kUnused = 5,       // a padding row; has no bytes
  kByte = 6,         // text in the byte alphabet
};

// What a model file says about its vocabulary. The views need to live only during create().
struct TokenizerSpec {
  std::vector<std::string_view> tokens;  // by id; tokenizer.ggml.tokens
  std::vector<int32_t> types;            // by id, a TokenType each; tokenizer.ggml.token_type
  std::vector<std::string_view> merges;  // "left right", best first; tokenizer.ggml.merges
  std::string_view pre;                  // tokenizer.ggml.pre
  std::optional<TokenId> bos, eos, pad;  // tokenizer.ggml.{bos,eos,padding}_token_id
  std::vector<TokenId> extra_end_of_generation;  // further ids that end an answer
  bool normalize_nfc = true;
};

// What control and user-defined tokens spelt out in a text mean.
enum class Special {
  kParse,  // they become those tokens
  kPlain,  // they are text like any other
};

// A stretch of a prompt. Trusted: written by the template, not by a user.
struct Span {
  std::string_view text;
  bool trusted = false;
};

// Immutable once made: every const method may be called from any thread.
class Tokenizer {
 public:
  // Fails, naming the entry at fault, on an unknown pre-tokenizer, an empty vocabulary, token types
  // that do not match the tokens, duplicate or empty tokens, a normal token outside the byte
  // alphabet, a byte without a token, no merges, a malformed, repeated or unknown merge, a merge
  // that builds a control token, ids outside the vocabulary.
  static Result<Tokenizer> create(const TokenizerSpec& spec);

  // Fails with kOutOfRange on a text over max_text_bytes() and with kResourceExhausted when memory
  // runs out. Time O(n log n), memory O(n).
  Result<std::vector<TokenId>> encode(std::string_view text, Special special) const;

  // Encodes the spans as one text. A control or user-defined token is recognised only where all of
  // its text lies in trusted spans (neighbouring ones count as one); the rest, whoever wrote it, is
  // cut into words and merged across span borders, as the joined text would be.
  Result<std::vector<TokenId>> encode_spans(std::span<const Span> spans) const;

  // The bytes of a token, control tokens included; they need not be valid UTF-8. Empty for unused
  // tokens and for ids outside the vocabulary, such as padding rows of the model's head.
  std::string_view token_bytes(TokenId id) const;

  // The bytes of the tokens in a row, control tokens only with `include_special`. Fails with
  // kOutOfRange on an id outside the vocabulary.
  Result<std::string> decode(std::span<const TokenId> ids, bool include_special) const;

  // The token whose bytes are `bytes`; a control or user-defined one before a normal one.
  std::optional<TokenId> find(std::string_view bytes) const;

  int vocab_size() const { return static_cast<int>(types_.size()); }
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  std::optional<TokenId> pad() const { return pad_; }

  // Ends an answer: eos, the spec's further ids, and the control tokens named <|endoftext|> and
  // <|im_end|>.
  bool is_end_of_generation(TokenId id) const;
  // All of them, ascending.
  const std::vector<TokenId>& end_of_generation() const { return end_of_generation_; }
  // Matched as a whole in text: control or user-defined.
  bool is_special(TokenId id) const;
  // Left out of decoded text unless asked for.
  bool is_control(TokenId id) const;

  static constexpr size_t max_text_bytes() { return size_t{1} << 30; }

 private:
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  struct Work;

  Tokenizer(Pretokenizer pretokenizer, BytePairEncoder encoder)
      : pretokenizer_(std::move(pretokenizer)), encoder_(std::move(encoder)) {}

  Result<std::vector<TokenId>> encode_ranges(std::string_view text,
                                             std::span<const Range> trusted) const;
  Status encode_plain(std::string_view text, Work* work) const;
  Status encode_valid(std::string_view text, Work* work) const;
  bool has_type(TokenId id, TokenType type) const;

  Pretokenizer pretokenizer_;
  BytePairEncoder encoder_;
  SpecialMatcher specials_;
  bool normalize_nfc_ = true;
  std::vector<TokenType> types_;
  std::string bytes_;            // of all tokens, one after another
  std::vector<size_t> offsets_;  // of token i in bytes_; vocab_size() + 1 entries
  std::unordered_multimap<size_t, TokenId> by_bytes_;  // hash of the bytes -> id
  std::optional<TokenId> bos_, eos_, pad_;
  std::vector<TokenId> end_of_generation_;  // sorted
};

}  // namespace strata::text
