// Reading well-formed files: the models of the repository and small ones built here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "../support/gguf_writer.h"
#include "../support/shared_material.h"
#include "format/gguf.h"

namespace strata {
namespace {

using test::GgufWriter;

const std::string kTiny =
    std::string(STRATA_SOURCE_DIR) + "/models/tiny/strata-tiny-IQ-mix-mtp.gguf";

// Owns the bytes that the file points into.
struct InMemory {
  std::string bytes;
  Result<GgufFile> file;
  explicit InMemory(std::string b) : bytes(std::move(b)), file(open()) {}
  Result<GgufFile> open() {
    return GgufFile::from_bytes({{"test.gguf", std::as_bytes(std::span(bytes))}});
  }
};

template <class T>
void expect_value(const GgufFile& file, const char* key, const T& expected) {
  const auto value = file.require<T>(key);
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(*value, expected) << key;
}

// Expected values: read from the file with an independent parser.
TEST(Gguf, ReadsTheTinyModel) {
  const auto file = GgufFile::open(kTiny);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors().size(), 246u);
  EXPECT_EQ(file->key_values().size(), 59u);
  ASSERT_EQ(file->shards().size(), 1u);
  EXPECT_EQ(file->shards()[0].bytes, 17953696u);
  EXPECT_EQ(file->shards()[0].version, 3u);
  EXPECT_EQ(file->shards()[0].alignment, 32u);

