// A kernel image: one kernel, compiled for one architecture group, as a module lists it. Host code
// that launches it learns geometry from here, so that launch and kernel cannot disagree: the numbers
// come from the kernel's own type.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/gpu/kernel_id.h"

namespace strata::gpu {

// From the constants of a kernel type: kThreads and, where it has them, kSharedBytes, kTileM, kTileN.
struct LaunchShape {
  int threads = 0;       // of a block
  int shared_bytes = 0;  // the fixed part; a driver may ask for more, up to the group's limit
  int tile_m = 1;        // rows (tokens) of a block's tile
  int tile_n = 1;        // outputs of a block's tile
};

struct KernelImage {
  ImageKey key;
  const char* group = nullptr;  // "sm90"
  const void* entry = nullptr;  // what the module's runtime launches
  int params_bytes = 0;
  int max_shared_bytes = 0;     // a block of this image may ask for, at most
  LaunchShape shape;
};

using ImageList = std::vector<KernelImage>;

template <class K>
constexpr LaunchShape launch_shape() {
  LaunchShape shape{.threads = K::kThreads};
  if constexpr (requires { K::kSharedBytes; }) shape.shared_bytes = K::kSharedBytes;
  if constexpr (requires { K::kTileM; }) shape.tile_m = K::kTileM;
  if constexpr (requires { K::kTileN; }) shape.tile_n = K::kTileN;
  return shape;
}

}  // namespace strata::gpu
