// Whole files and standard streams as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace strata::apps {

inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

// The content of the file at `path`, or of standard input for "-". Fails with a sentence that names
// the file, also when there are more than kMaxTextBytes.
Result<std::string> read_text(const std::string& path);

// Replaces the file at `path`. Fails with a sentence that names the file.
Status write_text(const std::string& path, std::string_view text);

// Writes to standard output at once; false when it is gone (a closed pipe, a full disk).
bool write_out(std::string_view text);

// One line to standard error, after "strata: ".
void complain(std::string_view message);

bool is_terminal(int descriptor);

// `text` without the control characters that could steer a terminal; line feeds and tabs stay.
std::string fit_for_terminal(std::string_view text);

}  // namespace strata::apps
