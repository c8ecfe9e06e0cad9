#include "memory/ple_table.h"

namespace strata::memory {

void ngram_rows(const PleHash& hash, std::span<const TokenId> tokens, size_t index,
                std::span<uint64_t> rows) {
  uint64_t mix = static_cast<uint64_t>(tokens[index]) * hash.multipliers[0];
  bool ended = false;
  for (int back = 1; back < hash.ngram; ++back) {
    const auto distance = static_cast<size_t>(back);
    ended = ended || distance > index || tokens[index - distance] == hash.eos;
    const TokenId token = ended ? hash.eos : tokens[index - distance];
    mix ^= static_cast<uint64_t>(token) * hash.multipliers[distance];
    for (int h = 0; h < hash.heads_per_ngram; ++h) {
      const auto head = static_cast<size_t>((back - 1) * hash.heads_per_ngram + h);
      rows[head] = mix % hash.moduli[head] + hash.offsets[head];
    }
  }
}

Result<PleTable> PleTable::create(std::shared_ptr<const GgufFile> file, const TensorInfo& tensor,
                                  PleHash hash) {
  const auto rows = static_cast<uint64_t>(tensor.rows());
  for (size_t head = 0; head < static_cast<size_t>(hash.heads()); ++head) {
    if (hash.offsets[head] + hash.moduli[head] > rows) {
      return failed_precondition(
          "{}: n-gram head {} reaches row {} but {} has {} rows; hash constants and table do not "
          "belong together",
          file->path(), head, hash.offsets[head] + hash.moduli[head] - 1, tensor.name, rows);
    }
  }
  PleTable table;
  table.mapping_ = file->mapping(tensor.shard);
  table.offset_ = tensor.offset;
  table.data_ = file->data(tensor).data();
  table.type_ = tensor.type;
  table.row_width_ = tensor.row_elems();
  table.row_bytes_ = row_bytes(tensor.type, tensor.row_elems());
  table.hash_ = std::move(hash);
  if (table.mapping_ != nullptr) {
    table.mapping_->expect_random_reads(tensor.offset, tensor.bytes);
  }
  table.file_ = std::move(file);
  return table;
}

void PleTable::gather(std::span<const TokenId> tokens, size_t begin, std::vector<uint64_t>& rows,
                      float* out) const {
  const auto heads = static_cast<size_t>(hash_.heads());
  rows.resize((tokens.size() - begin) * heads);
  for (size_t t = begin; t < tokens.size(); ++t) {
    ngram_rows(hash_, tokens, t, std::span(rows).subspan((t - begin) * heads, heads));
  }
  if (mapping_ != nullptr) {
    for (const uint64_t row : rows) mapping_->prefetch(offset_ + row * row_bytes_, row_bytes_);
  }
  for (const uint64_t row : rows) {
    decode_row(type_, data_ + row * row_bytes_, out, row_width_);
    out += row_width_;
  }
}

}  // namespace strata::memory
