#include "text/utf8.h"

#include <cstring>

namespace strata::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr uint64_t kHighBits = 0x8080808080808080u;

// What a lead byte asks for: the length of its sequence and the range of its second byte, which
// alone excludes overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  uint32_t length;
  uint8_t second_low;
  uint8_t second_high;
};

Lead classify_lead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

size_t ascii_prefix(std::string_view text) {
  size_t n = 0;
  while (n + sizeof(uint64_t) <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + n, sizeof(word));
    if ((word & kHighBits) != 0) break;
    n += sizeof(word);
  }
  while (n < text.size() && static_cast<uint8_t>(text[n]) < 0x80) ++n;
  return n;
}

// Appends `bytes` to `out`, ill-formed subparts replaced, up to an unfinished character at the end;
// returns how many bytes were consumed.
size_t append_repaired(std::string_view bytes, std::string* out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t valid = valid_utf8_prefix(bytes.substr(at));
    out->append(bytes, at, valid);
    at += valid;
    if (at == bytes.size()) break;
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind == Utf8Kind::kIncomplete) break;
    out->append(kReplacement);
    at += step.length;
  }
  return at;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const Lead lead = classify_lead(byte_at(0));
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1, 0};
  if (lead.length == 1) return {Utf8Kind::kCharacter, 1, byte_at(0)};
  char32_t code_point = byte_at(0) & (0x7Fu >> lead.length);
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i, 0};
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte_at(i) < low || byte_at(i) > high) return {Utf8Kind::kInvalid, i, 0};
    code_point = (code_point << 6) | (byte_at(i) & 0x3Fu);
  }
  return {Utf8Kind::kCharacter, lead.length, code_point};
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      at += ascii_prefix(text.substr(at));
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Kind::kCharacter) break;
    at += step.length;
  }
  return at;
}

bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += utf8_step(text.substr(at)).length;
  return count;
}

void append_utf8(char32_t c, std::string* out) {
  const auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (append_repaired(text, &out) < text.size()) out.append(kReplacement);
  return out;
}

std::string Utf8Stream::feed(std::string_view bytes) {
  std::string out;
  if (!pending_.empty()) {
    // Only the held-back character is joined, so that a long feed is not copied.
    size_t taken = 0;
    while (!pending_.empty() && taken < bytes.size()) {
      pending_.push_back(bytes[taken++]);
      pending_.erase(0, append_repaired(pending_, &out));
    }
    bytes.remove_prefix(taken);
  }
  bytes.remove_prefix(append_repaired(bytes, &out));
  pending_.append(bytes);
  return out;
}

std::string Utf8Stream::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace strata::text
