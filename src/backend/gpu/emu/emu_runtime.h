// The emulator as a runtime: devices made from specs (emu/spec.h) that behave as an asynchronous
// driver's do, on the host.
//
// What it is strict about: a stream, event or address of another device, a host address where a
// device address belongs and the reverse, shared memory beyond what was allowed, geometry beyond
// the limits: kInvalid at the call. Parameters of a launch that hold an address of another device's
// memory, or of memory that was released, likewise. Fresh device memory and a block's shared memory
// are filled with 0xff. Writes past an allocation are found at synchronize().
//
// A launch of an image that the device has no code for is accepted; kNoImage surfaces from a later
// call and stays, as does a fault of a kernel. On a lost device every call answers kLost. Memory,
// streams and events are given back even by a call that answers with an older error.
//
// While a stream records, what is no launch is refused there and spoils the recording, and so is
// memory asked for or given back. Each launch of a graph counts and fails as one of its device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/gpu/image.h"
#include "backend/gpu/runtime.h"
#include "base/status.h"

namespace strata::gpu {

// Work that a device does not begin while a test holds it back.
struct EmuHold {
  bool launches = false;
  std::optional<CopyKind> copies{};
  size_t least_bytes = 1;  // of a copy that is held
};

class EmuRuntime : public Runtime {
 public:
  // What a test may ask about a device: that work went where it should, and that nothing is left.
  struct Counters {
    uint64_t calls = 0;
    uint64_t launches = 0;
    uint64_t launches_done = 0;
    uint64_t copies = 0;       // begun, of every kind
    uint64_t peer_copies = 0;  // directly to this device
    uint64_t copies_to_device_done = 0;
    uint64_t copies_to_host_done = 0;
    uint64_t allocation_calls = 0;
    uint64_t live_allocations = 0;
    uint64_t live_bytes = 0;
    uint64_t live_streams = 0;
    uint64_t live_events = 0;
    uint64_t live_graphs = 0;
  };
  virtual Counters counters(int device) const = 0;
  virtual uint64_t live_pinned() const = 0;
  // In place of what was held before; {} lets everything go.
  virtual void hold(int device, const EmuHold& what) = 0;
  // The device that the calling thread's last call named, -1 before its first.
  virtual int current_device() const = 0;
};

// One device per spec, in this order; `images` are the code objects of the module, which devices
// then have as far as their group is theirs. `seed` is mixed into the seeds of the devices. Fails
// when a spec cannot be read.
Result<std::unique_ptr<EmuRuntime>> make_emu_runtime(std::vector<std::string> specs, uint64_t seed,
                                                     const ImageList& images);

}  // namespace strata::gpu
