// From raw tensor entries to TensorInfo: types, sizes and places, checked against the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/gguf.h"
#include "format/gguf_index.h"

namespace strata::gguf {

// GGUF id 42 stands for Q2_0 (64 elements in 18 bytes) or, in the files of one fork, for Q2_0_G128
// (128 in 34). Which of the two shows from the distance to the next tensor. Small tensors may fit
// both ways; they follow the decided ones of the model.
struct Id42Count {
  size_t g64 = 0;   // tensors whose distance is exactly that of Q2_0, and not that of the other
  size_t g128 = 0;  // the reverse
};
void count_id_42(const Index& index, uint64_t file_bytes, Id42Count& count);

// The tensors of one shard, in table order. `id_42` counts over all shards of the model.
Result<std::vector<TensorInfo>> lay_out_tensors(const Index& index, uint64_t file_bytes,
                                                const std::string& path, size_t shard,
                                                const Id42Count& id_42);

}  // namespace strata::gguf
