// String operations shared by methods and filters. All keep provenance.
#pragma once

#include <cstdint>
#include <vector>

#include "text/jinja/text.h"

namespace strata::jinja {

enum class Side : std::uint8_t { kLeft, kRight, kBoth };

// Drops code points that are in `characters` (null: whitespace) from the ends.
Text strip(const Text& text, const Text* characters, Side side);
Text to_upper(const Text& text);
Text to_lower(const Text& text);
// First letter upper, the rest lower.
Text capitalize(const Text& text);
// str.title(): a letter after a non-letter is upper, others lower.
Text title_words(const Text& text);
// The title filter: a letter after a blank, hyphen or opening bracket is upper.
Text title_filter(const Text& text);
// At most `limit` replacements; negative: all.
Text replace(const Text& text, const Text& from, const Text& to, std::int64_t limit);
std::vector<Text> split(const Text& text, const Text& separator, std::int64_t limit);
std::vector<Text> split_right(const Text& text, const Text& separator, std::int64_t limit);
// Separated by runs of whitespace; no empty parts.
std::vector<Text> split_spaces(const Text& text, std::int64_t limit);
std::vector<Text> split_spaces_right(const Text& text, std::int64_t limit);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
// Last position of `needle` in `haystack`, npos when absent. Linear in the worst case.
std::size_t find_last(std::string_view haystack, std::string_view needle);

}  // namespace strata::jinja
