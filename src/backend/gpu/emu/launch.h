// Launches of an emulated device as values: checked like a driver checks them, and kept when they are
// recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backend/gpu/emu/block.h"
#include "backend/gpu/emu/device_state.h"
#include "backend/gpu/runtime.h"

namespace strata::gpu::emu {

inline constexpr size_t kMaxParams = 4096;

// kInvalid when no card would run it: an empty or too large grid, a block of odd size, more shared
// memory than the device or allow_shared() gives, too many parameters.
RuntimeResult check_geometry(const DeviceState& device, const KernelImage& image, Grid grid,
                             int shared_bytes);

// A launch on its way to a stream.
struct StagedLaunch {
  KernelLaunch launch;  // its params are those below
  alignas(64) std::byte params[kMaxParams];
#if defined(STRATA_EMU_RACE)
  std::optional<LaunchShadow> shadow;
#endif
};
std::shared_ptr<StagedLaunch> stage(const DeviceState& device, const KernelImage& image, Grid grid,
                                    int shared_bytes, const void* params);

#if defined(STRATA_EMU_RACE)
// What a launch on the device can reach, sorted: its memory and that of the host which is pinned
// (address, bytes).
std::vector<MemoryRange> reachable(const DeviceState& device,
                                   const std::map<uintptr_t, size_t>& pinned);
#endif

struct RecordedLaunch {
  KernelImage image;
  Grid grid;
  int shared_bytes = 0;
  std::vector<std::byte> params;
};

// What was launched on a stream between begin_recording() and end_recording().
struct Graph {
  int device = 0;
  std::vector<RecordedLaunch> launches;
  bool broken = false;  // a call in between was refused
};

}  // namespace strata::gpu::emu
