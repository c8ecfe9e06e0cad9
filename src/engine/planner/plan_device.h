// A device as the planner sees it: what is free on it and how fast it was measured to be. Pure
// numbers, so that a machine can also be described by hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace strata::engine {

struct PlanDevice {
  enum class Kind : uint8_t { kGpu, kCpu };

  std::string id;     // "hip:1"
  std::string title;  // "hip:1 gfx1030 AMD Radeon RX 6950 XT"
  Kind kind = Kind::kGpu;
  uint64_t free_bytes = 0;   // on this device, less what is to stay free or is beyond its limit
  double memory_gbs = 0;     // bytes read and written by copies on the device, 1e9 per second
  double int8_tops = 0;      // many-row products, two operations per multiply-add
  double launch_us = 0;      // one small kernel, queued behind others
  double to_device_gbs = 0;  // from and to host memory
  double to_host_gbs = 0;
  int workers = 0;  // CPU threads or multiprocessors; for the table only
  // False: not a stage. The CPU of a machine whose user named only cards still computes experts
  // that no card holds.
  bool may_be_stage = true;

  bool is_cpu() const { return kind == Kind::kCpu; }
};

// Devices described by hand, separated by commas: ARCH:MEMORY:BANDWIDTH and then, in any order and
// each at most once, more of what was measured elsewhere or a name.
//
//   gfx1100:24GiB:800GB/s
//   gfx1100:24GiB:800GB/s:100TOPS:RX 7900 XTX
//   gfx1030:16GiB:512GB/s:link=6GB/s:launch=5us,cpu:62GiB:40GB/s
//
// `cpu` is a CPU, everything else a card. Where the rest is not given it is assumed: int8 rate from
// the bandwidth and the architecture, a link of 12 GB/s, 4 us per launch. Devices of one
// architecture get ids with a number: gfx1100#1, gfx1100#2. Fails with the part that is wrong.
Result<std::vector<PlanDevice>> parse_assumed_devices(std::string_view text);

}  // namespace strata::engine
