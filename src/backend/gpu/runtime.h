// What a module's vendor runtime does for the one GPU device class. Nothing here keeps a current
// device between calls: every call names its device, and an implementation selects it on the calling
// thread first, so that no thread inherits another's choice. Calls may come from any thread.
//
// Errors. Every call answers for itself: an implementation reads and clears the runtime's error
// state in each call, so that an old error is never taken for a new one. Errors of work in flight
// surface from a later call on the same device; where the runtime keeps such an error until the
// process ends, `sticky` is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/image.h"
#include "base/status.h"

namespace strata::gpu {

enum class RuntimeFault : uint8_t {
  kNone,
  kNoImage,      // no code for this device in the module
  kOutOfMemory,
  kInvalid,      // the call's own arguments
  kLaunch,       // a kernel faulted
  kLost,         // the device does not answer any more
  kOther,
};

struct [[nodiscard]] RuntimeResult {
  RuntimeFault fault = RuntimeFault::kNone;
  int code = 0;          // the vendor's number
  std::string text{};    // "cudaErrorNoKernelImageForDevice: no kernel image is available ..."
  bool sticky = false;

  bool ok() const { return fault == RuntimeFault::kNone; }
};

struct RuntimeDevice {
  std::string arch;       // "sm90", "gfx1100": exactly as the driver says, without feature suffixes
  std::string group;      // the architecture group that serves it: "sm90", "gfx11"; "" when none
  std::string name;       // the vendor's name of the card
  std::string stable_id;  // PCI address, "0000:41:00.0"
  int multiprocessors = 0;
  int wave = 0;
  uint64_t memory_bytes = 0;
  int shared_bytes = 0;   // of one block, at most
  bool integrated = false;
};

// A library that the module really loaded.
struct RuntimeLibrary {
  std::string name;     // "libcudart.so.13"
  std::string path;     // full path of the mapped file
  std::string version;
};

struct FunctionFacts {
  int max_threads = 0;      // of a block, for this function on this device
  int registers = 0;
  int local_bytes = 0;      // spilled, per thread
  int static_shared_bytes = 0;
};

struct Grid {
  int x = 1, y = 1, z = 1;
};

using RuntimeStream = void*;
using RuntimeEvent = void*;
using RuntimeGraph = void*;  // launches that were recorded from a stream

enum class CopyKind : uint8_t { kToDevice, kToHost, kOnDevice };

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual const char* kind() const = 0;  // "cuda", "hip", "emu"
  virtual std::string driver_version() const = 0;
  virtual std::vector<RuntimeLibrary> libraries() const = 0;

  // Devices are numbered from 0.
  virtual RuntimeResult device_count(int& count) = 0;
  virtual RuntimeResult device(int ordinal, RuntimeDevice& out) = 0;
  virtual RuntimeResult memory_info(int device, uint64_t& free_bytes, uint64_t& total_bytes) = 0;

  virtual RuntimeResult allocate(int device, size_t bytes, void*& out) = 0;
  virtual RuntimeResult release(int device, void* data) = 0;
  // Host memory that every device of the process can copy from and to without staging.
  virtual RuntimeResult allocate_pinned(int device, size_t bytes, void*& out) = 0;
  virtual RuntimeResult release_pinned(int device, void* data) = 0;

  virtual RuntimeResult create_stream(int device, RuntimeStream& out) = 0;
  virtual RuntimeResult destroy_stream(int device, RuntimeStream stream) = 0;
  virtual RuntimeResult synchronize(int device, RuntimeStream stream) = 0;

  virtual RuntimeResult create_event(int device, RuntimeEvent& out) = 0;
  virtual RuntimeResult destroy_event(int device, RuntimeEvent event) = 0;
  virtual RuntimeResult record(int device, RuntimeEvent event, RuntimeStream stream) = 0;
  virtual RuntimeResult wait(int device, RuntimeStream stream, RuntimeEvent event) = 0;
  virtual RuntimeResult synchronize_event(int device, RuntimeEvent event) = 0;
  virtual RuntimeResult query_event(int device, RuntimeEvent event, bool& done) = 0;
  // Milliseconds between two recorded, finished events.
  virtual RuntimeResult elapsed(int device, RuntimeEvent begin, RuntimeEvent end, float& ms) = 0;