  expect_value<std::string_view>(*file, "general.architecture", "qwen4exp");
  expect_value<uint32_t>(*file, "qwen4exp.block_count", 9u);
  expect_value<float>(*file, "qwen4exp.rope.freq_base", 1e7f);
  expect_value<float>(*file, "qwen4exp.attention.layer_norm_rms_epsilon", 1e-6f);
  expect_value<std::vector<int32_t>>(*file, "qwen4exp.rope.dimension_sections", {11, 11, 10, 0});
  expect_value<std::vector<uint64_t>>(*file, "qwen4exp.ple.layer_multipliers",
                                      {2043359076095531, 1677619451946387, 1270917961443223});
  expect_value<bool>(*file, "tokenizer.ggml.add_bos_token", false);
  const auto tokens = file->require<std::span<const std::string_view>>("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->size(), 4096u);
  EXPECT_EQ((*tokens)[0], "!");
  const auto merges = file->require<std::span<const std::string_view>>("tokenizer.ggml.merges");
  ASSERT_TRUE(merges.ok());
  EXPECT_EQ(merges->size(), 3826u);
  EXPECT_EQ((*merges)[2], "h e");

  struct Expected {
    const char* name;
    std::vector<int64_t> shape;
    QuantType type;
    uint64_t offset;
  };
  const Expected expected[] = {
      {"output.weight", {256, 4096}, QuantType::kQ6_K, 155424},
      {"token_embd.weight", {256, 4096}, QuantType::kIQ4_XS, 1443360},
      {"per_layer_token_embd.weight", {32, 16256}, QuantType::kIQ4_NL, 1150752},
      {"output_hc_norm.weight", {1024}, QuantType::kF32, 1081120},
      {"blk.0.ffn_gate_exps.weight", {256, 64, 32}, QuantType::kIQ2_XS, 2635296},
      {"blk.1.ffn_up_exps.weight", {256, 64, 32}, QuantType::kIQ3_XXS, 4309088},
      {"blk.1.ple_conv1d.weight", {4, 1024}, QuantType::kF16, 4813920},
      {"blk.0.ssm_alpha.weight", {256, 4}, QuantType::kBF16, 3293760},
      {"blk.8.nextn.eh_proj.weight", {512, 256}, QuantType::kQ8_0, 17740704},
  };
  for (const Expected& e : expected) {
    const TensorInfo* t = file->find_tensor(e.name);
    ASSERT_NE(t, nullptr) << e.name;
    EXPECT_EQ(t->shape, e.shape) << e.name;
    EXPECT_EQ(t->type, e.type) << e.name;
    EXPECT_EQ(t->offset, e.offset) << e.name;
    EXPECT_EQ(t->bytes, row_bytes(t->type, t->elems())) << e.name;
    EXPECT_EQ(file->data(*t).size(), t->bytes) << e.name;
  }
  EXPECT_EQ(file->tensors().front().name, "output.weight");
  EXPECT_EQ(file->find_tensor("blk.8.attn_qkv.weight"), nullptr);
  ASSERT_NE(file->mapping(0), nullptr);
  EXPECT_EQ(file->mapping(0)->path(), kTiny);
}

TEST(Gguf, FindsEveryTensorAndKeyByItsName) {
  const auto file = GgufFile::open(kTiny);
  ASSERT_TRUE(file.ok());
  for (const TensorInfo& t : file->tensors()) EXPECT_EQ(file->find_tensor(t.name), &t) << t.name;
  for (const GgufKeyValue& kv : file->key_values()) {
    EXPECT_EQ(file->find_value(kv.key), &kv.value) << kv.key;
  }
}

TEST(Gguf, CopiesTensorsToMemory) {
  auto file = GgufFile::open(kTiny);
  ASSERT_TRUE(file.ok());
  const auto original = GgufFile::open(kTiny);
  ASSERT_TRUE(original.ok());
  std::vector<const TensorInfo*> wanted;
  for (size_t i = 0; i < file->tensors().size(); i += 2) wanted.push_back(&file->tensors()[i]);
  const auto mapped = file->data(*wanted[1]);
  uint64_t bytes = 0, reported = 0;
  for (const TensorInfo* t : wanted) bytes += t->bytes;
  ASSERT_TRUE(file->copy_to_memory(wanted, [&](uint64_t done) { reported = done; }).ok());
  EXPECT_EQ(reported, bytes);
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const TensorInfo& t = file->tensors()[i];
    const auto data = file->data(t), want = original->data(original->tensors()[i]);
    EXPECT_TRUE(std::ranges::equal(data, want)) << t.name;
    const std::byte* begin = file->mapping(t.shard)->bytes().data();
    const bool in_mapping = data.data() >= begin && data.data() < begin + 17953696;
    EXPECT_EQ(in_mapping, i % 2 == 1) << t.name;
    if (!in_mapping) EXPECT_EQ(reinterpret_cast<uintptr_t>(data.data()) % 64, 0u) << t.name;
  }
  EXPECT_TRUE(std::ranges::equal(mapped, original->data(*original->find_tensor(wanted[1]->name))));
  const std::byte* copy = file->data(*wanted[1]).data();
  ASSERT_TRUE(file->copy_to_memory(wanted, [](uint64_t) { ADD_FAILURE() << "copied again"; }).ok());
  EXPECT_EQ(file->data(*wanted[1]).data(), copy);
}

TEST(Gguf, ReadsTheVisionSidecar) {
  const auto file =
      GgufFile::open(std::string(STRATA_SOURCE_DIR) + "/models/tiny/mmproj-strata-tiny-f32.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors().size(), 34u);
  EXPECT_EQ(file->find_tensor("v.patch_embd.weight")->shape, (std::vector<int64_t>{16, 16, 3, 64}));
  expect_value<std::vector<float>>(*file, "clip.vision.image_mean", {0.5f, 0.5f, 0.5f});
}

TEST(Gguf, OpensASplitModelThroughEitherShard) {
  const std::string folder = test::shared_material();
  if (folder.empty()) GTEST_SKIP() << "needs the split tiny model of the extra test material";
  for (const char* shard : {"00001", "00002"}) {
    const auto file =
        GgufFile::open(folder + "/tiny-model/strata-tiny-IQ-mix-" + shard + "-of-00002.gguf");
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_EQ(file->shards().size(), 2u);
    EXPECT_EQ(file->tensors().size(), 214u);
    EXPECT_EQ(file->shards()[1].tensor_count, 1u);
    expect_value<uint32_t>(*file, "qwen4exp.block_count", 8u);
    const TensorInfo* table = file->find_tensor("per_layer_token_embd.weight");
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->shard, 1u);
    EXPECT_EQ(table->offset, 192u);
    EXPECT_EQ(table->bytes, 292608u);
    EXPECT_NE(file->find_tensor("output.weight"), nullptr);
    EXPECT_EQ(file->find_tensor("output.weight")->shard, 0u);
  }
}

TEST(Gguf, ReadsEveryOtherTinyModelFile) {
  const std::string folder = test::shared_material();
  if (folder.empty()) GTEST_SKIP() << "needs the tiny model files of the extra test material";
  size_t opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/tiny-model")) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::open(entry.path().string());
    EXPECT_TRUE(file.ok()) << file.status().message();
    ++opened;
  }
  EXPECT_GE(opened, 8u);
}

