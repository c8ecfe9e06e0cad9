#include "base/mapped_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace strata {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("strata-mapped-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  static std::string text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }

  std::filesystem::path folder_;
};

TEST_F(MappedFileTest, ShowsTheBytesOfAFile) {
  const std::string text = std::string("GGUF\0\xff", 6) + std::string(9000, 'x');
  const std::string path = write("a.gguf", text);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->path(), path);
  EXPECT_EQ(text_of(*file), text);
}

TEST_F(MappedFileTest, NamesAMissingFile) {
  const std::string path = (folder_ / "missing.gguf").string();
  const auto file = MappedFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_NE(file.status().message().find(path), std::string::npos) << file.status().message();
}

TEST_F(MappedFileTest, RefusesAFolderAndADevice) {
  for (const std::string& path : {folder_.string(), std::string("/dev/null")}) {
    const auto file = MappedFile::open(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(file.status().message().find(path), std::string::npos) << file.status().message();
  }
}

TEST_F(MappedFileTest, RefusesAPathThroughAFile) {
  const auto file = MappedFile::open(write("a", "text") + "/b");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(MappedFileTest, RefusesAFileItMayNotRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may read every file";
  const std::string path = write("secret", "text");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const auto file = MappedFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(MappedFileTest, OpensAnEmptyFileAsNoBytes) {
  auto file = MappedFile::open(write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->bytes().empty());
  file->expect_random_reads(0, 4096);
  file->prefetch(0, 1);
}

TEST_F(MappedFileTest, TakesHintsForAnyRange) {
  const std::string text(3 * 4096 + 5, 'y');
  auto file = MappedFile::open(write("a", text));
  ASSERT_TRUE(file.ok());
  const size_t beyond = std::numeric_limits<size_t>::max();
  for (const size_t offset :
       {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, text.size(), text.size() + 100000}) {
    for (const size_t length : {size_t{0}, size_t{1}, size_t{5000}, text.size(), beyond}) {
      file->expect_random_reads(offset, length);
      file->prefetch(offset, length);
    }
  }
  EXPECT_EQ(text_of(*file), text);
}

TEST_F(MappedFileTest, MovesWithItsBytes) {
  auto first = MappedFile::open(write("first", "one"));
  auto second = MappedFile::open(write("second", "two"));
  ASSERT_TRUE(first.ok() && second.ok());
  MappedFile moved(std::move(*first));
  EXPECT_EQ(text_of(moved), "one");
  EXPECT_TRUE(first->bytes().empty());
  moved = std::move(*second);
  EXPECT_EQ(text_of(moved), "two");
}

TEST_F(MappedFileTest, OutlivesItsDirectoryEntry) {
  const std::string path = write("a", "still here");
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::remove(path);
  EXPECT_EQ(text_of(*file), "still here");
}

}  // namespace
}  // namespace strata
