#include "backend/gpu/emu/launch.h"

#include <algorithm>
#include <cstring>

#include "backend/gpu/emu/block.h"
#include "backend/gpu/emu/faults.h"

namespace strata::gpu::emu {

namespace {

constexpr int kDefaultShared = 48 * 1024;

}  // namespace

RuntimeResult check_geometry(const DeviceState& device, const KernelImage& image, Grid grid,
                             int shared_bytes) {
  const DeviceSpec& spec = device.spec;
  const int threads = image.shape.threads;
  const auto bad_geometry = [&](const char* what) {
    return fault(RuntimeFault::kInvalid, 9, "emuErrorInvalidConfiguration",
                 fmt::format("{} with grid ({}, {}, {}), {} threads and {} bytes of shared memory: "
                             "{}",
                             kernel_name(image.key.kernel), grid.x, grid.y, grid.z, threads,
                             shared_bytes, what));
  };
  if (grid.x < 1 || grid.y < 1 || grid.z < 1) return bad_geometry("the grid is empty");
  if (static_cast<double>(grid.x) * grid.y * grid.z >= 4294967296.0) {
    return bad_geometry("the emulator runs fewer than 2^32 blocks");
  }
  if (grid.y > 65535 || grid.z > 65535) return bad_geometry("y and z are at most 65535");
  if (threads < 32 || threads > BlockRunner::kMaxThreads || threads % 32 != 0) {
    return bad_geometry("a block has 32 to 1024 threads in whole waves");
  }
  if (shared_bytes < 0 || shared_bytes > spec.shared_bytes ||
      shared_bytes > BlockRunner::kMaxSharedBytes) {
    return bad_geometry("more shared memory than a block of this device has");
  }
  if (spec.vendor == Vendor::kNvidia && shared_bytes > kDefaultShared &&
      shared_bytes > device.allowed_shared(image.entry)) {
    return bad_geometry("more shared memory than allow_shared() was asked for");
  }
  if (image.params_bytes < 0 || static_cast<size_t>(image.params_bytes) > kMaxParams) {
    return bad_geometry("more than 4096 bytes of parameters");
  }
  return {};
}

std::shared_ptr<StagedLaunch> stage(const DeviceState& device, const KernelImage& image, Grid grid,
                                    int shared_bytes, const void* params) {
  auto staged = std::make_shared_for_overwrite<StagedLaunch>();
  const auto bytes = static_cast<size_t>(image.params_bytes);
  std::memcpy(staged->params, params, bytes);
  staged->launch = {
      .entry =
          reinterpret_cast<void (*)(const Thread&, const void*)>(const_cast<void*>(image.entry)),
      .params = staged->params,
      .params_bytes = bytes,
      .threads = image.shape.threads,
      .shared_bytes = shared_bytes,
      .grid = grid,
      .async_copies = device.spec.vendor == Vendor::kNvidia && device.spec.group != "sm75"};
  return staged;
}

#if defined(STRATA_EMU_RACE)
std::vector<MemoryRange> reachable(const DeviceState& device,
                                   const std::map<uintptr_t, size_t>& pinned) {
  std::vector<MemoryRange> out;
  device.memory.for_each([&](uintptr_t begin, size_t bytes) {
    out.push_back({begin, begin + bytes});
  });
  for (const auto& [begin, bytes] : pinned) out.push_back({begin, begin + bytes});
  std::sort(out.begin(), out.end(),
            [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  return out;
}
#endif

}  // namespace strata::gpu::emu
