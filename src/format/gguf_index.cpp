#include "format/gguf_index.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "format/gguf_cursor.h"
#include "format/gguf_text.h"

namespace strata::gguf {
namespace {

constexpr uint32_t kMagic = 0x46554747;         // "GGUF"
constexpr uint32_t kMagicSwapped = 0x47475546;  // "FUGG"
// The smallest encodings: key (length and one byte), type, one-byte value; name (length and one
// byte), rank, one extent, type, offset.
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr size_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr size_t kMaxNameBytes = 255;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMinAlignment = 8;  // the format asks for a multiple of 8
constexpr uint32_t kMaxAlignment = 1u << 20;
// Far above any model (thousands of tensors, 250,000 tokens), low enough to bound memory whatever
// the size of the file.
constexpr uint64_t kMaxKeyValues = 1u << 18;
constexpr uint64_t kMaxTensors = 1u << 20;
constexpr uint64_t kMaxArrayElements = 1u << 24;
// What a count may reserve before its elements have been read.
constexpr uint64_t kMaxReserve = 4096;

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path)
      : cursor_(bytes, path), path_(path) {}

  Result<Index> run() {
    uint64_t tensors = 0;
    uint64_t key_values = 0;
    STRATA_RETURN_IF_ERROR(read_header(tensors, key_values));
    index_.key_values.reserve(std::min(key_values, kMaxReserve));
    for (uint64_t i = 0; i < key_values; ++i) STRATA_RETURN_IF_ERROR(read_key_value(i));
    STRATA_RETURN_IF_ERROR(check_unique_keys());
    STRATA_RETURN_IF_ERROR(read_alignment());
    index_.tensors.reserve(std::min(tensors, kMaxReserve));
    for (uint64_t i = 0; i < tensors; ++i) STRATA_RETURN_IF_ERROR(read_tensor(i));
    STRATA_RETURN_IF_ERROR(check_unique_names());
    const uint64_t mask = index_.alignment - 1;
    index_.data_begin = (cursor_.position() + mask) & ~mask;
    return std::move(index_);
  }

 private:
  template <class... Args>
  Status fail(fmt::format_string<Args...> f, Args&&... args) const {
    return failed_precondition("'{}': {}", path_, fmt::format(f, std::forward<Args>(args)...));
  }

  Status read_header(uint64_t& tensors, uint64_t& key_values) {
    uint32_t magic = 0;
    if (!cursor_.take_u32(magic)) return cursor_.truncated("the magic number");
    if (magic == kMagicSwapped) return big_endian();
    if (magic != kMagic) {
      return fail(
          "not a GGUF file: it begins with bytes {:02x} {:02x} {:02x} {:02x} instead of "
          "47 47 55 46 (\"GGUF\")",
          magic & 255, magic >> 8 & 255, magic >> 16 & 255, magic >> 24);
    }
    if (!cursor_.take_u32(index_.version)) return cursor_.truncated("the version number");
    if (index_.version != 0 && (index_.version & 0xFFFF) == 0) return big_endian();
    if (index_.version == 1) {
      return fail(
          "GGUF version 1 is not supported (2 and 3 are); convert the model again with a "
          "current tool");
    }
    if (index_.version != 2 && index_.version != 3) {
      return fail("GGUF version {} is not supported, only 2 and 3", index_.version);
    }
    if (!cursor_.take_u64(tensors)) return cursor_.truncated("the tensor count");
    if (!cursor_.take_u64(key_values)) return cursor_.truncated("the key/value count");
    if (key_values > cursor_.left() / kMinKeyValueBytes) {
      return fail(
          "the header announces {} keys, more than the {} bytes after it can hold; the file "
          "is truncated or damaged, fetch it again",
          key_values, cursor_.left());
    }
    if (tensors > cursor_.left() / kMinTensorBytes) {
      return fail(
          "the header announces {} tensors, more than the {} bytes after it can hold; the "
          "file is truncated or damaged, fetch it again",
          tensors, cursor_.left());
    }
    if (key_values > kMaxKeyValues || tensors > kMaxTensors) {
      return fail("the header announces {} keys and {} tensors; at most {} and {} are supported",
                  key_values, tensors, kMaxKeyValues, kMaxTensors);
    }
    return {};
  }

  Status big_endian() const {
    return fail(
        "the file is in big-endian byte order; only little-endian GGUF is supported, convert "
        "the model again on or for a little-endian machine");
  }

  Status read_key_value(uint64_t number) {
    std::string_view key;
    if (!cursor_.take_string(key))
      return cursor_.truncated(fmt::format("the name of key {}", number));
    if (key.empty()) return fail("key {} has an empty name", number);
    if (key.size() > kMaxKeyBytes) {
      return fail("the name of key {} ({}) is {} bytes long, more than {}", number, quoted(key),
                  key.size(), kMaxKeyBytes);
    }
    uint32_t type = 0;
    if (!cursor_.take_u32(type)) return cursor_.truncated("the type of key " + quoted(key));
    if (type >= kGgufTypeCount) {
      return fail("key {} has value type {}, known are 0 to {}", quoted(key), type,
                  kGgufTypeCount - 1);
    }
    STRATA_ASSIGN_OR_RETURN(GgufValue value, read_value(key, static_cast<GgufType>(type)));
    index_.key_values.push_back({key, std::move(value)});
    return {};
  }

