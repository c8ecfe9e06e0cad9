// The index of one shard as it stands in the file: header, key/values, tensor table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/gguf_value.h"

namespace strata::gguf {

struct RawTensor {
  std::string_view name;
  uint32_t rank = 0;
  std::array<int64_t, 4> shape = {1, 1, 1, 1};
  uint32_t type_id = 0;
  uint64_t offset = 0;  // from data_begin
};

struct Index {
  uint32_t version = 0;
  uint32_t alignment = 0;
  uint64_t data_begin = 0;  // may lie past the end of a file without tensors
  std::vector<GgufKeyValue> key_values;
  std::vector<RawTensor> tensors;

  const GgufValue* find(std::string_view key) const;  // linear
};

// Reads and checks everything that one table can show by itself: magic, version, counts against the
// bytes there are, string lengths, value types, names, shapes. Memory use is bounded by a small
// multiple of the file's size, time by n log n.
Result<Index> parse_index(std::span<const std::byte> bytes, const std::string& path);

}  // namespace strata::gguf
