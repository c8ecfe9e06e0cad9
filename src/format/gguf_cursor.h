// A bounds-checked reader over the index part of one shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "format/quant/portable.h"

namespace strata::gguf {

// take_* return false and leave the position where it was when the bytes are not there; truncated()
// then says what was missing.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view path) : bytes_(bytes), path_(path) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }
  std::span<const std::byte> since(uint64_t begin) const {
    return bytes_.subspan(begin, position_ - begin);
  }

  bool take_bytes(uint64_t count, std::span<const std::byte>& out) {
    if (count > left()) {
      needed_ = count;
      return false;
    }
    out = bytes_.subspan(position_, count);
    position_ += count;
    return true;
  }
  bool take_u32(uint32_t& out) {
    std::span<const std::byte> raw;
    if (!take_bytes(4, raw)) return false;
    out = quant::load_u32(reinterpret_cast<const uint8_t*>(raw.data()));
    return true;
  }
  bool take_u64(uint64_t& out) {
    std::span<const std::byte> raw;
    if (!take_bytes(8, raw)) return false;
    const auto* p = reinterpret_cast<const uint8_t*>(raw.data());
    out = quant::load_u32(p) | static_cast<uint64_t>(quant::load_u32(p + 4)) << 32;
    return true;
  }
  bool take_string(std::string_view& out) {
    uint64_t length = 0;
    std::span<const std::byte> raw;
    if (!take_u64(length) || !take_bytes(length, raw)) return false;
    out = {reinterpret_cast<const char*>(raw.data()), raw.size()};
    return true;
  }

  // The failure of the last take_*: the file ends inside `what`.
  Status truncated(std::string_view what) const {
    return failed_precondition(
        "'{}' ends inside {}: {} bytes are needed at byte {} and {} are left, so at least {} are "
        "missing; the file is truncated or damaged, fetch it again",
        path_, what, needed_, position_, left(), needed_ - left());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view path_;
  uint64_t position_ = 0;
  uint64_t needed_ = 0;
};

}  // namespace strata::gguf
