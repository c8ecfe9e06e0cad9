#include "text/grammar/code_set.h"

#include <algorithm>
#include <array>
#include <string>

#include <utf8proc.h>

namespace strata::grammar {
namespace {

struct Run {
  CodeRange range;
  std::string_view category;  // two letters
};

// All code points in order. Made once: to ask for each of them takes milliseconds.
const std::vector<Run>& category_runs() {
  static const std::vector<Run> runs = [] {
    std::vector<Run> out;
    for (char32_t c = 0; c <= kLastCodePoint; ++c) {
      const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
      if (!out.empty() && out.back().category == category) {
        out.back().range.high = c;
      } else {
        out.push_back({{c, c}, category});
      }
    }
    return out;
  }();
  return runs;
}

}  // namespace

CodeSet::CodeSet(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
  for (const CodeRange& r : ranges) {
    if (r.low > r.high) continue;
    if (!ranges_.empty() && r.low <= ranges_.back().high + 1) {
      ranges_.back().high = std::max(ranges_.back().high, r.high);
    } else {
      ranges_.push_back(r);
    }
  }
}

Result<CodeSet> CodeSet::category(std::string_view name) {
  if (name == "Any") return all();
  if (name == "ASCII") return CodeSet({{0, 0x7F}});
  // The long names of the groups, as ECMAScript and PCRE know them.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kGroups{
      {{"Letter", "L"},
       {"Mark", "M"},
       {"Number", "N"},
       {"Punctuation", "P"},
       {"Symbol", "S"},
       {"Separator", "Z"},
       {"Other", "C"}}};
  for (const auto& [group, letter] : kGroups) {
    if (name == group) name = letter;
  }
  constexpr std::string_view kKnown =
      " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C "
      "Cc "
      "Cf Cs Co Cn ";
  if (name.empty() || kKnown.find(' ' + std::string(name) + ' ') == std::string_view::npos) {
    return invalid_argument(
        "\\p{{{}}} is not supported; use a general category such as \\p{{L}} or \\p{{Nd}}", name);
  }
  std::vector<CodeRange> ranges;
  for (const Run& run : category_runs()) {
    if (run.category.substr(0, name.size()) == name) ranges.push_back(run.range);
  }
  return CodeSet(std::move(ranges));
}

CodeSet CodeSet::complement() const {
  CodeSet out;
  char32_t next = 0;
  for (const CodeRange& r : ranges_) {
    if (r.low > next) out.ranges_.push_back({next, r.low - 1});
    next = r.high + 1;
  }
  if (next <= kLastCodePoint) out.ranges_.push_back({next, kLastCodePoint});
  return out;
}

CodeSet CodeSet::united(const CodeSet& other) const {
  std::vector<CodeRange> ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  return CodeSet(std::move(ranges));
}

CodeSet CodeSet::intersected(const CodeSet& other) const {
  return complement().united(other.complement()).complement();
}

bool CodeSet::contains(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const CodeRange& r) { return c >= r.low && c <= r.high; });
}

}  // namespace strata::grammar
