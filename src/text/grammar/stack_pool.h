// Stacks of a pushdown automaton as a tree: a frame knows the frame below it. Equal stacks are one
// frame, so that stacks are compared by number and a state costs one number per configuration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::grammar {

using FrameId = uint32_t;
inline constexpr FrameId kBase = UINT32_MAX;  // below every stack

struct Frame {
  uint32_t state = 0;
  // In a loop: how often the body must, and may, still be passed; kUnbounded: without end.
  uint32_t need = 0;
  uint32_t room = 0;
  FrameId below = kBase;
  friend bool operator==(const Frame&, const Frame&) = default;
};

// A value. Frames are only added; ids stay valid until clear().
class StackPool {
 public:
  FrameId add(const Frame& frame) {
    if (2 * (frames_.size() + 1) > slots_.size()) grow();
    size_t slot = hash(frame) & (slots_.size() - 1);
    while (slots_[slot] != kBase) {
      if (frames_[slots_[slot]] == frame) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = static_cast<FrameId>(frames_.size());
    frames_.push_back(frame);
    return slots_[slot];
  }
  const Frame& operator[](FrameId id) const { return frames_[id]; }
  size_t size() const { return frames_.size(); }
  void clear() {
    frames_.clear();
    slots_.clear();
  }

 private:
  static size_t hash(const Frame& f) {
    uint64_t h = (uint64_t{f.state} << 32 | f.below) * 0x9e3779b97f4a7c15u;
    h ^= (uint64_t{f.need} << 32 | f.room) * 0xc2b2ae3d27d4eb4fu;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return static_cast<size_t>(h ^ (h >> 32));
  }
  void grow() {
    slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, kBase);
    for (FrameId id = 0; id < frames_.size(); ++id) {
      size_t slot = hash(frames_[id]) & (slots_.size() - 1);
      while (slots_[slot] != kBase) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = id;
    }
  }

  std::vector<Frame> frames_;
  std::vector<FrameId> slots_;  // open addressing; kBase is free
};

}  // namespace strata::grammar
