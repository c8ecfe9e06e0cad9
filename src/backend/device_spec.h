// The names of devices as users write them, and options that are meant for one device.
//
//   cpu              this machine's processors
//   cuda:0, hip:1    the card with this number in its driver
//   hip:0000:03:00.0 the card at this PCI address
//   emu:gfx1100      an emulated card; settings follow as :key=value,key=value
// A `#tag` at the end tells two emulated cards of one kind apart, emu:gfx1100#1,emu:gfx1100#2, and says
// that one real device is meant to be opened twice: cuda:0#1,cuda:0#2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/module.h"
#include "base/status.h"

namespace strata::backend {

// "cpu", "cuda", "hip", "emu".
std::string_view device_kind(const DeviceRequest& request);

// "cuda:0,hip:1": one request per device, in order. A comma starts a new device only where a device
// name follows it. Fails on an unknown kind, a missing target, or a device named twice.
Result<std::vector<DeviceRequest>> parse_device_list(std::string_view text);

// "1:reserve-mib=5120" or "hip:1:kernels=reference": the number of the device in `devices`, from 0,
// or its name; then kernels=auto|reference|OP,OP, OP=reference, graphs=on|off, peer=on|off,
// reserve-mib=N or vram-limit-mib=N.
Status apply_device_option(std::string_view text, std::vector<DeviceRequest>& devices);

// "auto", "reference", or names of ops separated by commas.
Result<KernelPolicy> parse_kernel_policy(std::string_view text);

}  // namespace strata::backend