  // Asynchronous on the stream. Pageable host memory may be used: the call then returns once the
  // source has been read, or the destination written.
  virtual RuntimeResult copy(int device, RuntimeStream stream, void* dst, const void* src,
                             size_t bytes, CopyKind kind) = 0;
  virtual RuntimeResult fill_zero(int device, RuntimeStream stream, void* dst, size_t bytes) = 0;
  // Direct copies between two devices of this runtime; `can` is what the driver claims.
  virtual RuntimeResult can_copy_peer(int to, int from, bool& can) = 0;
  // Prepares copies from `from` to `to`, and back, where the driver wants that said; any number of times.
  virtual RuntimeResult open_peer(int to, int from) {
    (void)to;
    (void)from;
    return {};
  }
  virtual RuntimeResult copy_peer(int to, RuntimeStream stream_of_to, void* dst, int from,
                                  const void* src, size_t bytes) = 0;

  // Facts about a function on this device; kNoImage when the module has no code for it.
  virtual RuntimeResult function(int device, const void* entry, FunctionFacts& out) = 0;
  // Lets blocks of `entry` on this device ask for so much shared memory.
  virtual RuntimeResult allow_shared(int device, const void* entry, int bytes) = 0;
  // `params` is read before the call returns.
  virtual RuntimeResult launch(int device, RuntimeStream stream, const KernelImage& image,
                               Grid grid, int shared_bytes, const void* params) = 0;

  // ---- work that waits for the host; a runtime without it keeps these ----

  virtual bool waits_for_host(int device) {
    (void)device;
    return false;
  }
  // What the stream is given from now on begins once the host has written `value`, or one up to 2^31
  // later, to `flag`, which lies in pinned memory.
  virtual RuntimeResult wait_for_host(int device, RuntimeStream stream, const uint32_t* flag,
                                      uint32_t value) {
    (void)device;
    (void)stream;
    (void)flag;
    (void)value;
    return {.fault = RuntimeFault::kInvalid, .code = 0, .text = "this runtime does not wait for the host"};
  }
  // Writes `value` to `flag`, in pinned memory, once what the stream was given before is done, for a
  // stream of any device of the runtime that waits for it. Where waits_for_host().
  virtual RuntimeResult set_flag(int device, RuntimeStream stream, uint32_t* flag, uint32_t value) {
    (void)device;
    (void)stream;
    (void)flag;
    (void)value;
    return {.fault = RuntimeFault::kInvalid, .code = 0, .text = "this runtime sets no flags"};
  }

  // ---- recorded launches; a runtime without them keeps these ----

  virtual bool records(int device) {
    (void)device;
    return false;
  }
  // From here to end_recording() the launches on the stream are kept and not run. Nothing but
  // launches may be asked of the stream, and nothing that waits or allocates of the device by this
  // thread.
  virtual RuntimeResult begin_recording(int device, RuntimeStream stream) {
    (void)device;
    (void)stream;
    return records_nothing();
  }
  // Ends it in any case. `out` is null after a failure, and may be where nothing was launched.
  virtual RuntimeResult end_recording(int device, RuntimeStream stream, RuntimeGraph& out) {
    (void)device;
    (void)stream;
    out = nullptr;
    return records_nothing();
  }
  // Starts the recorded launches, in their order, with the parameters they were recorded with.
  virtual RuntimeResult run_graph(int device, RuntimeStream stream, RuntimeGraph graph) {
    (void)device;
    (void)stream;
    (void)graph;
    return records_nothing();
  }
  // A run that was started still ends.
  virtual RuntimeResult destroy_graph(int device, RuntimeGraph graph) {
    (void)device;
    (void)graph;
    return records_nothing();
  }

 private:
  static RuntimeResult records_nothing() {
    return {.fault = RuntimeFault::kInvalid, .code = 0, .text = "this runtime records no launches"};
  }
};

}  // namespace strata::gpu
