#include "backend/gpu/emu/race.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "backend/gpu/emu/block.h"

namespace strata::gpu::emu {

namespace {

// The compiler's calls carry no context: the recorder of the block that this thread is running.
constinit thread_local RaceRecorder* current_recorder = nullptr;

constexpr size_t kPlaces = 4096;

const char* verb(Access kind) {
  switch (kind) {
    case Access::kRead: return "reads";
    case Access::kWrite: return "writes";
    case Access::kAtomic: return "adds to";
  }
  return "";
}

int add_segments(dl_phdr_info* info, size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    static_cast<std::vector<MemoryRange>*>(out)->push_back({begin, begin + segment.p_memsz});
  }
  return 0;
}

}  // namespace

LaunchShadow::LaunchShadow(std::vector<MemoryRange> ranges)
    : ranges_(std::move(ranges)), shadows_(ranges_.size(), nullptr) {}

LaunchShadow::~LaunchShadow() {
  for (Byte* shadow : shadows_) std::free(shadow);
}

LaunchShadow::Byte* LaunchShadow::shadow_of(size_t range) {
  std::atomic_ref<Byte*> slot(shadows_[range]);
  Byte* shadow = slot.load(std::memory_order_acquire);
  if (shadow != nullptr) return shadow;
  // Zero pages: only what is touched takes memory.
  auto* made =
      static_cast<Byte*>(std::calloc(ranges_[range].end - ranges_[range].begin, sizeof(Byte)));
  if (made == nullptr) return nullptr;
  if (slot.compare_exchange_strong(shadow, made)) return made;
  std::free(made);
  return shadow;
}

std::optional<LaunchShadow::Conflict> LaunchShadow::touch(size_t range, uintptr_t address,
                                                          uint32_t block, Access kind) {
  Byte* shadow = shadow_of(range);
  if (shadow == nullptr) return std::nullopt;
  Byte& byte = shadow[address - ranges_[range].begin];
  std::atomic_ref<uint32_t> writer(byte.writer);
  std::atomic_ref<uint32_t> reader(byte.reader);
  // Each leaves its own mark before it looks for the other's.
  if (kind == Access::kWrite) {
    const uint32_t before = writer.exchange(block);
    if (before != 0 && before != block) return Conflict{before, true};
    const uint32_t read = reader.load();
    if (read != 0 && read != block) return Conflict{read, false};
    return std::nullopt;
  }
  uint32_t before = 0;
  if (!reader.compare_exchange_strong(before, block) && before != block && before != kSeveral) {
    reader.store(kSeveral);
  }
  const uint32_t wrote = writer.load();
  if (wrote != 0 && wrote != block) return Conflict{wrote, true};
  return std::nullopt;
}

void RaceRecorder::begin_block(const std::byte* shared, int shared_bytes, LaunchShadow& launch,
                               uint32_t block, std::array<MemoryRange, 2> own) {
  shared_ = reinterpret_cast<uintptr_t>(shared);
  shared_bytes_ = static_cast<size_t>(shared_bytes);
  launch_ = &launch;
  block_ = block;
  used_atomic_ = false;
  own_ = own;
  last_ = {};
  if (shared_shadow_.size() < shared_bytes_) shared_shadow_.resize(shared_bytes_);
  if (places_.empty()) places_.resize(kPlaces);
  base_epoch_ = now_.epoch + 1;
  now_.epoch = base_epoch_;
  current_recorder = this;
}

void RaceRecorder::end_block() { current_recorder = nullptr; }

void RaceRecorder::resume(int thread, uint32_t barriers, uint32_t wave_syncs, MemoryRange stack) {
  now_.epoch = base_epoch_ + barriers;
  now_.wave_syncs = wave_syncs;
  now_.thread = static_cast<uint16_t>(thread);
  stack_ = stack;
}

bool RaceRecorder::ordered(const Mark& mark) const {
  if (mark.epoch != now_.epoch || mark.thread == now_.thread) return true;
  return mark.thread / 32 == now_.thread / 32 && mark.wave_syncs != now_.wave_syncs;
}

std::optional<RaceRecorder::Mark> RaceRecorder::touch(Byte& byte, Access kind) {
  Mark mark = now_;
  mark.atomic = kind == Access::kAtomic;
  if (!ordered(byte.writer) && !(mark.atomic && byte.writer.atomic)) return byte.writer;
  if (kind != Access::kRead) {
    for (const Mark* reader : {&byte.reader, &byte.other_wave, &byte.other_lane}) {
      if (!ordered(*reader)) return *reader;
    }
    byte.writer = mark;
    return std::nullopt;
  }
  if (byte.reader.epoch != now_.epoch) {
    byte.other_wave = {};
    byte.other_lane = {};
  } else if (byte.reader.thread != now_.thread) {
    if (byte.reader.thread / 32 != now_.thread / 32) {
      byte.other_wave = byte.reader;
      byte.other_lane = {};
    } else {
      byte.other_lane = byte.reader;
    }
  }
  byte.reader = mark;
  return std::nullopt;
}