  Result<GgufValue> read_value(std::string_view key, GgufType type) {
    const uint64_t begin = cursor_.position();
    if (type == GgufType::kString) {
      std::string_view text;
      if (!cursor_.take_string(text)) return cursor_.truncated("the value of key " + quoted(key));
      return GgufValue::strings(false, {text}, cursor_.since(begin));
    }
    if (type != GgufType::kArray) return read_numbers(key, type, false, 1);

    uint32_t element_id = 0;
    uint64_t count = 0;
    if (!cursor_.take_u32(element_id) || !cursor_.take_u64(count)) {
      return cursor_.truncated("the array of key " + quoted(key));
    }
    if (element_id >= kGgufTypeCount) {
      return fail("the array of key {} has element type {}, known are 0 to {}", quoted(key),
                  element_id, kGgufTypeCount - 1);
    }
    const auto element = static_cast<GgufType>(element_id);
    if (element == GgufType::kArray) {
      return fail("key {} is an array of arrays, which is not supported", quoted(key));
    }
    const uint64_t min_bytes = element == GgufType::kString ? 8 : gguf_type_bytes(element);
    if (count > cursor_.left() / min_bytes) {
      return fail(
          "the array of key {} announces {} elements of at least {} bytes, but {} bytes are "
          "left; the file is truncated or damaged, fetch it again",
          quoted(key), count, min_bytes, cursor_.left());
    }
    if (count > kMaxArrayElements) {
      return fail("the array of key {} has {} elements; at most {} are supported", quoted(key),
                  count, kMaxArrayElements);
    }
    if (element != GgufType::kString) return read_numbers(key, element, true, count);

    std::vector<std::string_view> strings;
    strings.reserve(std::min(count, kMaxReserve));
    for (uint64_t i = 0; i < count; ++i) {
      std::string_view text;
      if (!cursor_.take_string(text)) {
        return cursor_.truncated(fmt::format("element {} of the array of key {}", i, quoted(key)));
      }
      strings.push_back(text);
    }
    return GgufValue::strings(true, std::move(strings), cursor_.since(begin));
  }

  Result<GgufValue> read_numbers(std::string_view key, GgufType type, bool array, uint64_t count) {
    std::span<const std::byte> raw;
    if (!cursor_.take_bytes(count * gguf_type_bytes(type), raw)) {
      return cursor_.truncated("the value of key " + quoted(key));
    }
    if (type == GgufType::kBool) {
      for (const std::byte b : raw) {
        if (std::to_integer<int>(b) > 1) {
          return fail("key {} is a bool stored as {}; only 0 and 1 are valid", quoted(key),
                      std::to_integer<int>(b));
        }
      }
    }
    return GgufValue::numbers(type, array, count, raw);
  }

  Status read_alignment() {
    index_.alignment = kDefaultAlignment;
    const GgufValue* value = index_.find("general.alignment");
    if (value == nullptr) return {};
    const auto number = value->as<uint32_t>();
    if (!number.ok()) return fail("key 'general.alignment' {}", number.status().message());
    if (!std::has_single_bit(*number) || *number < kMinAlignment || *number > kMaxAlignment) {
      return fail("key 'general.alignment' should be a power of two from {} to {}, but is {}",
                  kMinAlignment, kMaxAlignment, *number);
    }
    index_.alignment = *number;
    return {};
  }

  Status read_tensor(uint64_t number) {
    RawTensor t;
    if (!cursor_.take_string(t.name)) {
      return cursor_.truncated(fmt::format("the name of tensor {}", number));
    }
    if (t.name.empty()) return fail("tensor {} has an empty name", number);
    if (t.name.size() > kMaxNameBytes) {
      return fail("the name of tensor {} ({}) is {} bytes long, more than {}", number,
                  quoted(t.name), t.name.size(), kMaxNameBytes);
    }
    const auto truncated = [&] {
      return cursor_.truncated("the entry of tensor " + quoted(t.name));
    };
    if (!cursor_.take_u32(t.rank)) return truncated();
    if (t.rank < 1 || t.rank > t.shape.size()) {
      return fail("tensor {} has {} dimensions; 1 to {} are supported", quoted(t.name), t.rank,
                  t.shape.size());
    }
    uint64_t elems = 1;
    for (uint32_t d = 0; d < t.rank; ++d) {
      uint64_t extent = 0;
      if (!cursor_.take_u64(extent)) return truncated();
      if (extent == 0) return fail("tensor {} has extent 0 in dimension {}", quoted(t.name), d);
      if (__builtin_mul_overflow(elems, extent, &elems) ||
          elems > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return fail("tensor {} has more than 2^63 - 1 elements (extent {} in dimension {})",
                    quoted(t.name), extent, d);
      }
      t.shape[d] = static_cast<int64_t>(extent);
    }
    if (!cursor_.take_u32(t.type_id) || !cursor_.take_u64(t.offset)) return truncated();
    if (t.offset % index_.alignment != 0) {
      return fail("tensor {} begins at offset {}, which is not a multiple of the alignment {}",
                  quoted(t.name), t.offset, index_.alignment);
    }
    index_.tensors.push_back(t);
    return {};
  }

  Status check_unique_keys() const {
    std::vector<std::string_view> names;
    names.reserve(index_.key_values.size());
    for (const GgufKeyValue& kv : index_.key_values) names.push_back(kv.key);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) return fail("key {} appears twice", quoted(*twice));
    return {};
  }

  Status check_unique_names() const {
    std::vector<std::string_view> names;
    names.reserve(index_.tensors.size());
    for (const RawTensor& t : index_.tensors) names.push_back(t.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) return fail("tensor {} appears twice", quoted(*twice));
    return {};
  }

  Cursor cursor_;
  const std::string& path_;
  Index index_;
};

}  // namespace

const GgufValue* Index::find(std::string_view key) const {
  for (const GgufKeyValue& kv : key_values) {
    if (kv.key == key) return &kv.value;
  }
  return nullptr;
}

Result<Index> parse_index(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).run();
}

}  // namespace strata::gguf
