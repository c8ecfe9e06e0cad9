#include "apps/token_ids.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "apps/option_values.h"

namespace strata::apps {

Result<std::vector<TokenId>> read_ids(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  std::vector<TokenId> ids;
  while (true) {
    text.remove_prefix(std::min(text.find_first_of(kDigits), text.size()));
    if (text.empty()) break;
    const std::string_view digits = text.substr(0, text.find_first_not_of(kDigits));
    TokenId id = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), id).ec != std::errc()) {
      return out_of_range("{} is too large for a token id", in_quotes(digits));
    }
    ids.push_back(id);
    text.remove_prefix(digits.size());
  }
  if (ids.empty()) {
    return invalid_argument("there are no token ids; they are decimal numbers, such as 12 7 340");
  }
  return ids;
}

std::string ids_text(std::span<const TokenId> ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

}  // namespace strata::apps
