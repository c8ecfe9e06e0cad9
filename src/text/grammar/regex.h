// Regular expressions, the dialect of ECMAScript with the `u` flag as far as it is regular, plus a
// few spellings of others.
//
// Supported: literals, `.` (any character but line ends), classes [..] with ranges and escapes,
// \d \D \w \W \s \S (ECMAScript's sets), \p{..} \P{..} with general categories, \n \r \t \f \v \0
// \xHH \x{H} \uHHHH \u{H} \cX, groups (capturing, (?:..), named), |, * + ? {n} {n,} {n,m} and their
// lazy forms (which mean the same set of texts), the anchors ^ $ \A \z \Z where a text begins or
// ends. Refused with a sentence: look-around, back references, \b, inline flags, atomic groups,
// possessive quantifiers, anchors in the middle.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"
#include "text/grammar/builder.h"
#include "text/grammar/code_set.h"

namespace strata::grammar {

inline constexpr size_t kMaxRegexBytes = 64 * 1024;
inline constexpr int kMaxRegexDepth = 200;  // of groups

enum class RegexMatch {
  kWhole,   // the expression matches the whole text; anchors at its ends change nothing
  kSearch,  // it matches somewhere in the text, unless anchored
};

// How one character out of a set is spelt in the text that is constrained.
using CharacterWriter = std::function<ExprId(GrammarBuilder&, const CodeSet&)>;
// As UTF-8.
ExprId write_utf8(GrammarBuilder& builder, const CodeSet& set);

// Errors: kInvalidArgument with the place in the pattern.
Result<ExprId> compile_regex(GrammarBuilder& builder, std::string_view pattern, RegexMatch match,
                             const CharacterWriter& writer);

}  // namespace strata::grammar
