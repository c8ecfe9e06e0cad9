// Models in several shards, on disk.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include <unistd.h>

#include "../support/gguf_writer.h"
#include "format/gguf.h"

namespace strata {
namespace {

using test::GgufWriter;

class GgufSplit : public testing::Test {
 protected:
  GgufSplit() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("strata-split-" + std::string(test->name()) + "-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    for (size_t i = 0; i < 3; ++i) {
      shards_[i].add_split(static_cast<uint16_t>(i), 3, 2);
    }
    // Like published models: metadata alone in the first shard.
    shards_[0].add("general.architecture", "qwen4exp");
    shards_[0].add("qwen4exp.block_count", uint32_t{48});
    shards_[1].add_tensor("x", {8}, 0, std::string(32, 'x'));
    shards_[2].add_tensor("y", {8}, 0, std::string(32, 'y'));
  }
  ~GgufSplit() override { std::filesystem::remove_all(folder_); }

  std::string path(int number, int count = 3) const {
    char name[64];
    std::snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", number, count);
    return (folder_ / name).string();
  }
  void write() {
    for (int i = 0; i < 3; ++i) shards_[i].write(path(i + 1));
  }
  void expect_refused(const std::vector<std::string>& says,
                      StatusCode code = StatusCode::kFailedPrecondition, int through = 1) {
    const auto file = GgufFile::open(path(through));
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), code);
    for (const std::string& words : says) {
      EXPECT_NE(file.status().message().find(words), std::string::npos)
          << file.status().message() << " lacks " << words;
    }
  }

  std::filesystem::path folder_;
  GgufWriter shards_[3];
};

TEST_F(GgufSplit, OpensThroughAnyShard) {
  write();
  for (int through = 1; through <= 3; ++through) {
    const auto file = GgufFile::open(path(through));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->path(), path(through));
    ASSERT_EQ(file->shards().size(), 3u);
    EXPECT_EQ(file->shards()[0].tensor_count, 0u);
    EXPECT_EQ(file->shards()[2].path, path(3));
    EXPECT_EQ(*file->require<uint32_t>("qwen4exp.block_count"), 48u);
    ASSERT_EQ(file->tensors().size(), 2u);
    const TensorInfo* y = file->find_tensor("y");
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(y->shard, 2u);
    EXPECT_EQ(static_cast<char>(file->data(*y)[31]), 'y');
    EXPECT_EQ(file->mapping(1)->path(), path(2));
  }
}

TEST_F(GgufSplit, AcceptsRepeatedKeysOfEqualValue) {
  shards_[2].add("general.architecture", "qwen4exp");
  shards_[2].add("general.name", "table only");
  shards_[0].add("general.name", "model");
  write();
  const auto file = GgufFile::open(path(1));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(*file->require<std::string_view>("general.name"), "model");
  EXPECT_EQ(file->key_values().size(), 6u);
}

TEST_F(GgufSplit, NamesTheMissingShards) {
  write();
  std::filesystem::remove(path(1));
  std::filesystem::remove(path(3));
  expect_refused({"2 of them are missing", path(1), path(3)}, StatusCode::kNotFound, 2);
}

TEST_F(GgufSplit, RefusesARenamedShard) {
  write();
  std::filesystem::rename(path(1), folder_ / "model.gguf");
  const auto file = GgufFile::open((folder_ / "model.gguf").string());
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("must end in '-00001-of-00003.gguf'"), std::string::npos)
      << file.status().message();
}

TEST_F(GgufSplit, RefusesARepeatedShard) {
  write();
  std::filesystem::copy_file(path(2), path(3), std::filesystem::copy_options::overwrite_existing);
  expect_refused({path(3), "says that it is shard 2 of 3, but shard 3 is expected"});
}

TEST_F(GgufSplit, RefusesAShardThatIsNoPartOfASplit) {
  GgufWriter lone;
  lone.add_tensor("y", {8}, 0, std::string(32, 'y'));
  shards_[2] = lone;
  write();
  expect_refused({path(3), "says that it is one of 1 shards, but the model has 3"});
}

TEST_F(GgufSplit, RefusesAShardOfAnotherSplit) {
  GgufWriter other;
  other.add_split(2, 4, 2);
  other.add_tensor("y", {8}, 0, std::string(32, 'y'));
  shards_[2] = other;
  write();
  expect_refused({path(3), "says that it is one of 4 shards, but the model has 3"});
}

TEST_F(GgufSplit, RefusesDisagreeingTensorTotals) {
  GgufWriter other;
  other.add_split(2, 3, 9);
  other.add_tensor("y", {8}, 0, std::string(32, 'y'));
  shards_[2] = other;
  write();
  expect_refused({"'split.tensors.count' is 2", "but 9 in", path(3)});
}

TEST_F(GgufSplit, RefusesATensorTotalThatIsNotWhatTheShardsHold) {
  shards_[1].add_tensor("z", {8}, 0, std::string(32, 'z'));
  write();
  expect_refused({"announces 2 tensors, but the 3 shards hold 3"});
}

TEST_F(GgufSplit, RefusesATensorInTwoShards) {
  shards_[2].tensors[0].name = "x";
  write();
  expect_refused({"tensor 'x' appears twice", path(2), path(3)});
}

TEST_F(GgufSplit, RefusesContradictingKeys) {
  shards_[2].add("qwen4exp.block_count", uint32_t{49});
  write();
  expect_refused({"key 'qwen4exp.block_count' has different values", path(1), path(3)});
}

TEST_F(GgufSplit, NamesTheShardThatIsTruncated) {
  write();
  std::filesystem::resize_file(path(2), std::filesystem::file_size(path(2)) - 3);
  expect_refused({path(2), "3 bytes are missing"}, StatusCode::kFailedPrecondition, 3);
}

TEST_F(GgufSplit, ResolvesId42OverAllShards) {
  shards_[1].tensors.clear();
  shards_[1].add_tensor("small", {128}, 42, std::string(34, 's'));
  shards_[2].tensors.clear();
  shards_[2].add_tensor("large", {4096}, 42, std::string(1088, 'l'));
  write();
  const auto file = GgufFile::open(path(1));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->find_tensor("small")->type, QuantType::kQ2_0_G128);
}

TEST(GgufOpen, SaysWhatIsWrongWithThePath) {
  const auto missing = GgufFile::open("/no/such/model.gguf");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/no/such/model.gguf"), std::string::npos);
  EXPECT_FALSE(GgufFile::open("/").ok());
  EXPECT_FALSE(GgufFile::from_bytes({}).ok());
}

}  // namespace
}  // namespace strata
