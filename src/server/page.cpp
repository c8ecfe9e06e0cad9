#include "server/page.h"

#include <array>

#include "server/page_data.h"

namespace strata::server {
namespace {

constexpr std::array<PageFile, 5> kFiles{{
    {"/", "text/html; charset=utf-8", page_data::kIndexHtml},
    {"/index.html", "text/html; charset=utf-8", page_data::kIndexHtml},
    {"/app.js", "text/javascript; charset=utf-8", page_data::kAppJs},
    {"/style.css", "text/css; charset=utf-8", page_data::kStyleCss},
    {"/icon.svg", "image/svg+xml", page_data::kIconSvg},
}};

}  // namespace

const PageFile* find_page_file(std::string_view path) {
  for (const PageFile& file : kFiles) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace strata::server
