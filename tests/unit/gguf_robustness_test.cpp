// Damaged files never crash the reader, and what it accepts stays inside the file.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "../support/gguf_writer.h"
#include "format/gguf.h"

namespace strata {
namespace {

using test::GgufWriter;

std::string small_file() {
  GgufWriter w;
  w.add("general.architecture", "qwen4exp");
  w.add("general.alignment", uint32_t{32});
  w.add("qwen4exp.block_count", uint32_t{2});
  w.add("qwen4exp.rope.freq_base", 1e7f);
  w.add("flags", std::vector<bool>{true, false});
  w.add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "bc", ""});
  w.add("qwen4exp.ple.head_offsets", std::vector<uint64_t>{0, 20000003});
  w.add_tensor("token_embd.weight", {256, 2}, 14, std::string(420, 'q'));
  w.add_tensor("blk.0.ffn_down_exps.weight", {64, 4, 2}, 42, std::string(144, 'd'));
  w.add_tensor("output_norm.weight", {8}, 0, std::string(32, 'n'));
  return w.build();
}

// An exact copy on the heap, so that a sanitizer sees any read past its end.
struct Copy {
  std::unique_ptr<char[]> data;
  size_t size;
  explicit Copy(std::string_view s) : data(new char[s.size()]), size(s.size()) {
    if (size > 0) std::memcpy(data.get(), s.data(), size);
  }
  Result<GgufFile> open() const {
    return GgufFile::from_bytes({{"test.gguf", std::as_bytes(std::span(data.get(), size))}});
  }
};

// Touches all that an accepted file offers.
void exercise(const GgufFile& file) {
  unsigned sum = 0;
  for (const TensorInfo& t : file.tensors()) {
    const auto data = file.data(t);
    ASSERT_EQ(data.size(), row_bytes(t.type, t.elems()));
    sum += std::to_integer<unsigned>(data.front()) + std::to_integer<unsigned>(data.back());
    ASSERT_EQ(file.find_tensor(t.name), &t);
  }
  for (const GgufKeyValue& kv : file.key_values()) {
    for (uint64_t i = 0; i < kv.value.count(); ++i) sum += kv.value.text_at(i).size();
    (void)file.require<uint32_t>(kv.key);
    (void)file.require<std::vector<float>>(kv.key);
    (void)file.require<std::span<const std::string_view>>(kv.key);
  }
  volatile unsigned sink = sum;
  (void)sink;
}

TEST(GgufRobustness, EveryTruncationIsRefused) {
  const std::string file = small_file();
  ASSERT_TRUE(Copy(file).open().ok());
  for (size_t length = 0; length < file.size(); ++length) {
    const Copy copy(std::string_view(file).substr(0, length));
    const auto opened = copy.open();
    ASSERT_FALSE(opened.ok()) << length << " of " << file.size() << " bytes";
    ASSERT_EQ(opened.status().code(), StatusCode::kFailedPrecondition);
  }
}

TEST(GgufRobustness, RandomByteChangesNeverCrash) {
  const std::string file = small_file();
  std::mt19937 rng(11);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = file;
    const int changes = 1 + static_cast<int>(rng() % 4);
    for (int i = 0; i < changes; ++i) {
      // Mostly in the index, where it matters.
      const size_t at = rng() % (rng() % 8 == 0 ? file.size() : 640);
      damaged[at % file.size()] = static_cast<char>(rng() % 3 == 0 ? 0xFF : rng());
    }
    const Copy copy(damaged);
    const auto opened = copy.open();
    if (opened.ok()) {
      exercise(*opened);
    } else {
      EXPECT_NE(opened.status().message().find("'test.gguf'"), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000u);  // the changes did reach the checks
  EXPECT_LT(refused, 20000u);
}

TEST(GgufRobustness, RandomWordsInEveryPlaceNeverCrash) {
  const std::string file = small_file();
  const uint64_t words[] = {
      0, 1, 0x7FFFFFFF, 0xFFFFFFFF, uint64_t{1} << 60, ~uint64_t{0} >> 1, ~uint64_t{0}};
  for (size_t at = 0; at + 8 <= file.size(); ++at) {
    for (const uint64_t word : words) {
      std::string damaged = file;
      std::memcpy(damaged.data() + at, &word, sizeof word);
      const Copy copy(damaged);
      const auto opened = copy.open();
      if (opened.ok()) exercise(*opened);
    }
  }
}

}  // namespace
}  // namespace strata
