// Sets of Unicode code points.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/builder.h"

namespace strata::grammar {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// Ranges by growing low, neither overlapping nor touching.
class CodeSet {
 public:
  CodeSet() = default;
  explicit CodeSet(std::vector<CodeRange> ranges);
  static CodeSet all() { return CodeSet({{0, kLastCodePoint}}); }
  // Characters of a Unicode general category, e.g. "L", "Lu", "Nd", or of `Any`, `ASCII`.
  // kInvalidArgument for other names.
  static Result<CodeSet> category(std::string_view name);

  CodeSet complement() const;
  CodeSet united(const CodeSet& other) const;
  CodeSet intersected(const CodeSet& other) const;
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  std::span<const CodeRange> ranges() const { return ranges_; }

 private:
  std::vector<CodeRange> ranges_;
};

}  // namespace strata::grammar
