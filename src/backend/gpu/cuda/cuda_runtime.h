// The CUDA runtime as gpu::Runtime.
#pragma once

#include <memory>

#include "backend/gpu/runtime.h"

namespace strata::gpu {

// Fails with kUnavailable when there is no driver, or one too old for this build.
Result<std::shared_ptr<Runtime>> make_cuda_runtime();

}  // namespace strata::gpu
