// The memory checker of the emu_race module. Its kernels are compiled with -fsanitize=thread for
// the calls that the compiler then places at each access; the functions called are those of
// race.cpp, not the sanitizer's runtime. Two threads of a block that touch one byte, one of them
// writing, with no barrier between them, are a race; so is an address that the device could not
// reach.
//
// Ordered are accesses of one thread, accesses with a sync() between them, and accesses of lanes of
// one wave with a sync_wave() between them. A shuffle orders nothing, as on the real machines.
// Blocks are ordered by nothing: two that touch one byte of device memory, one writing, are a race
// too. A block that has used an atomic on
// device memory is trusted from there on: the atomic may have told it that another one is done.
//
// Shared memory and device memory between blocks are followed exactly, device memory between the
// threads of a block at the places touched last: what is reported is true, and a race of the last
// kind may be missed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::gpu::emu {

class BlockRunner;

struct MemoryRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool holds(uintptr_t address, size_t bytes) const {
    return address >= begin && address <= end && bytes <= end - address;
  }
};

enum class Access : uint8_t { kRead, kWrite, kAtomic };

// Which blocks of one launch touched which byte of device memory. Thread-safe.
class LaunchShadow {
 public:
  // `ranges`: the memory that the launch can reach, sorted.
  explicit LaunchShadow(std::vector<MemoryRange> ranges);
  ~LaunchShadow();
  LaunchShadow(const LaunchShadow&) = delete;
  LaunchShadow& operator=(const LaunchShadow&) = delete;

  const std::vector<MemoryRange>& ranges() const { return ranges_; }

  struct Conflict {
    uint32_t block;  // some other one when several have read the byte: kSeveral
    bool wrote;
  };
  static constexpr uint32_t kSeveral = 0xffffffff;
  // `block` (from 1) reads or writes the byte at `address` of range number `range`. Returns another
  // block that this one races with. Blocks that touch a byte at the same moment: one of them is
  // told.
  std::optional<Conflict> touch(size_t range, uintptr_t address, uint32_t block, Access kind);

 private:
  struct Byte {
    uint32_t writer;
    uint32_t reader;
  };
  Byte* shadow_of(size_t range);

  const std::vector<MemoryRange> ranges_;
  std::vector<Byte*> shadows_;  // allocated when first touched
};

class RaceRecorder {
 public:
  explicit RaceRecorder(BlockRunner& runner) : runner_(runner) {}

  // `block` counts from 1; `own` is what the emulator itself keeps for it.
  void begin_block(const std::byte* shared, int shared_bytes, LaunchShadow& launch, uint32_t block,
                   std::array<MemoryRange, 2> own);
  void end_block();
  // `thread` runs from here on, on this stack.
  void resume(int thread, uint32_t barriers, uint32_t wave_syncs, MemoryRange stack);
  // Ends the block when the access is one that must not be.
  void access(const void* p, size_t bytes, Access kind);

 private:
  struct Mark {
    uint32_t epoch = 0;
    uint32_t wave_syncs = 0;
    uint16_t thread = 0;
    bool atomic = false;
  };
  // Enough to find a race with any earlier access of the epoch: `other_wave` is a reader of another
  // wave than `reader`, `other_lane` one of the same wave.
  struct Byte {
    Mark writer, reader, other_wave, other_lane;
  };
  struct Place {
    uintptr_t address = 0;
    std::array<Byte, 16> bytes{};
  };

  bool ordered(const Mark& mark) const;
  // The earlier access that this one races with.
  std::optional<Mark> touch(Byte& byte, Access kind);
  void check_reachable(uintptr_t address, size_t bytes, Access kind);
  std::string describe(const Mark& earlier, bool earlier_wrote, Access kind,
                       const std::string& place) const;
  std::string describe(const LaunchShadow::Conflict& other, Access kind, size_t offset) const;

  BlockRunner& runner_;
  uintptr_t shared_ = 0;
  size_t shared_bytes_ = 0;
  LaunchShadow* launch_ = nullptr;
  uint32_t block_ = 0;
  bool used_atomic_ = false;  // on device memory
  std::array<MemoryRange, 2> own_{};
  MemoryRange stack_{};
  MemoryRange last_{};  // the range of the last access
  size_t last_number_ = 0;
  std::vector<MemoryRange> constants_;  // of the program's files, when they were first needed

  Mark now_{};
  uint32_t base_epoch_ = 1;
  std::vector<Byte> shared_shadow_;
  std::vector<Place> places_;
};

}  // namespace strata::gpu::emu
