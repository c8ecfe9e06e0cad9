// The part of a back end module that does not depend on its runtime.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/gpu/runtime.h"
#include "backend/module.h"

namespace strata::gpu {

// Makes the runtime that serves `targets` (DeviceRequest::target); devices are then numbered in the
// order of `targets`. With no targets: the runtime that shows every card.
using RuntimeFactory =
    std::function<Result<std::shared_ptr<Runtime>>(const std::vector<std::string>& targets)>;

// `ordinal` of a target within the runtime made for all targets; real cards: the number the driver
// uses.
enum class Numbering { kByTarget, kByPosition };

std::unique_ptr<backend::Module> make_gpu_module(std::string kind, ImageList images,
                                                 RuntimeFactory factory, Numbering numbering);

}  // namespace strata::gpu
