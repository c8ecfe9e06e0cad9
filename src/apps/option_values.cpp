#include "apps/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "text/utf8.h"

namespace strata::apps {

namespace {

// The whole of `text` as a number of type T.
template <class T>
std::optional<T> parse(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string describe(const RealRange& range) {
  if (!range.open_below && !range.open_above) {
    return fmt::format("a number from {} to {}", range.least, range.most);
  }
  return fmt::format("a number {} {} and {} {}", range.open_below ? "above" : "of at least",
                     range.least, range.open_above ? "below" : "at most", range.most);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

}  // namespace

Result<int64_t> read_whole(std::string_view text, int64_t least, int64_t most) {
  const auto value = parse<int64_t>(text);
  if (!value || *value < least || *value > most) {
    return invalid_argument("expected a whole number from {} to {}, got {}", least, most,
                            in_quotes(text));
  }
  return *value;
}

Result<std::vector<int>> read_whole_list(std::string_view text, int least, int most,
                                         size_t longest) {
  std::vector<int> values;
  if (text == "none") return values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const auto value = parse<int>(text.substr(begin, comma - begin));
    if (!value || *value < least || *value > most || values.size() == longest) {
      return invalid_argument(
          "expected none, or up to {} whole numbers from {} to {} separated by commas, got {}",
          longest, least, most, in_quotes(text));
    }
    values.push_back(*value);
    begin = comma + 1;
  }
  return values;
}

Result<uint64_t> read_unsigned(std::string_view text) {
  const auto value = parse<uint64_t>(text);
  if (!value) {
    return invalid_argument("expected a whole number from 0 to {}, got {}",
                            std::numeric_limits<uint64_t>::max(), in_quotes(text));
  }
  return *value;
}

Result<std::string> read_origin(std::string_view text) {
  if (text == "*" || text == "null") return std::string(text);
  std::string_view rest = text;
  const bool web = rest.starts_with("http://") || rest.starts_with("https://");
  rest.remove_prefix(web ? rest.find("//") + 2 : 0);
  if (rest.ends_with('/')) {
    rest.remove_suffix(1);
    text.remove_suffix(1);
  }
  if (!web || rest.empty() || rest.find_first_of("/?#@ \t,*") != std::string_view::npos) {
    return invalid_argument(
        "expected scheme and host, as in https://example.org or http://localhost:3000, or *; got {}",
        in_quotes(text));
  }
  return std::string(text);
}

Result<float> read_real(std::string_view text, const RealRange& range) {
  const auto value = parse<double>(text);
  // Judged as the float it becomes: a value may round onto an open border.
  const double rounded = value ? static_cast<double>(static_cast<float>(*value)) : 0.0;
  const bool inside = value && std::isfinite(*value) &&
                      (range.open_below ? rounded > range.least : rounded >= range.least) &&
                      (range.open_above ? rounded < range.most : rounded <= range.most);
  if (!inside) {
    return invalid_argument("expected {}, got {}", describe(range), in_quotes(text));
  }
  return static_cast<float>(*value);
}

Result<size_t> read_choice(std::string_view text, std::span<const std::string_view> choices) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  std::string list;
  for (size_t i = 0; i < choices.size(); ++i) {
    list += i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ";
    list += choices[i];
  }
  return invalid_argument("expected {}, got {}", list, in_quotes(text));
}

Result<std::pair<TokenId, float>> read_logit_bias(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return invalid_argument("expected ID=BIAS, such as 42=-inf or 42=3.5, got {}", in_quotes(text));
  }
  auto id = read_whole(text.substr(0, equals), 0, std::numeric_limits<TokenId>::max());
  if (!id.ok()) return id.status().with_context("the token id");
  const std::string_view bias = text.substr(equals + 1);
  if (bias == "-inf") {
    return std::pair(static_cast<TokenId>(*id), -std::numeric_limits<float>::infinity());
  }
  auto value = read_real(bias, {.least = -100.0, .most = 100.0});
  if (!value.ok()) return value.status().with_context("the bias (or -inf)");
  return std::pair(static_cast<TokenId>(*id), *value);
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  std::optional<std::string_view> best;
  constexpr size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return best;
  size_t best_distance = word.size() / 3 + 2;  // that far away it is another word
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    const bool alike = distance < std::max(word.size(), candidate.size());
    if (alike && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string shown(text.substr(0, kLongest));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return fmt::format("\"{}{}\"", text::to_valid_utf8(shown), text.size() > kLongest ? "..." : "");
}

}  // namespace strata::apps