GgufWriter all_kinds() {
  GgufWriter w;
  w.add("u8", uint8_t{200});
  w.add("i8", int8_t{-5});
  w.add("u16", uint16_t{65535});
  w.add("i16", int16_t{-300});
  w.add("u32", uint32_t{4000000000u});
  w.add("i32", int32_t{-7});
  w.add("f32", 0.25f);
  w.add("bool", true);
  w.add("string", "text");
  w.add("u64", uint64_t{1} << 63);
  w.add("i64", std::numeric_limits<int64_t>::min());
  w.add("f64", 1e300);
  w.add("nan", std::nanf(""));
  w.add("array.u8", std::vector<uint8_t>{1, 2, 255});
  w.add("array.i16", std::vector<int16_t>{1, -2, 3});
  w.add("array.bool", std::vector<bool>{true, false});
  w.add("array.f64", std::vector<double>{0.5, -2.0});
  w.add("array.empty", std::vector<float>{});
  w.add("array.string", std::vector<std::string>{"", "b", std::string("\0x", 2)});
  return w;
}

TEST(Gguf, ConvertsEveryValueTypeWithItsRangeChecked) {
  const InMemory memory(all_kinds().build());
  ASSERT_TRUE(memory.file.ok()) << memory.file.status().message();
  const GgufFile& f = *memory.file;
  expect_value<uint32_t>(f, "u8", 200u);
  expect_value<int32_t>(f, "i8", -5);
  expect_value<int32_t>(f, "u16", 65535);
  expect_value<int64_t>(f, "i16", -300);
  expect_value<uint32_t>(f, "u32", 4000000000u);
  expect_value<int32_t>(f, "i32", -7);
  expect_value<float>(f, "i32", -7.0f);
  expect_value<float>(f, "f32", 0.25f);
  expect_value<double>(f, "f64", 1e300);
  expect_value<bool>(f, "bool", true);
  expect_value<uint32_t>(f, "bool", 1u);
  expect_value<std::string_view>(f, "string", "text");
  expect_value<uint64_t>(f, "u64", uint64_t{1} << 63);
  expect_value<int64_t>(f, "i64", std::numeric_limits<int64_t>::min());
  expect_value<std::vector<uint32_t>>(f, "array.u8", {1, 2, 255});
  expect_value<std::vector<int64_t>>(f, "array.i16", {1, -2, 3});
  expect_value<std::vector<uint32_t>>(f, "array.bool", {1, 0});
  expect_value<std::vector<float>>(f, "array.f64", {0.5f, -2.0f});
  EXPECT_TRUE(f.require<std::vector<float>>("array.empty")->empty());
  const auto strings = *f.require<std::span<const std::string_view>>("array.string");
  ASSERT_EQ(strings.size(), 3u);
  EXPECT_EQ(strings[0], "");
  EXPECT_EQ(strings[2], std::string_view("\0x", 2));
  EXPECT_EQ(f.find_value("array.u8")->type_name(), "array of 3 u8s");
  EXPECT_EQ(f.find_value("i64")->text_at(0), "-9223372036854775808");
}

template <class T>
void expect_refused(const GgufFile& f, const char* key, const char* found) {
  const auto value = f.require<T>(key);
  ASSERT_FALSE(value.ok()) << key;
  EXPECT_EQ(value.status().code(), StatusCode::kFailedPrecondition);
  const std::string message = value.status().message();
  EXPECT_NE(message.find("'test.gguf': metadata key '" + std::string(key) + "'"), std::string::npos)
      << message;
  EXPECT_NE(message.find(found), std::string::npos) << message;
  EXPECT_FALSE(f.find<T>(key).ok());
}

