// The devices of one engine: found, opened together, proved.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/device_spec.h"
#include "backend/module_loader.h"
#include "base/status.h"
#include "engine/options.h"

namespace strata::engine {

struct DeviceSet {
  // Modules live as long as their devices.
  std::vector<std::shared_ptr<backend::LoadedModule>> modules;
  std::vector<std::unique_ptr<backend::Device>> devices;  // in the order they were named

  DeviceSet() = default;
  DeviceSet(DeviceSet&&) = default;
  DeviceSet& operator=(DeviceSet&& other) noexcept;
  ~DeviceSet() { devices.clear(); }

  // The module that opened a device; nullptr for the CPU.
  backend::LoadedModule* module_of(size_t device) const;

 private:
  friend Result<DeviceSet> open_devices(const EngineOptions& options);
  std::vector<backend::LoadedModule*> owners_;
};

// Every card that a back end of this build serves, cards that share the host's memory left out.
std::vector<backend::DeviceRequest> usable_cards(const EngineOptions& options);

// Opens the devices of `options.devices` ("cpu" when empty) with their options. Everything that is
// wrong with any of them is in one message. Two names of one card are refused.
Result<DeviceSet> open_devices(const EngineOptions& options);

// "hip:1 gfx1030 AMD Radeon RX 6950 XT"
std::string device_title(const backend::DeviceCaps& caps);

// Runs the self-tests of every device for a model with these weight types: one device after the
// other in the orders 0, 1, ..., 0, then all at once, since the order in which devices are first used
// must not matter. Everything that fails is in one message. `progress` gets what is being done.
Status prove_devices(DeviceSet& set, const std::vector<QuantType>& types,
                     const std::function<void(const std::string&)>& progress);

}  // namespace strata::engine
