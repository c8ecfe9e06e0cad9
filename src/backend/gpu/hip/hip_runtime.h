// The HIP runtime as gpu::Runtime.
#pragma once

#include <memory>

#include "backend/gpu/runtime.h"

namespace strata::gpu {

// Fails with kUnavailable when there is no driver, or it shows no device.
Result<std::shared_ptr<Runtime>> make_hip_runtime();

}  // namespace strata::gpu
