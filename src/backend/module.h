// A loadable back end. The program links none of them: it opens libstrata_<kind>.so beside itself
// when a device of that kind is asked for, so that one build runs with and without each driver.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "base/status.h"

namespace strata::backend {

struct ModuleLibrary {
  std::string name;
  std::string path;     // of the file really mapped
  std::string version;
};

// One compiled kernel on one device, as `strata kernels` prints it.
struct ImageReport {
  std::string kernel;  // "MatmulVec"
  std::string type;    // "Q8_0", or "" where it serves any
  int variant = 0;
  int threads = 0, registers = 0, local_bytes = 0, shared_bytes = 0;
};

// What a driver says of a card, whether this build can use it or not.
struct DeviceSummary {
  std::string id;         // "cuda:0"
  std::string name, arch, stable_id;
  uint64_t memory_bytes = 0, free_bytes = 0;
  bool integrated = false;
  std::string problem;    // why this build cannot use it; empty when it can
};

struct DeviceRequest {
  std::string id;      // as the user named it: "cuda:0", "emu:gfx1100"
  std::string target;  // what stands behind the kind: "0", "gfx1100:memory-mib=256"
  KernelPolicy kernels;
  uint64_t reserve_bytes = 0;
  uint64_t memory_limit_bytes = 0;
  bool graphs = true;  // decode steps may be recorded and replayed
  bool peer = true;    // other cards of its driver may copy directly from and to it
};

class Module {
 public:
  virtual ~Module() = default;

  virtual std::string kind() const = 0;            // "cuda"
  virtual std::string driver_version() const = 0;  // "" where there is none
  virtual std::vector<ModuleLibrary> libraries() const = 0;
  virtual std::vector<std::string> groups() const = 0;  // architecture groups with code inside

  // Every card the driver shows. kUnavailable when the driver is missing or too old.
  virtual Result<std::vector<DeviceSummary>> devices() = 0;
  // Opens them together, so that they may copy to each other; result[i] belongs to requests[i], a
  // failure is that device's own. The module must outlive the devices.
  virtual std::vector<Result<std::unique_ptr<Device>>> open(
      std::span<const DeviceRequest> requests) = 0;
  // The kernels compiled for an opened device of this module.
  virtual std::vector<ImageReport> images(Device& device) = 0;
};

// What a module exports, with C linkage and this name. The program reads it before it calls
// anything: `interface_hash` must be its own.
struct ModuleHeader {
  uint32_t magic = kMagic;
  const char* interface_hash;
  const char* version;
  const char* architectures;  // "gfx1030 gfx1100"
  // Caller owns the result; nullptr with `error` filled when the driver does not start.
  Module* (*create)(std::string& error);

  static constexpr uint32_t kMagic = 0x53545241;
};
inline constexpr const char* kModuleSymbol = "strata_backend_module";

}  // namespace strata::backend
