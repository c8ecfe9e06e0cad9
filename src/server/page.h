// The chat page's files, embedded at build time.
#pragma once

#include <string_view>

namespace strata::server {

struct PageFile {
  std::string_view path;  // "/app.js"
  const char* content_type;
  std::string_view bytes;
};

// The file served at `path` ("/" is the page itself), or nullptr.
const PageFile* find_page_file(std::string_view path);

}  // namespace strata::server
