// What `strata doctor` and `strata kernels` say about the devices of this machine.
#pragma once

#include <nlohmann/json.hpp>

#include "apps/options.h"
#include "engine/devices.h"

namespace strata::apps {

// The devices of the settings or, where none are named, the CPU and every card that this build
// serves.
Result<engine::EngineOptions> devices_to_look_at(const Settings& settings);

// Back ends: path, version, architectures, driver, libraries, cards. Those that are missing say so.
nlohmann::ordered_json back_ends_json(const std::string& module_folder);

nlohmann::ordered_json device_json(const backend::DeviceCaps& caps);

// Weight types that the device has matrix products for.
std::vector<QuantType> types_of(const backend::Device& device);

}  // namespace strata::apps
