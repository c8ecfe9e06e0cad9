// Sets of characters as sequences of UTF-8 bytes.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/builder.h"
#include "text/utf8.h"

namespace strata::grammar {

namespace {

// Splits [low, high] where the number of UTF-8 bytes changes and wherever trailing bytes do not
// cover their full range, so that each piece is a product of byte ranges.
void utf8_pieces(char32_t low, char32_t high, std::vector<std::vector<ByteSet>>* out) {
  constexpr char32_t kLimits[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  for (const char32_t limit : kLimits) {
    if (low <= limit && high > limit) {
      utf8_pieces(low, limit, out);
      low = limit + 1;
    }
  }
  for (int bits = 6; bits <= 18; bits += 6) {
    const char32_t mask = (char32_t{1} << bits) - 1;
    if ((low & ~mask) == (high & ~mask)) break;
    if ((low & mask) != 0 && low > 0x7F) {
      utf8_pieces(low, low | mask, out);
      utf8_pieces((low | mask) + 1, high, out);
      return;
    }
    if ((high & mask) != mask && low > 0x7F) {
      utf8_pieces(low, (high & ~mask) - 1, out);
      utf8_pieces(high & ~mask, high, out);
      return;
    }
  }
  std::string first, last;
  text::append_utf8(low, &first);
  text::append_utf8(high, &last);
  std::vector<ByteSet> piece;
  for (size_t i = 0; i < first.size(); ++i) {
    piece.push_back(ByteSet::range(static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])));
  }
  out->push_back(std::move(piece));
}

}  // namespace

ExprId GrammarBuilder::characters(std::span<const CodeRange> ranges) {
  ByteSet ascii;
  bool any_ascii = false;
  std::vector<std::vector<ByteSet>> pieces;
  for (CodeRange r : ranges) {
    r.high = std::min<char32_t>(r.high, 0x10FFFF);
    if (r.low > r.high) continue;
    if (r.low <= 0x7F) {
      any_ascii = true;
      ascii.add(static_cast<uint8_t>(r.low),
                static_cast<uint8_t>(std::min<char32_t>(r.high, 0x7F)));
      if (r.high <= 0x7F) continue;
      r.low = 0x80;
    }
    if (r.low <= 0xD7FF) utf8_pieces(r.low, std::min<char32_t>(r.high, 0xD7FF), &pieces);
    if (r.high >= 0xE000) utf8_pieces(std::max<char32_t>(r.low, 0xE000), r.high, &pieces);
  }
  std::vector<ExprId> parts;
  if (any_ascii) parts.push_back(bytes(ascii));
  for (const auto& piece : pieces) {
    std::vector<ExprId> row;
    for (const ByteSet& set : piece) row.push_back(bytes(set));
    parts.push_back(concat(std::move(row)));
  }
  return either(std::move(parts));
}

}  // namespace strata::grammar
