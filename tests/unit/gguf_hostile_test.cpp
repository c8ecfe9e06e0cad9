// One broken file per row, each with the words that its refusal must contain.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "../support/gguf_writer.h"
#include "format/gguf.h"

namespace strata {
namespace {

using test::GgufWriter;
using Tensors = std::vector<GgufWriter::Tensor>;

constexpr uint64_t kHuge = uint64_t{1} << 60;

// Two F32 tensors of 32 bytes, one Q8_0 of two rows.
GgufWriter sound() {
  GgufWriter w;
  w.add("general.architecture", "qwen4exp");
  w.add("general.alignment", uint32_t{32});
  w.add_tensor("a", {8}, 0, std::string(32, 'a'));
  w.add_tensor("b", {4, 2}, 0, std::string(32, 'b'));
  w.add_tensor("c", {32, 2}, 8, std::string(68, 'c'));
  return w;
}

std::string u32(uint32_t v) { return GgufWriter::bytes(v); }
std::string u64(uint64_t v) { return GgufWriter::bytes(v); }
std::string text(std::string_view s) { return GgufWriter::string_bytes(s); }

struct Row {
  const char* name;
  std::function<std::string()> file;
  std::vector<const char*> says;
};

// A row that changes the writer before building.
Row edit(const char* name, std::function<void(GgufWriter&)> change, std::vector<const char*> says) {
  return {name,
          [change] {
            GgufWriter w = sound();
            change(w);
            return w.build();
          },
          std::move(says)};
}

// A row that changes the built bytes.
Row patch(const char* name, std::function<void(std::string&)> change,
          std::vector<const char*> says) {
  return {name,
          [change] {
            std::string file = sound().build();
            change(file);
            return file;
          },
          std::move(says)};
}

Row alignment(const char* name, uint32_t value, std::vector<const char*> says) {
  return {name,
          [value] {
            GgufWriter w;
            w.add("general.alignment", value);
            return w.build();
          },
          std::move(says)};
}

std::vector<Row> header_rows() {
  return {
      {"empty file", [] { return std::string(); }, {"the magic number", "truncated"}},
      {"three bytes", [] { return std::string("GGU"); }, {"the magic number"}},
      {"magic only", [] { return std::string("GGUF"); }, {"the version number"}},
      patch("another format", [](std::string& f) { f[0] = 'P'; },
            {"not a GGUF file", "50 47 55 46"}),
      patch("magic reversed", [](std::string& f) { f.replace(0, 4, "FUGG"); }, {"big-endian"}),
      edit("version swapped", [](GgufWriter& w) { w.version = 3u << 24; }, {"big-endian"}),
      edit("version 0", [](GgufWriter& w) { w.version = 0; }, {"version 0 is not supported"}),
      edit("version 1", [](GgufWriter& w) { w.version = 1; },
           {"version 1 is not supported", "convert"}),
      edit("version 4", [](GgufWriter& w) { w.version = 4; }, {"version 4 is not supported"}),
      edit("huge key count", [](GgufWriter& w) { w.key_count = kHuge; },
           {"announces 1152921504606846976 keys", "fetch it again"}),
      edit("huge tensor count", [](GgufWriter& w) { w.tensor_count = kHuge; },
           {"announces 1152921504606846976 tensors"}),
      edit("all-ones tensor count", [](GgufWriter& w) { w.tensor_count = ~uint64_t{0}; },
           {"announces 18446744073709551615 tensors"}),
      edit("one key too few", [](GgufWriter& w) { w.key_count = 1; }, {"'test.gguf'"}),
      edit("one tensor too many", [](GgufWriter& w) { w.tensor_count = 4; }, {"'test.gguf'"}),
      {"many keys",
       [] {
         GgufWriter w;
         w.key_count = (1u << 18) + 1;
         return w.build() + std::string(((1u << 18) + 1) * 14, '\0');
       },
       {"262145 keys", "at most 262144"}},
  };
}

std::vector<Row> key_rows() {
  return {
      {"key name past the end",
       [] {
         GgufWriter w;
         w.key_count = 1;
         w.alignment = 1;
         return w.build() + u64(kHuge) + std::string(40, 'k');
       },
       {"the name of key 0", "'test.gguf'"}},
      edit("empty key", [](GgufWriter& w) { w.add("", uint32_t{1}); }, {"key 2 has an empty name"}),
      edit("long key", [](GgufWriter& w) { w.add(std::string(65536, 'k'), uint32_t{1}); },
           {"65536 bytes long", "more than 65535"}),
      edit("unknown value type", [](GgufWriter& w) { w.add_raw("k", 13, "12345678"); },
           {"key 'k' has value type 13, known are 0 to 12"}),
      edit("string past the end", [](GgufWriter& w) { w.add_raw("k", 8, u64(kHuge)); },
           {"the value of key 'k'", "missing"}),
      edit("string of all-ones length", [](GgufWriter& w) { w.add_raw("k", 8, u64(~uint64_t{0})); },
           {"the value of key 'k'"}),
      edit("bool of 2", [](GgufWriter& w) { w.add_raw("k", 7, "\x02"); },
           {"key 'k' is a bool stored as 2"}),
      edit("bool of 255 in an array",
           [](GgufWriter& w) { w.add_raw("k", 9, u32(7) + u64(2) + "\x01\xff"); },
           {"key 'k' is a bool stored as 255"}),
      edit("array of arrays",
           [](GgufWriter& w) { w.add_raw("k", 9, u32(9) + u64(1) + u32(4) + u64(0)); },
           {"key 'k' is an array of arrays, which is not supported"}),
      edit("unknown element type", [](GgufWriter& w) { w.add_raw("k", 9, u32(77) + u64(1) + "x"); },
           {"key 'k' has element type 77"}),
      edit("huge number array", [](GgufWriter& w) { w.add_raw("k", 9, u32(4) + u64(kHuge)); },
           {"key 'k' announces 1152921504606846976 elements"}),
      edit("number array whose size overflows",
           [](GgufWriter& w) { w.add_raw("k", 9, u32(10) + u64(uint64_t{1} << 61)); },
           {"key 'k' announces 2305843009213693952 elements"}),
      edit("huge string array", [](GgufWriter& w) { w.add_raw("k", 9, u32(8) + u64(kHuge)); },
           {"key 'k' announces 1152921504606846976 elements of at least 8 bytes"}),
      edit("array beyond the limit",
           [](GgufWriter& w) {
             w.add_raw("k", 9, u32(0) + u64((1u << 24) + 1) + std::string((1u << 24) + 1, '\0'));
           },
           {"key 'k' has 16777217 elements", "at most 16777216"}),
      edit("string array with a bad element",
           [](GgufWriter& w) {
             w.add_raw("k", 9, u32(8) + u64(3) + text("x") + u64(kHuge) + u64(0));
           },
           {"element 1 of the array of key 'k'"}),
      edit("key twice", [](GgufWriter& w) { w.add("general.architecture", "other"); },
           {"key 'general.architecture' appears twice"}),
      edit("key with control characters twice",
           [](GgufWriter& w) {
             w.add("a\n\x1b[31m", uint8_t{1});
             w.add("a\n\x1b[31m", uint8_t{2});
           },
           {"key 'a\\x0a\\x1b[31m' appears twice"}),
  };
}

std::vector<Row> tensor_rows() {
  return {
      alignment("alignment 0", 0, {"'general.alignment' should be a power of two", "but is 0"}),
      alignment("alignment 4", 4, {"from 8 to 1048576, but is 4"}),
      alignment("alignment 48", 48, {"but is 48"}),
      alignment("alignment 2^30", 1u << 30, {"but is 1073741824"}),
      {"alignment of the wrong type",
       [] {
         GgufWriter w;
         w.add("general.alignment", "32");
         return w.build();
       },
       {"key 'general.alignment' should be an integer", "but is string"}},
      edit("unnamed tensor", [](GgufWriter& w) { w.tensors[1].name = ""; },
           {"tensor 1 has an empty name"}),
      edit("long tensor name", [](GgufWriter& w) { w.tensors[1].name = std::string(256, 't'); },
           {"the name of tensor 1", "256 bytes long"}),
      edit("tensor twice", [](GgufWriter& w) { w.tensors[2].name = "a"; },
           {"tensor 'a' appears twice"}),
      edit("rank 0", [](GgufWriter& w) { w.tensors[0].shape = {}; },
           {"tensor 'a' has 0 dimensions; 1 to 4"}),
      edit("rank 5",
           [](GgufWriter& w) {
             w.tensors[0].shape = {2, 2, 2, 1, 1};
           },
           {"tensor 'a' has 5 dimensions"}),
      edit("rank 2^32 - 1", [](GgufWriter& w) { w.tensors[0].rank = ~0u; },
           {"tensor 'a' has 4294967295 dimensions"}),
      edit("extent 0",
           [](GgufWriter& w) {
             w.tensors[1].shape = {4, 0};
           },
           {"tensor 'b' has extent 0 in dimension 1"}),
      edit("extent 2^63", [](GgufWriter& w) { w.tensors[0].shape = {uint64_t{1} << 63}; },
           {"tensor 'a' has more than 2^63 - 1 elements"}),
      edit("product overflow",
           [](GgufWriter& w) {
             w.tensors[0].shape = {uint64_t{1} << 32, uint64_t{1} << 32};
           },
           {"tensor 'a' has more than 2^63 - 1 elements", "dimension 1"}),
      edit("product that wraps to a small number",
           [](GgufWriter& w) {
             w.tensors[0].shape = {uint64_t{1} << 63, 2, 8};
           },
           {"tensor 'a' has more than 2^63 - 1 elements"}),
      edit("byte count overflow", [](GgufWriter& w) { w.tensors[0].shape = {uint64_t{1} << 62}; },
           {"tensor 'a' of shape [4611686018427387904] and type F32", "beyond 2^64"}),
      edit("unknown type", [](GgufWriter& w) { w.tensors[1].type_id = 99; },
           {"tensor 'b' has type id 99", "Q8_0 (8)", "IQ3_XXS (18)"}),
      edit("removed type", [](GgufWriter& w) { w.tensors[1].type_id = 4; },
           {"tensor 'b' has type id 4"}),
      edit("row not in blocks",
           [](GgufWriter& w) {
             w.tensors[2].shape = {33, 2};
           },
           {"tensor 'c' of type Q8_0 has rows of 33 elements", "block of 32"}),
      edit("row not in blocks, whole tensor is",
           [](GgufWriter& w) {
             w.tensors[2].shape = {16, 4};
           },
           {"tensor 'c' of type Q8_0 has rows of 16 elements"}),
      edit("id 42 with a row of 32", [](GgufWriter& w) { w.tensors[2].type_id = 42; },
           {"tensor 'c' of type Q2_0 has rows of 32 elements", "block of 64"}),
  };
}

std::vector<Row> placement_rows() {
  return {
      edit("offset not aligned", [](GgufWriter& w) { w.tensors[1].offset = 33; },
           {"tensor 'b' begins at offset 33", "the alignment 32"}),
      edit("same place", [](GgufWriter& w) { w.tensors[1].offset = 0; },
           {"tensor 'a' (F32 [8]) needs bytes", "but tensor 'b' begins"}),
      edit("overlap", [](GgufWriter& w) { w.tensors[0].shape = {9}; },
           {"tensor 'a' (F32 [9]) needs bytes", "but tensor 'b' begins"}),
      edit("offset past the end", [](GgufWriter& w) { w.tensors[2].offset = 1 << 20; },
           {"bytes are missing", "tensor 'c'", "fetch it again"}),
      edit("offset near 2^64", [](GgufWriter& w) { w.tensors[2].offset = ~uint64_t{31}; },
           {"tensor 'c'", "beyond 2^64"}),
      edit("tensor larger than the file",
           [](GgufWriter& w) {
             w.tensors[2].shape = {32, uint64_t{1} << 40};
           },
           {"tensor 'c', Q8_0 [32, 1099511627776]", "bytes are missing"}),
      patch("last byte of data missing", [](std::string& f) { f.resize(f.size() - (96 - 68) - 1); },
            {"1 bytes are missing", "tensor 'c'"}),
      edit("split without number", [](GgufWriter& w) { w.add("split.count", uint16_t{2}); },
           {"'split.count' is 2, but 'split.no' is missing"}),
      edit("split number beyond the count", [](GgufWriter& w) { w.add_split(2, 2, 3); },
           {"'split.no' (2) and 'split.count' (2)"}),
      edit("number without a split", [](GgufWriter& w) { w.add("split.no", uint16_t{1}); },
           {"'split.no' is 1, but 'split.count' is missing"}),
      edit("huge split",
           [](GgufWriter& w) {
             w.add("split.no", uint16_t{0});
             w.add("split.count", uint32_t{4000000000u});
           },
           {"'split.count' (4000000000)", "at most 99999"}),
      edit("negative split number",
           [](GgufWriter& w) {
             w.add("split.no", int32_t{-1});
             w.add("split.count", uint16_t{2});
           },
           {"key 'split.no' should be an integer from 0", "but is -1"}),
      edit("lone shard", [](GgufWriter& w) { w.add_split(0, 2, 3); },
           {"one of 2 shards, but the model has 1"}),
  };
}

TEST(GgufHostile, TheSoundFileOfTheTableIsAccepted) {
  const std::string file = sound().build();
  const auto opened = GgufFile::from_bytes({{"test.gguf", std::as_bytes(std::span(file))}});
  EXPECT_TRUE(opened.ok()) << opened.status().message();
}

TEST(GgufHostile, EveryBrokenFileIsRefusedInWords) {
  std::vector<Row> all;
  for (const auto& part : {header_rows(), key_rows(), tensor_rows(), placement_rows()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_GE(all.size(), 40u);
  for (const Row& row : all) {
    const std::string file = row.file();
    const auto opened = GgufFile::from_bytes({{"test.gguf", std::as_bytes(std::span(file))}});
    ASSERT_FALSE(opened.ok()) << row.name;
    const Status status = opened.status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << row.name;
    EXPECT_NE(status.message().find("'test.gguf'"), std::string::npos)
        << row.name << ": " << status.message();
    for (const char* words : row.says) {
      EXPECT_NE(status.message().find(words), std::string::npos)
          << row.name << ": \"" << status.message() << "\" lacks \"" << words << "\"";
    }
  }
}

}  // namespace
}  // namespace strata