TEST(Gguf, RefusesAValueOutOfRangeOrOfTheWrongKind) {
  const InMemory memory(all_kinds().build());
  ASSERT_TRUE(memory.file.ok());
  const GgufFile& f = *memory.file;
  expect_refused<uint32_t>(f, "i8", "an integer from 0 to 4294967295, but is -5 (i8)");
  expect_refused<int32_t>(f, "u32", "but is 4000000000 (u32)");
  expect_refused<uint32_t>(f, "u64", "but is 9223372036854775808 (u64)");
  expect_refused<int64_t>(f, "u64", "but is 9223372036854775808 (u64)");
  expect_refused<int32_t>(f, "i64", "but is -9223372036854775808 (i64)");
  expect_refused<uint32_t>(f, "f32", "but is 0.25 (f32)");
  expect_refused<float>(f, "f64", "a finite number, but is 1e+300 (f64)");
  expect_refused<float>(f, "nan", "a finite number, but is nan (f32)");
  expect_refused<float>(f, "bool", "but is true (bool)");
  expect_refused<bool>(f, "u8", "a bool, but is 200 (u8)");
  expect_refused<bool>(f, "f32", "a bool, but is 0.25 (f32)");
  expect_refused<uint32_t>(f, "string", "but is string");
  expect_refused<std::string_view>(f, "u8", "a string, but is u8");
  expect_refused<uint32_t>(f, "array.u8", "but is array of 3 u8s");
  expect_refused<std::vector<uint32_t>>(f, "u8", "an array whose elements");
  expect_refused<std::vector<uint32_t>>(f, "array.i16", "element 1 is -2 (i16)");
  expect_refused<std::vector<uint32_t>>(f, "array.string", "but is array of 3 strings");
  expect_refused<std::span<const std::string_view>>(f, "array.u8", "an array of strings");
}

TEST(Gguf, TellsAMissingKeyFromAnOptionalOne) {
  const InMemory memory(all_kinds().build());
  ASSERT_TRUE(memory.file.ok());
  const auto required = memory.file->require<uint32_t>("no.such.key");
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.status().message(), "'test.gguf': metadata key 'no.such.key' is missing");
  const auto optional = memory.file->find<uint32_t>("no.such.key");
  ASSERT_TRUE(optional.ok());
  EXPECT_FALSE(optional->has_value());
  EXPECT_EQ(*memory.file->find<uint32_t>("u8").value(), 200u);
}

TEST(Gguf, ReadsVersion2AndOtherAlignments) {
  GgufWriter w;
  w.version = 2;
  w.alignment = 256;
  w.add("general.alignment", uint32_t{256});
  w.add_tensor("a", {3}, 0, std::string(12, 'a'));
  w.add_tensor("b", {2, 2}, 30, std::string(8, 'b'));
  const InMemory memory(w.build());
  ASSERT_TRUE(memory.file.ok()) << memory.file.status().message();
  EXPECT_EQ(memory.file->shards()[0].version, 2u);
  const TensorInfo* b = memory.file->find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->offset % 256, 0u);
  EXPECT_EQ(static_cast<char>(memory.file->data(*b)[7]), 'b');
  EXPECT_EQ(b->rows(), 2);
  EXPECT_EQ(b->shape_text(), "[2, 2]");
}

TEST(Gguf, ReadsTensorsWhoseTableIsNotInFileOrder) {
  GgufWriter w;
  w.add_tensor("second", {8}, 0, std::string(32, '2')).offset = 32;
  w.add_tensor("first", {8}, 0, std::string(32, '1')).offset = 0;
  std::string file = w.build();
  std::swap_ranges(file.end() - 64, file.end() - 32, file.end() - 32);
  const InMemory memory(file);
  ASSERT_TRUE(memory.file.ok()) << memory.file.status().message();
  EXPECT_EQ(memory.file->tensors()[0].name, "second");
  EXPECT_EQ(static_cast<char>(memory.file->data(memory.file->tensors()[0])[0]), '2');
  EXPECT_EQ(static_cast<char>(memory.file->data(memory.file->tensors()[1])[0]), '1');
}

