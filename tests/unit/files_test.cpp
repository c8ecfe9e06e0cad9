#include "apps/files.h"

#include <gtest/gtest.h>

namespace strata::apps {
namespace {

TEST(Terminal, TextOfAModelCannotSteerIt) {
  EXPECT_EQ(fit_for_terminal("one\ttwo\nдва 🐱"), "one\ttwo\nдва 🐱");
  EXPECT_EQ(fit_for_terminal("a\x1b[2Jb"), "a\ufffd[2Jb");
  EXPECT_EQ(fit_for_terminal("a\rb\x07\x7f"), "a\ufffdb\ufffd\ufffd");
  EXPECT_EQ(fit_for_terminal("\u009b2J"), "\ufffd2J") << "the one-byte form of ESC [";
  EXPECT_EQ(fit_for_terminal("\xff"), "\ufffd");
}

TEST(Files, ComeBackAsWrittenAndFailWithTheirName) {
  const std::string path = testing::TempDir() + "strata_files_test";
  const std::string text("a\0b\r\n\xff", 6);
  ASSERT_TRUE(write_text(path, text).ok());
  EXPECT_EQ(*read_text(path), text);
  const Status missing = read_text(path + ".missing").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find(path + ".missing"), std::string::npos);
  EXPECT_FALSE(read_text(testing::TempDir()).ok()) << "a folder";
  EXPECT_FALSE(write_text("/dev/full", "x").ok());
  EXPECT_FALSE(write_text(path + "/below", "x").ok());
}

}  // namespace
}  // namespace strata::apps
