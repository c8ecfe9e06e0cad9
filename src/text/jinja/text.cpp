#include "text/jinja/text.h"

#include <algorithm>

#include "text/jinja/failure.h"

namespace strata::jinja {

std::size_t Text::next_flip(std::size_t pos) const {
  return static_cast<std::size_t>(std::upper_bound(flips_.begin(), flips_.end(), pos) -
                                  flips_.begin());
}

bool Text::trusted_at(std::size_t pos) const { return first_trusted_ != (next_flip(pos) % 2 == 1); }

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes.size() > kMaxTextBytes - std::min(bytes_.size(), kMaxTextBytes)) {
    fail_limit("a string grew beyond {} MiB", kMaxTextBytes >> 20);
  }
  if (bytes_.empty()) {
    first_trusted_ = trusted;
  } else if ((first_trusted_ != (flips_.size() % 2 == 1)) != trusted) {
    flips_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  if (&other == this) {
    const Text copy = other;
    append(copy, begin, end);
    return;
  }
  other.for_each_run(begin, end,
                     [this](std::string_view run, bool trusted) { append(run, trusted); });
}

void Text::append(const Text& other) { append(other, 0, other.size()); }

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

}  // namespace strata::jinja
