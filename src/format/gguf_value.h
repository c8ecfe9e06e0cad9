// Metadata values of a GGUF file. A value points into the mapped file and is valid as long as the
// GgufFile it came from; nothing is copied but the list of a string array's elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace strata {

// Ids as in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

// "u32", "string", ...
const char* gguf_type_name(GgufType type);
// Bytes of one value; 0 for strings and arrays, whose size varies.
size_t gguf_type_bytes(GgufType type);

class GgufValue {
 public:
  // A scalar or an array of fixed-size elements: `raw` holds count elements back to back. The
  // caller has checked the sizes. `element` is never kString or kArray here.
  static GgufValue numbers(GgufType element, bool is_array, uint64_t count,
                           std::span<const std::byte> raw);
  // A string or an array of strings; `raw` is its encoding in the file.
  static GgufValue strings(bool is_array, std::vector<std::string_view> strings,
                           std::span<const std::byte> raw);

  bool is_array() const { return is_array_; }
  GgufType element_type() const { return element_; }  // a scalar's own type
  uint64_t count() const { return count_; }           // 1 for a scalar
  // The encoded value: equal bytes (and types) mean equal values.
  std::span<const std::byte> raw() const { return raw_; }
  std::string type_name() const;  // "u32", "array of 12 strings"

  // Element i (0 for a scalar) as text, e.g. for listings. i < count().
  std::string text_at(uint64_t i) const;

  // The value as T, or a failure that reads "should be <expected>, but is <found>". T is one of
  //   uint32_t int32_t uint64_t int64_t  from any integer width (or bool) that holds a value in
  //   range float double                       from any finite float or any integer bool from bool,
  //   or an integer 0 or 1 std::string_view                   from a string std::vector<uint32_t |
  //   int32_t | uint64_t | int64_t | float>  from an array, element by element std::span<const
  //   std::string_view>  from an array of strings
  template <class T>
  Result<T> as() const;

 private:
  GgufType element_ = GgufType::kU8;
  bool is_array_ = false;
  uint64_t count_ = 0;
  std::span<const std::byte> raw_;
  std::vector<std::string_view> strings_;
};

struct GgufKeyValue {
  std::string_view key;
  GgufValue value;
};

}  // namespace strata
