// The hashed n-gram table (docs/MODEL.md 3.3): a few rows per token out of hundreds of millions.
// Rows are read from the mapped file when a token needs them; the table is never loaded.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "format/gguf.h"

namespace strata::memory {

struct PleHash {
  int ngram = 0;                      // longest n-gram, >= 2
  int heads_per_ngram = 0;            // rows per order 2..ngram
  TokenId eos = 0;                    // ends the look-back
  std::vector<uint64_t> multipliers;  // [ngram]; 0 belongs to the current token
  std::vector<uint64_t> moduli;       // [heads()]
  std::vector<uint64_t> offsets;      // [heads()]

  int heads() const { return (ngram - 1) * heads_per_ngram; }
};

// Table rows of the token at `index` of `tokens`, in head order. Walking back, a missing
// predecessor or an eos turns it and everything older into eos.
void ngram_rows(const PleHash& hash, std::span<const TokenId> tokens, size_t index,
                std::span<uint64_t> rows);

class PleTable {
 public:
  // `table` is a tensor of `file`, [row width, rows]. Fails when the hash can name a row beyond it.
  static Result<PleTable> create(std::shared_ptr<const GgufFile> file, const TensorInfo& table,
                                 PleHash hash);

  // Elements per token: heads * row width.
  int64_t width() const { return hash_.heads() * row_width_; }
  const PleHash& hash() const { return hash_; }

  // Embeddings of tokens[begin..], [tokens.size() - begin, width()]. All reads are announced to
  // the kernel before the first is waited for. `rows` is scratch that a caller keeps.
  void gather(std::span<const TokenId> tokens, size_t begin, std::vector<uint64_t>& rows,
              float* out) const;

 private:
  PleTable() = default;

  std::shared_ptr<const GgufFile> file_;
  const MappedFile* mapping_ = nullptr;  // null when the file is held in memory
  uint64_t offset_ = 0;                  // of the table in its shard
  const std::byte* data_ = nullptr;
  QuantType type_{};
  int64_t row_width_ = 0;
  size_t row_bytes_ = 0;
  PleHash hash_;
};

}  // namespace strata::memory
