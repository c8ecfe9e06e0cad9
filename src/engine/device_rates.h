// How fast a device is, measured through the same doors that the model uses. What the planner
// computes with, and what `strata doctor` prints.
#pragma once

#include "backend/device.h"
#include "base/status.h"

namespace strata::engine {

struct DeviceRates {
  double memory_gbs = 0;     // copies on the device, bytes read plus bytes written
  double to_device_gbs = 0;  // from ordinary host memory
  double to_host_gbs = 0;
  double launch_us = 0;      // one small op, queued behind others
  double int8_tops = 0;      // a Q8_0 product with many rows, two operations per multiply-add
};

// Takes a few hundred milliseconds on a real card and about 100 MiB of its memory; less of both on an
// emulated one. The device must be idle.
Result<DeviceRates> measure_device(backend::Device& device);

}  // namespace strata::engine
