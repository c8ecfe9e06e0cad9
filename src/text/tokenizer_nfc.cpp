#include "text/tokenizer_nfc.h"

#include <algorithm>
#include <vector>

#include <utf8proc.h>

#include "text/utf8.h"

namespace strata::text {
namespace {

constexpr size_t kMaxDecomposition = 4;  // code points of the longest canonical decomposition

auto combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

void decompose(std::string_view text, std::vector<utf8proc_int32_t>* out) {
  out->clear();
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    at += step.length;
    const auto c = static_cast<utf8proc_int32_t>(step.code_point);
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(c, parts, kMaxDecomposition, UTF8PROC_DECOMPOSE, &boundary);
    if (count < 1 || count > static_cast<utf8proc_ssize_t>(kMaxDecomposition)) {
      out->push_back(c);
    } else {
      out->insert(out->end(), parts, parts + count);
    }
  }
}

// Puts every run of combining marks into canonical order.
void reorder_marks(std::vector<utf8proc_int32_t>* text) {
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto at = text->begin(); at != text->end();) {
    const auto begin = std::find_if(at, text->end(), is_mark);
    const auto end = std::find_if_not(begin, text->end(), is_mark);
    if (end - begin > 1) {
      std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
        return combining_class(a) < combining_class(b);
      });
    }
    at = end;
  }
}

}  // namespace

void append_nfc(std::string_view text, std::string* out) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  std::vector<utf8proc_int32_t> buffer;
  for (auto at = text.begin(); at != text.end();) {
    const auto other = std::find_if_not(at, text.end(), is_ascii);
    // An ASCII character starts a piece that nothing before it can change, and may combine with
    // the marks that follow it.
    const auto begin = other == text.end() || other == at ? other : other - 1;
    const auto end = std::find_if(other, text.end(), is_ascii);
    out->append(at, begin);
    if (begin != end) {
      decompose({begin, end}, &buffer);
      reorder_marks(&buffer);
      const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
      const auto length = utf8proc_normalize_utf32(
          buffer.data(), static_cast<utf8proc_ssize_t>(buffer.size()), options);
      for (utf8proc_ssize_t i = 0; i < length; ++i) {
        append_utf8(static_cast<char32_t>(buffer[i]), out);
      }
    }
    at = end;
  }
}

}  // namespace strata::text
