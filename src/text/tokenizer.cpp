#include "text/tokenizer.h"

#include <algorithm>
#include <new>

#include "text/tokenizer_nfc.h"
#include "text/utf8.h"

namespace strata::text {
namespace {

Status too_long(size_t bytes) {
  return out_of_range(
      "the text has {} bytes, more than the {} that can be tokenized at once; "
      "shorten it",
      bytes, Tokenizer::max_text_bytes());
}

Status out_of_memory(size_t bytes) {
  return resource_exhausted("out of memory while tokenizing a text of {} bytes; send a shorter one",
                            bytes);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

// What one call of encode works with.
struct Tokenizer::Work {
  Pretokenizer::Cursor cursor;
  BytePairEncoder::Scratch scratch;
  std::string normalized;
  std::vector<TokenId> ids;
};

Status Tokenizer::encode_valid(std::string_view text, Work* work) const {
  if (normalize_nfc_ && !is_ascii(text)) {
    work->normalized.clear();
    append_nfc(text, &work->normalized);
    text = work->normalized;
  }
  work->cursor.reset(text);
  while (!work->cursor.done()) {
    STRATA_ASSIGN_OR_RETURN(const std::string_view word, work->cursor.next());
    encoder_.encode(word, &work->scratch, &work->ids);
  }
  return {};
}

Status Tokenizer::encode_plain(std::string_view text, Work* work) const {
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    STRATA_RETURN_IF_ERROR(encode_valid(text.substr(0, valid), work));
    text.remove_prefix(valid);
    size_t invalid = 0;
    while (invalid < text.size()) {
      const Utf8Step step = utf8_step(text.substr(invalid));
      if (step.kind == Utf8Kind::kCharacter) break;
      invalid += step.length;
    }
    encoder_.encode(text.substr(0, invalid), &work->scratch, &work->ids);
    text.remove_prefix(invalid);
  }
  return {};
}

Result<std::vector<TokenId>> Tokenizer::encode_ranges(std::string_view text,
                                                      std::span<const Range> trusted) const {
  STRATA_ASSIGN_OR_RETURN(Pretokenizer::Cursor cursor, pretokenizer_.cursor());
  Work work;
  work.cursor = std::move(cursor);
  size_t plain_from = 0;
  for (const Range& range : trusted) {
    size_t from = range.begin;
    while (const auto hit = specials_.find(text, from, range.end)) {
      STRATA_RETURN_IF_ERROR(encode_plain(text.substr(plain_from, hit->begin - plain_from), &work));
      work.ids.push_back(hit->id);
      plain_from = from = hit->end;
    }
  }
  STRATA_RETURN_IF_ERROR(encode_plain(text.substr(plain_from), &work));
  return std::move(work.ids);
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, Special special) const {
  if (text.size() > max_text_bytes()) return too_long(text.size());
  const Range whole{0, text.size()};
  const std::span<const Range> all(&whole, 1);
  try {
    return encode_ranges(text, special == Special::kParse ? all : all.first(0));
  } catch (const std::bad_alloc&) {
    return out_of_memory(text.size());
  }
}

Result<std::vector<TokenId>> Tokenizer::encode_spans(std::span<const Span> spans) const {
  size_t total = 0;
  for (const Span& span : spans) {
    if (span.text.size() > max_text_bytes() - total) return too_long(total + span.text.size());
    total += span.text.size();
  }
  try {
    std::string text;
    text.reserve(total);
    std::vector<Range> trusted;
    for (const Span& span : spans) {
      const size_t begin = text.size();
      text += span.text;
      if (!span.trusted || span.text.empty()) continue;
      if (!trusted.empty() && trusted.back().end == begin) {
        trusted.back().end = text.size();
      } else {
        trusted.push_back({begin, text.size()});
      }
    }
    return encode_ranges(text, trusted);
  } catch (const std::bad_alloc&) {
    return out_of_memory(total);
  }
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, bool include_special) const {
  std::string out;
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size()) {
      return out_of_range(
          "token id {} is outside the vocabulary of {} tokens; ids run from 0 to {}", id,
          vocab_size(), vocab_size() - 1);
    }
    if (include_special || !is_control(id)) out += token_bytes(id);
  }
  return out;
}

std::optional<TokenId> Tokenizer::find(std::string_view bytes) const {
  std::optional<TokenId> best;
  const auto [begin, end] = by_bytes_.equal_range(std::hash<std::string_view>{}(bytes));
  for (auto at = begin; at != end; ++at) {
    const TokenId id = at->second;
    if (token_bytes(id) != bytes) continue;
    const bool better = !best.has_value() || (is_special(id) && !is_special(*best)) ||
                        (is_special(id) == is_special(*best) && id < *best);
    if (better) best = id;
  }
  return best;
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), id);
}

bool Tokenizer::has_type(TokenId id, TokenType type) const {
  return id >= 0 && id < vocab_size() && types_[id] == type;
}

bool Tokenizer::is_special(TokenId id) const {
  return has_type(id, TokenType::kControl) || has_type(id, TokenType::kUserDefined);
}

bool Tokenizer::is_control(TokenId id) const { return has_type(id, TokenType::kControl); }

}  // namespace strata::text
