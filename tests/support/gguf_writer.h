// Builds GGUF files for tests, well-formed by default and broken on request.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace strata::test {

class GgufWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;  // fastest first
    uint32_t type_id = 0;
    std::string data;
    std::optional<uint64_t> offset;  // written instead of the right one
    std::optional<uint32_t> rank;    // likewise
  };

  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  uint32_t alignment = 32;               // of the layout; the key is added by the caller
  std::optional<uint64_t> key_count;     // written instead of the right one
  std::optional<uint64_t> tensor_count;  // likewise
  bool pad_last = true;                  // pad the last tensor's data to the alignment

  // Little-endian bytes of a number.
  template <class T>
  static std::string bytes(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }
  static std::string string_bytes(std::string_view text) {
    return bytes(uint64_t{text.size()}) + std::string(text);
  }

  // A key with any type id and encoded value.
  void add_raw(std::string_view key, uint32_t type, std::string_view value) {
    keys_.push_back(string_bytes(key) + bytes(type) + std::string(value));
  }
  void add(std::string_view key, std::string_view value) { add_raw(key, 8, string_bytes(value)); }
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(std::string_view key, T value) { add_raw(key, type_id<T>(), bytes(value)); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(std::string_view key, const std::vector<T>& values) {
    std::string out = bytes(type_id<T>()) + bytes(uint64_t{values.size()});
    for (const T value : values) out += bytes(value);
    add_raw(key, 9, out);
  }
  void add(std::string_view key, const std::vector<std::string>& values) {
    std::string out = bytes(uint32_t{8}) + bytes(uint64_t{values.size()});
    for (const std::string& value : values) out += string_bytes(value);
    add_raw(key, 9, out);
  }
  void add_split(uint16_t no, uint16_t count, int32_t tensors) {
    add("split.no", no);
    add("split.count", count);
    add("split.tensors.count", tensors);
  }

  Tensor& add_tensor(std::string name, std::vector<uint64_t> shape, uint32_t type_id,
                     std::string data) {
    tensors.push_back({std::move(name), std::move(shape), type_id, std::move(data), {}, {}});
    return tensors.back();
  }
  std::vector<Tensor> tensors;

  std::string build() const {
    std::string out = bytes(magic) + bytes(version) + bytes(tensor_count.value_or(tensors.size())) +
                      bytes(key_count.value_or(keys_.size()));
    for (const std::string& key : keys_) out += key;
    uint64_t offset = 0;
    for (const Tensor& t : tensors) {
      out += string_bytes(t.name) + bytes(t.rank.value_or(static_cast<uint32_t>(t.shape.size())));
      for (const uint64_t extent : t.shape) out += bytes(extent);
      out += bytes(t.type_id) + bytes(t.offset.value_or(offset));
      offset = padded(offset + t.data.size());
    }
    out.resize(padded(out.size()));
    for (size_t i = 0; i < tensors.size(); ++i) {
      out += tensors[i].data;
      if (pad_last || i + 1 < tensors.size()) out.resize(padded(out.size()));
    }
    return out;
  }
  void write(const std::string& path) const {
    const std::string file = build();
    std::ofstream(path, std::ios::binary)
        .write(file.data(), static_cast<std::streamsize>(file.size()));
  }

 private:
  template <class T>
  static constexpr uint32_t type_id() {
    if constexpr (std::is_same_v<T, bool>) return 7;
    if constexpr (std::is_same_v<T, float>) return 6;
    if constexpr (std::is_same_v<T, double>) return 12;
    if constexpr (sizeof(T) == 8) return std::is_signed_v<T> ? 11 : 10;
    constexpr uint32_t kLog = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : 2;
    return 2 * kLog + (std::is_signed_v<T> ? 1 : 0);
  }
  uint64_t padded(uint64_t n) const { return (n + alignment - 1) / alignment * alignment; }

  std::vector<std::string> keys_;
};

}  // namespace strata::test
