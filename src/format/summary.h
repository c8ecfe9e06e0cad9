// What a GGUF file contains, as plain numbers: for `strata inspect` and for logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "format/gguf.h"

namespace strata {

// Where a tensor belongs in the model, judged by its name alone.
enum class ModelPart {
  kEmbeddings,
  kHead,
  kPleTable,   // the n-gram table
  kPleLayer,   // the projections, norms and convolution that read it
  kAttention,  // full-attention layers, with their indexer
  kDeltaNet,   // linear-attention layers
  kHyperConnections,
  kRouter,
  kExperts,
  kSharedExpert,
  kDraftLayer,  // blk.N with N >= the number of trunk layers
  kVision,
  kOther,
};
inline constexpr int kModelPartCount = 13;

// "embeddings", "PLE table", ...
const char* model_part_name(ModelPart part);

// `trunk_layers` < 0 means unknown: then only nextn.* tensors count as the draft layer.
ModelPart model_part(std::string_view tensor_name, int64_t trunk_layers);

struct GgufSummary {
  struct Metadata {
    std::string key;
    std::string type;   // "u32", "array of 4096 strings"
    std::string value;  // long strings and arrays cut short, with "..." in their place
  };
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;  // fastest first
    std::string type;
    uint64_t bytes = 0;
    size_t shard = 0;
    ModelPart part = ModelPart::kOther;
  };
  struct Total {
    std::string name;  // of the type or part
    size_t tensors = 0;
    uint64_t elems = 0;
    uint64_t bytes = 0;
  };

  std::string path;
  std::string architecture;  // empty when the file does not say
  int64_t trunk_layers =
      -1;  // block_count less nextn_predict_layers; -1 when the file does not say
  std::vector<GgufShard> shards;
  std::vector<Metadata> metadata;  // in file order
  std::vector<Tensor> tensors;     // in file order
  std::vector<Total> by_type;      // most bytes first
  std::vector<Total> by_part;      // in the order of ModelPart; parts without tensors are left out
  Total total;
};

// Text is valid UTF-8: bytes of the file that are not become U+FFFD.
GgufSummary summarize(const GgufFile& file);

nlohmann::ordered_json to_json(const GgufSummary& summary);

}  // namespace strata
