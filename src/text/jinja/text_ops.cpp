#include "text/jinja/text_ops.h"

#include <algorithm>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"

namespace strata::jinja {
namespace {

constexpr std::size_t kNpos = std::string_view::npos;

// Splitting makes a Text per part; a part of one byte costs far more than a byte.
constexpr std::size_t kMaxParts = std::size_t{1} << 20;

void add_part(std::vector<Text>& parts, Text part) {
  if (parts.size() >= kMaxParts)
    fail_limit("a string was split into more than {} parts", kMaxParts);
  parts.push_back(std::move(part));
}

// Rewrites every code point; `map(code_point, bytes, out)` appends what it becomes.
template <class Map>
Text map_code_points(const Text& text, Map&& map) {
  Text out;
  text.for_each_run([&](std::string_view run, bool trusted) {
    std::string mapped;
    mapped.reserve(run.size());
    for (std::size_t pos = 0; pos < run.size();) {
      const CodePoint c = decode_at(run, pos);
      map(c.value, mapped);
      pos += c.size;
    }
    out.append(mapped, trusted);
  });
  return out;
}

bool in_set(char32_t c, const Text* characters) {
  if (characters == nullptr) return is_space(c);
  const std::string_view set = characters->view();
  for (std::size_t pos = 0; pos < set.size();) {
    const CodePoint member = decode_at(set, pos);
    if (member.value == c) return true;
    pos += member.size;
  }
  return false;
}

// Length of the line end at `pos`, 0 when there is none.
std::size_t line_end_at(std::string_view text, std::size_t pos) {
  const CodePoint c = decode_at(text, pos);
  if (c.value == '\r') return pos + 1 < text.size() && text[pos + 1] == '\n' ? 2 : 1;
  const bool ends = (c.value >= 0x0A && c.value <= 0x0C) || (c.value >= 0x1C && c.value <= 0x1E) ||
                    c.value == 0x85 || c.value == 0x2028 || c.value == 0x2029;
  return ends ? c.size : 0;
}

}  // namespace

Text strip(const Text& text, const Text* characters, Side side) {
  const std::string_view bytes = text.view();
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end) {
      const CodePoint c = decode_at(bytes, begin);
      if (!in_set(c.value, characters)) break;
      begin += c.size;
    }
  }
  if (side != Side::kLeft) {
    while (end > begin) {
      const CodePoint c = decode_before(bytes, end);
      if (!in_set(c.value, characters)) break;
      end -= c.size;
    }
  }
  return text.slice(begin, end);
}

Text to_upper(const Text& text) {
  return map_code_points(text, [](char32_t c, std::string& out) { append_upper(c, out); });
}

Text to_lower(const Text& text) {
  return map_code_points(text, [](char32_t c, std::string& out) { append_lower(c, out); });
}

Text capitalize(const Text& text) {
  bool first = true;
  return map_code_points(text, [&](char32_t c, std::string& out) {
    if (first)
      append_upper(c, out);
    else
      append_lower(c, out);
    first = false;
  });
}

Text title_words(const Text& text) {
  bool after_letter = false;
  return map_code_points(text, [&](char32_t c, std::string& out) {
    if (after_letter)
      append_lower(c, out);
    else
      append_upper(c, out);
    after_letter = is_alpha(c);
  });
}

Text title_filter(const Text& text) {
  bool word_starts = true;
  return map_code_points(text, [&](char32_t c, std::string& out) {
    const bool separator = c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
    if (word_starts)
      append_upper(c, out);
    else
      append_lower(c, out);
    word_starts = separator;
  });
}

