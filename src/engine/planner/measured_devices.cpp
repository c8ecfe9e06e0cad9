#include "engine/planner/measured_devices.h"

#include <algorithm>

#include "backend/cpu/cpu_device.h"
#include "engine/device_rates.h"
#include "engine/planner/host_memory.h"

namespace strata::engine {

namespace {

using backend::Device;

bool is_cpu(const Device& device) { return device.caps().id == "cpu"; }

// Of RAM this process knows; a card knows its own, and what of it is not to be used.
Result<uint64_t> free_on(Device& device, const backend::DeviceRequest& request) {
  if (!is_cpu(device)) return device.free_bytes();
  const uint64_t ram = available_ram();
  const uint64_t left = ram - std::min(ram, request.reserve_bytes);
  return request.memory_limit_bytes > 0 ? std::min(left, request.memory_limit_bytes) : left;
}

Result<PlanDevice> measure(Device& device, const backend::DeviceRequest& request) {
  // Before measuring, which takes memory that work then uses.
  STRATA_ASSIGN_OR_RETURN(const uint64_t free_bytes, free_on(device, request));
  STRATA_ASSIGN_OR_RETURN(const DeviceRates rates, measure_device(device));
  PlanDevice out;
  out.id = device.caps().id;
  out.title = device_title(device.caps());
  out.kind = is_cpu(device) ? PlanDevice::Kind::kCpu : PlanDevice::Kind::kGpu;
  out.free_bytes = free_bytes;
  out.memory_gbs = rates.memory_gbs;
  out.int8_tops = rates.int8_tops;
  out.launch_us = rates.launch_us;
  out.to_device_gbs = rates.to_device_gbs;
  out.to_host_gbs = rates.to_host_gbs;
  out.workers = device.caps().workers;
  return out;
}

}  // namespace

Result<std::vector<PlanDevice>> measure_plan_devices(
    DeviceSet& set, const EngineOptions& options,
    const std::function<void(const std::string&)>& progress) {
  std::vector<PlanDevice> out;
  bool has_cpu = false;
  for (size_t i = 0; i < set.devices.size(); ++i) {
    Device& device = *set.devices[i];
    progress(fmt::format("measuring {}", device_title(device.caps())));
    has_cpu = has_cpu || is_cpu(device);
    const backend::DeviceRequest request =
        i < options.devices.size() ? options.devices[i] : backend::DeviceRequest{};
    STRATA_ASSIGN_OR_RETURN(PlanDevice measured, measure(device, request));
    out.push_back(std::move(measured));
  }
  if (has_cpu) return out;
  progress("measuring the CPU");
  STRATA_ASSIGN_OR_RETURN(
      const std::unique_ptr<Device> cpu,
      backend::open_cpu_device(
          {.workers = options.workers, .kernels = options.kernels, .disabled_features = 0}));
  STRATA_ASSIGN_OR_RETURN(PlanDevice host, measure(*cpu, {}));
  host.may_be_stage = false;
  out.push_back(std::move(host));
  return out;
}

}  // namespace strata::engine
