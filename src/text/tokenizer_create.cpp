// Tokenizer::create: from what a model file says to tables that can be trusted.
#include <algorithm>
#include <functional>

#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace strata::text {
namespace {

constexpr std::string_view kEndNames[] = {"<|endoftext|>", "<|im_end|>"};
constexpr size_t kMaxTokens = size_t{1} << 26;      // far above any vocabulary; ids stay int32
constexpr size_t kMaxTokenBytes = size_t{1} << 16;  // of one token
constexpr size_t kMaxSpecialBytes = 1024;           // of one that is searched for in every text
constexpr size_t kShownBytes = 64;                  // of a text quoted in a message

using IdsByText = std::unordered_map<std::string_view, TokenId>;

// Text of the file as a message may show it: valid UTF-8, no control characters, of bounded length.
std::string quoted(std::string_view text) {
  std::string shown = to_valid_utf8(text.substr(0, kShownBytes));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return fmt::format("\"{}{}\"", shown, text.size() > kShownBytes ? "..." : "");
}

Status bad_vocabulary(std::string detail) {
  return invalid_argument(
      "the vocabulary of the model file is damaged: {}; fetch or convert the file again", detail);
}

Status check_shape(const TokenizerSpec& spec) {
  if (spec.tokens.empty()) {
    return bad_vocabulary("it has no tokens (tokenizer.ggml.tokens)");
  }
  if (spec.tokens.size() > kMaxTokens) {
    return bad_vocabulary(fmt::format("it claims {} tokens, more than the {} that this build reads",
                                      spec.tokens.size(), kMaxTokens));
  }
  if (spec.types.size() != spec.tokens.size()) {
    return bad_vocabulary(
        fmt::format("it has {} tokens but {} token types "
                    "(tokenizer.ggml.token_type)",
                    spec.tokens.size(), spec.types.size()));
  }
  if (spec.merges.empty()) {
    return bad_vocabulary("it has no merges (tokenizer.ggml.merges)");
  }
  return {};
}

Result<IdsByText> index_tokens(const TokenizerSpec& spec) {
  IdsByText ids;
  ids.reserve(spec.tokens.size());
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    if (spec.tokens[i].empty()) return bad_vocabulary(fmt::format("token {} is empty", i));
    if (spec.tokens[i].size() > kMaxTokenBytes) {
      return bad_vocabulary(fmt::format("token {} has {} bytes, more than {}", i,
                                        spec.tokens[i].size(), kMaxTokenBytes));
    }
    if (spec.types[i] < static_cast<int32_t>(TokenType::kNormal) ||
        spec.types[i] > static_cast<int32_t>(TokenType::kByte)) {
      return bad_vocabulary(fmt::format("token {} ({}) has the unknown type {}", i,
                                        quoted(spec.tokens[i]), spec.types[i]));
    }
    const auto type = static_cast<TokenType>(spec.types[i]);
    if ((type == TokenType::kControl || type == TokenType::kUserDefined) &&
        spec.tokens[i].size() > kMaxSpecialBytes) {
      return bad_vocabulary(fmt::format("the special token {} has {} bytes, more than {}", i,
                                        spec.tokens[i].size(), kMaxSpecialBytes));
    }
    const auto [known, added] = ids.emplace(spec.tokens[i], static_cast<TokenId>(i));
    if (!added) {
      return bad_vocabulary(
          fmt::format("tokens {} and {} are both {}", known->second, i, quoted(spec.tokens[i])));
    }
  }
  return ids;
}

bool in_byte_alphabet(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kByte;
}

Result<std::array<TokenId, 256>> find_byte_tokens(const TokenizerSpec& spec, const IdsByText& ids,
                                                  const ByteAlphabet& alphabet) {
  std::array<TokenId, 256> tokens{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(alphabet.character(static_cast<uint8_t>(byte)), &text);
    const auto found = ids.find(text);
    if (found == ids.end() ||
        !in_byte_alphabet(static_cast<TokenType>(spec.types[found->second]))) {
      return bad_vocabulary(
          fmt::format("no normal token stands for the byte 0x{:02X} ({})", byte, quoted(text)));
    }
    tokens[byte] = found->second;
  }
  return tokens;
}

