// Opened devices as the planner sees them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/devices.h"
#include "engine/options.h"
#include "engine/planner/plan_device.h"

namespace strata::engine {

// One per device of `set`, in its order, measured now (engine/device_rates.h) with the memory free
// now. `options` are those the set was opened with. Where the CPU is not among them it follows at
// the end as a device that is no stage, since it computes experts that no card holds and keeps
// them. The devices must be idle. `progress` gets what is being done.
Result<std::vector<PlanDevice>> measure_plan_devices(
    DeviceSet& set, const EngineOptions& options,
    const std::function<void(const std::string&)>& progress);

}  // namespace strata::engine
