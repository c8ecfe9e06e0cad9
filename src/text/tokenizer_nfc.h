// Unicode normalisation form C, as the original tokenizer applies it between added tokens.
#pragma once

#include <string>
#include <string_view>

namespace strata::text {

// Appends the NFC form of well-formed UTF-8 to `out`. O(n log n) whatever the input: a run of n
// combining marks is sorted, not bubbled. Unicode data: utf8proc's. Thread-safe.
void append_nfc(std::string_view valid_utf8, std::string* out);

}  // namespace strata::text