Text replace(const Text& text, const Text& from, const Text& to, std::int64_t limit) {
  Text out;
  const std::string_view bytes = text.view();
  if (from.empty()) {
    std::size_t pos = 0;
    while (limit != 0) {
      out.append(to);
      --limit;
      if (pos >= bytes.size()) return out;
      const std::size_t end = pos + decode_at(bytes, pos).size;
      out.append(text, pos, end);
      pos = end;
    }
    out.append(text, pos, bytes.size());
    return out;
  }
  std::size_t pos = 0;
  while (limit != 0) {
    const std::size_t hit = find_bytes(bytes, from.view(), pos);
    if (hit == kNpos) break;
    out.append(text, pos, hit);
    out.append(to);
    pos = hit + from.size();
    --limit;
  }
  out.append(text, pos, bytes.size());
  return out;
}

std::vector<Text> split(const Text& text, const Text& separator, std::int64_t limit) {
  if (separator.empty()) fail("a string cannot be split at an empty separator");
  std::vector<Text> parts;
  std::size_t pos = 0;
  for (; limit != 0; --limit) {
    const std::size_t hit = find_bytes(text.view(), separator.view(), pos);
    if (hit == kNpos) break;
    add_part(parts, text.slice(pos, hit));
    pos = hit + separator.size();
  }
  add_part(parts, text.slice(pos));
  return parts;
}

std::size_t find_last(std::string_view haystack, std::string_view needle) {
  if (needle.size() > haystack.size()) return kNpos;
  const std::string backwards(haystack.rbegin(), haystack.rend());
  const std::string target(needle.rbegin(), needle.rend());
  const std::size_t hit = find_bytes(backwards, target);
  return hit == kNpos ? kNpos : haystack.size() - hit - needle.size();
}

std::vector<Text> split_right(const Text& text, const Text& separator, std::int64_t limit) {
  if (separator.empty()) fail("a string cannot be split at an empty separator");
  // Searching the reversed bytes forwards keeps the search linear over all parts together.
  const std::string_view bytes = text.view();
  const std::string backwards(bytes.rbegin(), bytes.rend());
  const std::string target(separator.view().rbegin(), separator.view().rend());
  std::vector<Text> parts;
  std::size_t pos = 0;
  for (; limit != 0; --limit) {
    const std::size_t hit = find_bytes(backwards, target, pos);
    if (hit == kNpos) break;
    add_part(parts, text.slice(bytes.size() - hit, bytes.size() - pos));
    pos = hit + separator.size();
  }
  add_part(parts, text.slice(0, bytes.size() - pos));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_spaces(const Text& text, std::int64_t limit) {
  const std::string_view bytes = text.view();
  std::vector<Text> parts;
  std::size_t pos = 0;
  const auto skip = [&](bool spaces) {
    while (pos < bytes.size()) {
      const CodePoint c = decode_at(bytes, pos);
      if (is_space(c.value) != spaces) break;
      pos += c.size;
    }
  };
  skip(true);
  while (pos < bytes.size()) {
    if (limit-- == 0) {
      add_part(parts, text.slice(pos));
      break;
    }
    const std::size_t begin = pos;
    skip(false);
    add_part(parts, text.slice(begin, pos));
    skip(true);
  }
  return parts;
}

std::vector<Text> split_spaces_right(const Text& text, std::int64_t limit) {
  const std::string_view bytes = text.view();
  std::vector<Text> parts;
  std::size_t end = bytes.size();
  const auto skip = [&](bool spaces) {
    while (end > 0) {
      const CodePoint c = decode_before(bytes, end);
      if (is_space(c.value) != spaces) break;
      end -= c.size;
    }
  };
  skip(true);
  while (end > 0) {
    if (limit-- == 0) {
      add_part(parts, text.slice(0, end));
      break;
    }
    const std::size_t stop = end;
    skip(false);
    add_part(parts, text.slice(end, stop));
    skip(true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const std::size_t ending = line_end_at(bytes, pos);
    if (ending == 0) {
      pos += decode_at(bytes, pos).size;
      continue;
    }
    add_part(lines, text.slice(begin, keep_ends ? pos + ending : pos));
    pos += ending;
    begin = pos;
  }
  if (begin < bytes.size()) add_part(lines, text.slice(begin));
  return lines;
}

}  // namespace strata::jinja
