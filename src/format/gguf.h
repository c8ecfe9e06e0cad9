// Reading GGUF files: metadata and the tensor index. The bytes are mapped, never copied, and the
// whole index is validated before a byte of weights is touched: after a successful open, every
// TensorInfo describes bytes that exist, once, in whole blocks of a known type.
//
// Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3,
// little-endian. Nothing here knows the model architecture. A GgufFile is immutable after open and
// safe to read from any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "format/gguf_value.h"
#include "format/quant/quant.h"

namespace strata {

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;  // 1 to 4 extents, each > 0, fastest first
  QuantType type = QuantType::kF32;
  size_t shard = 0;     // index into GgufFile::shards()
  uint64_t offset = 0;  // of the first byte, from the start of the shard's file
  uint64_t bytes = 0;   // > 0

  int64_t elems() const;                               // product of the shape
  int64_t row_elems() const { return shape.front(); }  // a whole number of blocks
  int64_t rows() const { return elems() / row_elems(); }
  std::string shape_text() const;  // "[2560, 640, 512]"
};

struct GgufShard {
  std::string path;  // as opened, or the name given to from_bytes
  uint64_t bytes = 0;
  uint32_t version = 0;
  uint32_t alignment = 0;
  size_t tensor_count = 0;
};

class GgufFile {
 public:
  // Opens the file at `path` or, when it is one shard of a split model, all shards: they lie beside
  // it, named NAME-00001-of-00003.gguf, and any of them may be given. Failures: kNotFound (file or
  // shard missing), kFailedPrecondition (not a usable GGUF; the sentence says what is wrong where).
  static Result<GgufFile> open(const std::string& path);

  // The same validation over bytes in memory, which must outlive the result: one source per shard,
  // in order. `name` stands for the path in messages.
  struct Source {
    std::string name;
    std::span<const std::byte> bytes;
  };
  static Result<GgufFile> from_bytes(std::vector<Source> sources);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  // The shard that was opened, for messages.
  const std::string& path() const;
  std::span<const GgufShard> shards() const;

  // Metadata of all shards together, in file order; of a key that several shards have, the first
  // shard's (only split.* and general.* may differ).
  std::span<const GgufKeyValue> key_values() const;
  // Null when there is no such key. O(log keys).
  const GgufValue* find_value(std::string_view key) const;

  // The value of `key` as T (the types of GgufValue::as). The failure names file, key, expected and
  // found.
  template <class T>
  Result<T> require(std::string_view key) const {
    const GgufValue* value = find_value(key);
    if (value == nullptr) return missing_key(key);
    auto result = value->template as<T>();
    if (!result.ok()) return bad_key(key, result.status());
    return result;
  }
  // The same, but empty when there is no such key. A value of the wrong type is still a failure.
  template <class T>
  Result<std::optional<T>> find(std::string_view key) const {
    if (find_value(key) == nullptr) return std::optional<T>();
    STRATA_ASSIGN_OR_RETURN(T value, require<T>(key));
    return std::optional<T>(std::move(value));
  }

  // In the order of the shards and of their tables.
  std::span<const TensorInfo> tensors() const;
  // Null when there is no such tensor. O(log tensors).
  const TensorInfo* find_tensor(std::string_view name) const;
  // The tensor's bytes; valid as long as this object, but see copy_to_memory(). `tensor` must be one of
  // tensors().
  std::span<const std::byte> data(const TensorInfo& tensor) const;

  // Copies these tensors from the mapped file into memory of their own, which data() gives from then
  // on; earlier results stay valid. Those copied before are left as they are. `progress` hears of the
  // bytes done so far. Fails with kResourceExhausted, with nothing copied.
  Status copy_to_memory(std::span<const TensorInfo* const> tensors,
                        const std::function<void(uint64_t)>& progress);

  // The mapping of a shard, for read-ahead hints at TensorInfo::offset; null after from_bytes.
  const MappedFile* mapping(size_t shard) const;

 private:
  struct State;
  explicit GgufFile(std::unique_ptr<State> state);
  static Result<GgufFile> assemble(std::unique_ptr<State> state);
  Status missing_key(std::string_view key) const;
  Status bad_key(std::string_view key, const Status& why) const;

  std::unique_ptr<State> state_;
};

}  // namespace strata