void RaceRecorder::access(const void* p, size_t bytes, Access kind) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (stack_.holds(address, bytes)) return;
  if (address - shared_ < shared_bytes_) {
    const size_t offset = address - shared_;
    // What lies behind the block's part is found when the block ends.
    for (size_t i = offset; i < std::min(offset + bytes, shared_bytes_); ++i) {
      Byte& byte = shared_shadow_[i];
      const auto earlier = touch(byte, kind);
      if (earlier) {
        std::string text = describe(*earlier, !ordered(byte.writer), kind,
                                    fmt::format("shared memory at offset {}", i));
        runner_.fail(std::move(text));
      }
    }
    return;
  }
  check_reachable(address, bytes, kind);
  if (last_.begin == 0) return;
  for (uintptr_t at = address; at < address + bytes; ++at) {
    Place& place = places_[(at / 16 * 0x9e3779b97f4a7c15u >> 40) % kPlaces];
    if (place.address != at / 16) place = {at / 16, {}};
    Byte& byte = place.bytes[at % 16];
    const auto earlier = touch(byte, kind);
    if (earlier) {
      std::string text = describe(*earlier, !ordered(byte.writer), kind,
                                  fmt::format("device memory, byte {} of an allocation of {}",
                                              at - last_.begin, last_.end - last_.begin));
      runner_.fail(std::move(text));
    }
    if (kind == Access::kAtomic) used_atomic_ = true;
    if (used_atomic_) continue;
    if (const auto other = launch_->touch(last_number_, at, block_, kind)) {
      std::string text = describe(*other, kind, at - last_.begin);
      runner_.fail(std::move(text));
    }
  }
}

// Leaves the range of device memory in last_, or an empty one for other memory that may be touched.
void RaceRecorder::check_reachable(uintptr_t address, size_t bytes, Access kind) {
  if (last_.begin != 0 && last_.holds(address, bytes)) return;
  last_ = {};
  for (const MemoryRange& range : own_) {
    if (range.holds(address, bytes)) return;
  }
  const std::vector<MemoryRange>& ranges = launch_->ranges();
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), address,
      [](uintptr_t value, const MemoryRange& range) { return value < range.begin; });
  if (after != ranges.begin() && std::prev(after)->holds(address, bytes)) {
    last_ = *std::prev(after);
    last_number_ = static_cast<size_t>(std::prev(after) - ranges.begin());
    return;
  }
  if (kind == Access::kRead) {
    if (constants_.empty()) dl_iterate_phdr(&add_segments, &constants_);
    for (const MemoryRange& range : constants_) {
      if (range.holds(address, bytes)) return;
    }
  }
  runner_.fail(fmt::format("{} {} bytes at an address where the device has no memory (thread {})",
                           verb(kind), bytes, now_.thread));
}

std::string RaceRecorder::describe(const Mark& earlier, bool earlier_wrote, Access kind,
                                   const std::string& place) const {
  return fmt::format("has a race: thread {} {} {}, which thread {} {} with no barrier between them",
                     now_.thread, verb(kind), place, earlier.thread,
                     earlier_wrote ? "wrote" : "read");
}

std::string RaceRecorder::describe(const LaunchShadow::Conflict& other, Access kind,
                                   size_t offset) const {
  const std::string who = other.block == LaunchShadow::kSeveral
                              ? "several other blocks"
                              : fmt::format("block number {}", other.block - 1);
  return fmt::format(
      "has a race: thread {} {} device memory, byte {} of an allocation of {}, which "
      "{} {}; nothing orders blocks",
      now_.thread, verb(kind), offset, last_.end - last_.begin, who,
      other.wrote ? "wrote" : "read");
}

}  // namespace strata::gpu::emu

// ---- what the compiler calls --------------------------------------------------------------------

namespace {

using strata::gpu::emu::Access;
using strata::gpu::emu::RaceRecorder;

void record(const void* p, size_t bytes, Access kind) {
  RaceRecorder* recorder = strata::gpu::emu::current_recorder;
  if (recorder != nullptr) recorder->access(p, bytes, kind);
}

}  // namespace

#define STRATA_HOOKS(Size)                                                               \
  void __tsan_read##Size(void* p) { record(p, Size, Access::kRead); }                    \
  void __tsan_write##Size(void* p) { record(p, Size, Access::kWrite); }                  \
  void __tsan_unaligned_read##Size(void* p) { record(p, Size, Access::kRead); }          \
  void __tsan_unaligned_write##Size(void* p) { record(p, Size, Access::kWrite); }        \
  void __tsan_volatile_read##Size(void* p) { record(p, Size, Access::kRead); }           \
  void __tsan_volatile_write##Size(void* p) { record(p, Size, Access::kWrite); }         \
  void __tsan_unaligned_volatile_read##Size(void* p) { record(p, Size, Access::kRead); } \
  void __tsan_unaligned_volatile_write##Size(void* p) { record(p, Size, Access::kWrite); }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
STRATA_HOOKS(1)
STRATA_HOOKS(2)
STRATA_HOOKS(4)
STRATA_HOOKS(8)
STRATA_HOOKS(16)
void __tsan_read_range(void* p, size_t bytes) { record(p, bytes, Access::kRead); }
void __tsan_write_range(void* p, size_t bytes) { record(p, bytes, Access::kWrite); }

}  // extern "C"

#undef STRATA_HOOKS