Result<MergeTable> read_merges(const TokenizerSpec& spec, const IdsByText& ids) {
  MergeTable table(spec.merges.size());
  std::string joined;
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const std::string_view line = spec.merges[i];
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string_view::npos) {
      return bad_vocabulary(fmt::format(
          "merge {} ({}) is not two tokens with one space between them", i, quoted(line)));
    }
    const std::string_view left = line.substr(0, space);
    const std::string_view right = line.substr(space + 1);
    joined.assign(left).append(right);
    TokenId parts[3];
    const std::string_view texts[3] = {left, right, joined};
    const auto result = ids.find(joined);
    for (int part = 0; part < 2; ++part) {
      const auto found = ids.find(texts[part]);
      if (found == ids.end()) {
        return bad_vocabulary(fmt::format("merge {} ({}) needs {}, which is no token", i,
                                          quoted(line), quoted(texts[part])));
      }
      parts[part] = found->second;
    }
    // A merge that builds no token can never apply; vocabularies in the wild carry a few.
    if (result == ids.end()) continue;
    parts[2] = result->second;
    const auto built = static_cast<TokenType>(spec.types[parts[2]]);
    if (!in_byte_alphabet(built) && built != TokenType::kUserDefined) {
      return bad_vocabulary(fmt::format("merge {} ({}) builds {}, which must not come from text", i,
                                        quoted(line), quoted(joined)));
    }
    if (!table.insert(parts[0], parts[1], {static_cast<uint32_t>(i), parts[2]})) {
      return bad_vocabulary(fmt::format("merge {} ({}) repeats an earlier one", i, quoted(line)));
    }
  }
  return table;
}

Status check_id(std::optional<TokenId> id, size_t vocabulary, std::string_view key) {
  if (!id.has_value() || (*id >= 0 && static_cast<size_t>(*id) < vocabulary)) return {};
  return bad_vocabulary(fmt::format("{} is {}, outside its {} tokens", key, *id, vocabulary));
}

}  // namespace

Result<Tokenizer> Tokenizer::create(const TokenizerSpec& spec) {
  STRATA_ASSIGN_OR_RETURN(Pretokenizer pretokenizer, Pretokenizer::create(spec.pre));
  STRATA_RETURN_IF_ERROR(check_shape(spec));
  const size_t count = spec.tokens.size();
  STRATA_RETURN_IF_ERROR(check_id(spec.bos, count, "tokenizer.ggml.bos_token_id"));
  STRATA_RETURN_IF_ERROR(check_id(spec.eos, count, "tokenizer.ggml.eos_token_id"));
  STRATA_RETURN_IF_ERROR(check_id(spec.pad, count, "tokenizer.ggml.padding_token_id"));
  for (const TokenId id : spec.extra_end_of_generation) {
    STRATA_RETURN_IF_ERROR(check_id(id, count, "an end-of-generation id"));
  }
  STRATA_ASSIGN_OR_RETURN(const IdsByText ids, index_tokens(spec));
  const ByteAlphabet alphabet;
  STRATA_ASSIGN_OR_RETURN(const auto byte_tokens, find_byte_tokens(spec, ids, alphabet));
  STRATA_ASSIGN_OR_RETURN(MergeTable merges, read_merges(spec, ids));

  Tokenizer tokenizer(std::move(pretokenizer), BytePairEncoder(byte_tokens, std::move(merges)));
  tokenizer.normalize_nfc_ = spec.normalize_nfc;
  tokenizer.bos_ = spec.bos;
  tokenizer.eos_ = spec.eos;
  tokenizer.pad_ = spec.pad;
  tokenizer.types_.reserve(count);
  tokenizer.offsets_.reserve(count + 1);
  tokenizer.offsets_.push_back(0);
  tokenizer.by_bytes_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto type = static_cast<TokenType>(spec.types[i]);
    tokenizer.types_.push_back(type);
    if (in_byte_alphabet(type)) {
      Result<std::string> bytes = alphabet.to_bytes(spec.tokens[i]);
      if (!bytes.ok()) {
        return bad_vocabulary(fmt::format("token {} ({}) is no byte-level text: {}", i,
                                          quoted(spec.tokens[i]), bytes.status().message()));
      }
      tokenizer.bytes_ += *bytes;
    } else if (type != TokenType::kUnused) {
      tokenizer.bytes_ += spec.tokens[i];
    }
    tokenizer.offsets_.push_back(tokenizer.bytes_.size());
    if (tokenizer.is_special(id)) tokenizer.specials_.add(spec.tokens[i], id);
  }
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (!bytes.empty()) {
      tokenizer.by_bytes_.emplace(std::hash<std::string_view>{}(bytes), id);
    }
  }

  auto& ends = tokenizer.end_of_generation_;
  ends = spec.extra_end_of_generation;
  if (spec.eos.has_value()) ends.push_back(*spec.eos);
  for (const std::string_view name : kEndNames) {
    const auto found = ids.find(name);
    if (found != ids.end() && tokenizer.is_special(found->second)) ends.push_back(found->second);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return tokenizer;
}

}  // namespace strata::text
