// Whose memory an address is.
#pragma once

#include <memory>
#include <span>

#include "backend/gpu/emu/device_state.h"
#include "backend/gpu/runtime.h"

namespace strata::gpu::emu {

using Devices = std::span<const std::unique_ptr<DeviceState>>;

// The device whose memory [p, p + bytes) touches; nullptr: none.
const DeviceState* owner_of(Devices devices, const void* p, size_t bytes);

// Every aligned word of the parameters that is an address of a device must be one of `device`.
RuntimeResult check_params(Devices devices, const DeviceState& device, const KernelImage& image,
                           const void* params);

}  // namespace strata::gpu::emu
