// From the text of an option to its value. A failure says what is allowed, and leaves the name of
// the option to the caller: "expected a whole number from 0 to 7, got \"x\"".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace strata::apps {

Result<int64_t> read_whole(std::string_view text, int64_t least, int64_t most);
// Whole numbers separated by commas, at most `longest` of them; "none" gives an empty list.
Result<std::vector<int>> read_whole_list(std::string_view text, int least, int most,
                                         size_t longest);
Result<uint64_t> read_unsigned(std::string_view text);
// "https://example.org:8080", as browsers name where a page comes from, "*" for all, or "null", by which
// they name files. A slash at the end is dropped.
Result<std::string> read_origin(std::string_view text);

struct RealRange {
  double least = 0.0;
  double most = 0.0;
  bool open_below = false;  // `least` itself is outside
  bool open_above = false;
};
Result<float> read_real(std::string_view text, const RealRange& range);

// The index of `text` among `choices`.
Result<size_t> read_choice(std::string_view text, std::span<const std::string_view> choices);

// "ID=BIAS"; BIAS may be -inf, which bans the token.
Result<std::pair<TokenId, float>> read_logit_bias(std::string_view text);

// The candidate with the fewest edits to `word`, if it is near enough to be meant.
std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

// `text` in quotes, cut short when long, without control characters: fit for a message.
std::string in_quotes(std::string_view text);

}  // namespace strata::apps
