// A Unicode string that remembers, byte range by byte range, whether it was written by the template
// (trusted) or came with the request (untrusted). User text must never become a control token, so
// the tokenizer looks for control tokens in trusted ranges only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace strata::jinja {

// No single string may grow beyond this; building a longer one throws a kLimit Failure.
inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)), first_trusted_(trusted) {}

  std::string_view view() const { return bytes_; }
  const std::string& str() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Bytes this object occupies, for the memory limit.
  std::size_t footprint() const {
    return sizeof(Text) + bytes_.size() + flips_.size() * sizeof(std::size_t);
  }

  bool trusted_at(std::size_t pos) const;
  bool fully_trusted() const { return empty() || (first_trusted_ && flips_.empty()); }

  void append(std::string_view bytes, bool trusted);
  void append(const Text& other);
  // Bytes [begin, end) of `other`.
  void append(const Text& other, std::size_t begin, std::size_t end);
  // Bytes [begin, end).
  Text slice(std::size_t begin, std::size_t end) const;
  Text slice(std::size_t begin) const { return slice(begin, size()); }

  // Calls visit(std::string_view run, bool trusted) for every maximal run in [begin, end).
  template <class Visitor>
  void for_each_run(std::size_t begin, std::size_t end, Visitor&& visit) const;
  template <class Visitor>
  void for_each_run(Visitor&& visit) const {
    for_each_run(0, size(), visit);
  }

 private:
  // Index of the first flip after `pos`.
  std::size_t next_flip(std::size_t pos) const;

  std::string bytes_;
  bool first_trusted_ = true;
  std::vector<std::size_t> flips_;  // ascending offsets at which the provenance changes
};

template <class Visitor>
void Text::for_each_run(std::size_t begin, std::size_t end, Visitor&& visit) const {
  std::size_t flip = next_flip(begin);
  bool trusted = first_trusted_ != (flip % 2 == 1);
  const std::string_view all = bytes_;
  while (begin < end) {
    std::size_t stop = flip < flips_.size() ? flips_[flip] : all.size();
    if (stop > end) stop = end;
    visit(all.substr(begin, stop - begin), trusted);
    begin = stop;
    trusted = !trusted;
    ++flip;
  }
}

}  // namespace strata::jinja