TEST(Gguf, TakesAQuarterMillionTokensInStride) {
  std::vector<std::string> tokens(250000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = "token" + std::to_string(i);
  GgufWriter w;
  w.add("tokenizer.ggml.tokens", tokens);
  w.add("tokenizer.ggml.scores", std::vector<float>(250000, 0.5f));
  const InMemory memory(w.build());
  ASSERT_TRUE(memory.file.ok()) << memory.file.status().message();
  const auto read =
      *memory.file->require<std::span<const std::string_view>>("tokenizer.ggml.tokens");
  EXPECT_EQ(read[249999], "token249999");
}

std::string pattern(size_t bytes) { return std::string(bytes, 'x'); }

TEST(GgufId42, DecidesBetweenTheTwoBlocksByTheDistance) {
  // 1024 elements: 288 bytes as Q2_0, 272 (padded 288) as Q2_0_G128; 4096: 1152 or 1088.
  GgufWriter standard;
  standard.add_tensor("w", {4096}, 42, pattern(1152));
  standard.add_tensor("tail", {8}, 0, pattern(32));
  const InMemory a(standard.build());
  ASSERT_TRUE(a.file.ok()) << a.file.status().message();
  EXPECT_EQ(a.file->find_tensor("w")->type, QuantType::kQ2_0);
  EXPECT_EQ(a.file->find_tensor("w")->bytes, 1152u);

  GgufWriter fork;
  fork.add_tensor("w", {4096}, 42, pattern(1088));
  fork.add_tensor("tail", {8}, 0, pattern(32));
  const InMemory b(fork.build());
  ASSERT_TRUE(b.file.ok()) << b.file.status().message();
  EXPECT_EQ(b.file->find_tensor("w")->type, QuantType::kQ2_0_G128);
  EXPECT_EQ(b.file->find_tensor("w")->bytes, 1088u);
}

TEST(GgufId42, UsesTheFileEndForTheLastTensorPaddedOrNot) {
  for (const bool pad : {true, false}) {
    for (const bool fork : {true, false}) {
      GgufWriter w;
      w.pad_last = pad;
      // 1152 elements: 324 bytes as Q2_0, 306 as the fork's.
      w.add_tensor("w", {384, 3}, 42, pattern(fork ? 306 : 324));
      const InMemory memory(w.build());
      ASSERT_TRUE(memory.file.ok()) << memory.file.status().message();
      EXPECT_EQ(memory.file->tensors()[0].type, fork ? QuantType::kQ2_0_G128 : QuantType::kQ2_0);
    }
  }
}

TEST(GgufId42, LetsTensorsThatFitBothWaysFollowTheOthers) {
  // 128 elements pad to 64 bytes either way.
  for (const bool fork : {true, false}) {
    GgufWriter w;
    w.add_tensor("small", {128}, 42, pattern(fork ? 34 : 36));
    w.add_tensor("large", {4096}, 42, pattern(fork ? 1088 : 1152));
    w.add_tensor("tail", {8}, 0, pattern(32));
    const InMemory memory(w.build());
    ASSERT_TRUE(memory.file.ok()) << memory.file.status().message();
    EXPECT_EQ(memory.file->find_tensor("small")->type,
              fork ? QuantType::kQ2_0_G128 : QuantType::kQ2_0);
  }
  GgufWriter alone;
  alone.add_tensor("small", {128}, 42, pattern(36));
  alone.add_tensor("half", {64, 2}, 42, pattern(36));  // rows of half a G128 block
  alone.add_tensor("tail", {8}, 0, pattern(32));
  const InMemory memory(alone.build());
  ASSERT_TRUE(memory.file.ok());
  EXPECT_EQ(memory.file->find_tensor("small")->type, QuantType::kQ2_0);
  EXPECT_EQ(memory.file->find_tensor("half")->type, QuantType::kQ2_0);
}

}  // namespace
}  // namespace strata
