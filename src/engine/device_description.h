// What a device computes with, as JSON: for `strata kernels`, `strata doctor` and /health?verbose.
#pragma once

#include <nlohmann/json.hpp>

#include "backend/module_loader.h"
#include "engine/device_rates.h"

namespace strata::engine {

// The row of each operation, and of each weight type where types have rows of their own.
nlohmann::ordered_json kernel_table_json(const backend::Device& device);

// The compiled images that `device` of `module` uses, with what their compiler said; none for a device
// of no module (nullptr).
nlohmann::ordered_json images_json(const backend::LoadedModule* module,
                                   backend::Device& device);

nlohmann::ordered_json rates_json(const DeviceRates& rates);

}  // namespace strata::engine
