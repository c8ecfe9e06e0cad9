// What a stage has recorded of its decode steps (Stream::record), so that a token costs one start and
// not one per kernel. A recording serves every step that launches the same kernels with the same
// operands; what changes from token to token, positions above all, the kernels read from memory.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/device.h"

namespace strata::model {

// Tokens that a recording has room for whose sequences have `tokens`: up to a power of two, so that few
// lengths need a new one.
constexpr int64_t room_of_recording(int64_t tokens) {
  constexpr int64_t kLeast = 64;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens > kLeast ? tokens : kLeast)));
}

// Not thread-safe.
class DecodeGraphs {
 public:
  struct Entry {
    std::vector<uint64_t> key;
    // Whether a step with this key has run: only then does the stream have all memory it needs.
    bool ran = false;
    // The step in parts: the host works between them.
    std::array<std::unique_ptr<backend::Recording>, 2> parts;
    uint64_t last_use = 0;
  };

  // The entry of `key`, which holds everything that launches depend on; a fresh one, in place of the
  // one longest unused, when there is none. Valid until the next call.
  Entry& find(std::span<const uint64_t> key);
  // The entry of `key`, nullptr when there is none.
  Entry* known(std::span<const uint64_t> key);

 private:
  // Sequences that take turns, and the length at which a longer one needs a new recording.
  static constexpr size_t kMost = 8;

  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace strata::model
