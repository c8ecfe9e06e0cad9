// What an emulated device is: a card of the table, changed by options.
//
//   gfx1100
//   gfx1100:memory-mib=256,seed=7,max-delay-us=200,fail-launch=17
//
// Options
//   name=TEXT                the card's name after "Emulated "
//   memory-mib=N             memory of the card
//   multiprocessors=N
//   seed=N                   of delays and of the order of blocks; default: from the runtime's seed
//   max-delay-us=N           longest delay before a piece of work on a stream (default 50; 0: none)
//   drop-image=KERNEL        the module's image of this kernel is missing on this device;
//                            repeatable
//   graphs=0|1               records launches and runs them again (default 1)
//   host-waits=0|1           work on a stream may wait for the host (default 1)
//   peer=0|1                 claims direct copies with other devices of its vendor (default 1)
// Faults; n counts this device's calls of that kind from 1
//   fail-allocation=n        allocation n finds no memory
//   fail-launch=n            launch n is refused
//   late-error-at-launch=n   launch n is accepted; its failure shows later and stays
//   lose-at-launch=n         launch n is accepted; from then on the device does not answer
//   fail-copy=n              copy n is refused
//   late-error-at-copy=n     copy n is accepted; its failure shows later and stays
//   corrupt-copy-to-host=n   from copy to the host n on, bytes arrive wrong
//   corrupt-peer-copy=n      from direct copy n from another device on, bytes arrive wrong
//   corrupt-one-peer-copy=n  bytes of direct copy n arrive wrong
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gpu/kernel_id.h"
#include "base/status.h"

namespace strata::gpu::emu {

enum class Vendor : uint8_t { kNvidia, kAmd };

struct DeviceSpec {
  std::string arch;
  std::string group;  // "" for an architecture that no group serves
  std::string name;
  Vendor vendor = Vendor::kNvidia;
  int multiprocessors = 0;
  int wave = 32;
  uint64_t memory_bytes = 0;
  int shared_bytes = 0;
  bool integrated = false;

  uint64_t seed = 0;
  int max_delay_us = 50;
  std::vector<Kernel> dropped;
  bool peer = true;
  bool graphs = true;
  bool host_waits = true;
  uint64_t fail_allocation = 0;  // 0: none
  uint64_t fail_launch = 0;
  uint64_t late_error_at_launch = 0;
  uint64_t lose_at_launch = 0;
  uint64_t fail_copy = 0;
  uint64_t late_error_at_copy = 0;
  uint64_t corrupt_copy_to_host = 0;
  uint64_t corrupt_peer_copy = 0;
  uint64_t corrupt_one_peer_copy = 0;
};

// `text` may begin with "emu:". `default_seed` serves a spec without seed=.
Result<DeviceSpec> parse_device_spec(std::string_view text, uint64_t default_seed);

// What corrupt-copy-to-host and corrupt-peer-copy do to `data`: a bit of every page changes, not always
// in the same place.
void corrupt(const DeviceSpec& spec, void* data, size_t bytes);

}  // namespace strata::gpu::emu
