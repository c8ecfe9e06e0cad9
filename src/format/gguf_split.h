// Models split over several files: where the shards lie, and whether they belong together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/gguf_index.h"

namespace strata::gguf {

// What a shard says of itself, from split.no, split.count and split.tensors.count.
struct SplitInfo {
  uint32_t no = 0;                  // from 0
  uint32_t count = 1;               // 1: not split
  std::optional<uint64_t> tensors;  // of all shards together
};
Result<SplitInfo> read_split(const Index& index, const std::string& path);

// The paths of all shards, from the path of one: "DIR/NAME-00002-of-00003.gguf". Fails when the
// name does not have that form or contradicts `split`.
Result<std::vector<std::string>> shard_paths(const std::string& path, const SplitInfo& split);

// Checks that indices[i] is shard i of one model: numbers, counts, total of tensors, no tensor
// twice, no key of the model with two values.
Status check_shards(const std::vector<Index>& indices, const std::vector<std::string>& paths);

}  // namespace strata::gguf
