// Renderings compared with those of Python's jinja2 (tests/data/templates/make_expected.py).
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace strata::jinja {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const fs::path kFolder = fs::path(STRATA_SOURCE_DIR) / "tests/data/templates";

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// 2026-03-05 14:07:09, the clock of make_expected.py.
constexpr std::chrono::sys_seconds kNow = std::chrono::sys_days(std::chrono::March / 5 / 2026) +
                                          std::chrono::hours(14) + std::chrono::minutes(7) +
                                          std::chrono::seconds(9);

Result<std::string> render(const std::string& source, const Json& variables) {
  auto parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.status();
  RenderOptions options;
  options.now = kNow;
  auto pieces = parsed->render(variables, options);
  if (!pieces.ok()) return pieces.status();
  std::string text;
  for (std::size_t i = 0; i < pieces->size(); ++i) {
    const Piece& piece = (*pieces)[i];
    EXPECT_FALSE(piece.text.empty());
    if (i > 0) {
      EXPECT_NE(piece.from_template, (*pieces)[i - 1].from_template);
    }
    text += piece.text;
  }
  return text;
}

TEST(JinjaReference, EveryExpressionAndBlockRendersOrFailsLikeTheReference) {
  const Json context = Json::parse(read_file(kFolder / "context.json"));
  const Json snippets = Json::parse(read_file(kFolder / "expressions.json"));
  ASSERT_GE(snippets.size(), 1000u);
  for (const Json& snippet : snippets) {
    const auto source = snippet["template"].get<std::string>();
    const auto text = render(source, context);
    if (snippet["text"].is_null()) {
      EXPECT_FALSE(text.ok()) << source << "\nmust fail, but rendered:\n" << *text;
    } else {
      ASSERT_TRUE(text.ok() || !text.status().message().empty());
      EXPECT_TRUE(text.ok()) << source << "\nfailed: " << text.status().message();
      if (text.ok()) {
        EXPECT_EQ(*text, snippet["text"].get<std::string>()) << source;
      }
    }
  }
}

TEST(JinjaReference, EveryTemplateShapeRendersLikeTheReference) {
  int cases_seen = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".jinja") continue;
    fs::path cases_path = entry.path();
    cases_path.replace_extension(".cases.json");
    const std::string source = read_file(entry.path());
    for (const Json& test_case : Json::parse(read_file(cases_path))) {
      ++cases_seen;
      SCOPED_TRACE(entry.path().filename().string() + ": " + test_case["what"].get<std::string>());
      const auto text = render(source, test_case["variables"]);
      if (test_case.contains("error")) {
        ASSERT_FALSE(text.ok());
        EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
        EXPECT_EQ(text.status().message(), test_case["error"].get<std::string>());
      } else {
        ASSERT_TRUE(text.ok()) << text.status().message();
        EXPECT_EQ(*text, test_case["text"].get<std::string>());
      }
    }
  }
  EXPECT_GE(cases_seen, 40);
}

}  // namespace
}  // namespace strata::jinja
