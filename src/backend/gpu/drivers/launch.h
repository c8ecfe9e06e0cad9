// What the driver files share: rows of portable kernels and grid arithmetic.
#pragma once

#include <span>

#include "backend/gpu/drivers/rows.h"
#include "backend/gpu/gpu_device.h"

namespace strata::gpu {

// Blocks that take `per_block` of `count` each; at least one.
constexpr int pieces(int64_t count, int64_t per_block) {
  return static_cast<int>(count > 0 ? (count + per_block - 1) / per_block : 1);
}

template <class Args, Status (*kRun)(GpuStream&, const Args&)>
Status launch_op(backend::Stream& stream, const void* args) {
  return kRun(gpu_stream(stream), *static_cast<const Args*>(args));
}

// A row every group has.
template <class Args, Status (*kRun)(GpuStream&, const Args&)>
constexpr backend::KernelSpec portable_row(const char* name, std::span<const uint32_t> images,
                                           std::optional<QuantType> type = std::nullopt) {
  return {.name = name,
          .op = Args::kOp,
          .weight_type = type,
          .reference = true,
          .rank = 0,
          .needs = 0,
          .launch = &launch_op<Args, kRun>,
          .images = images};
}

}  // namespace strata::gpu
