// What the emulator answers when something is wrong.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include "backend/gpu/runtime.h"

namespace strata::gpu::emu {

// Numbers and names as the vendors' runtimes have them.
inline RuntimeResult fault(RuntimeFault kind, int code, const char* name, std::string text,
                           bool sticky = false) {
  return {kind, code, fmt::format("{}: {}", name, text), sticky};
}
inline RuntimeResult invalid(std::string text) {
  return fault(RuntimeFault::kInvalid, 1, "emuErrorInvalidValue", std::move(text));
}
inline RuntimeResult invalid_handle(std::string text) {
  return fault(RuntimeFault::kInvalid, 400, "emuErrorInvalidHandle", std::move(text));
}
inline RuntimeResult not_while_recording(const char* what) {
  return fault(RuntimeFault::kInvalid, 900, "emuErrorStreamCaptureUnsupported",
               fmt::format("{} while launches are recorded", what));
}
inline RuntimeResult out_of_memory() {
  return fault(RuntimeFault::kOutOfMemory, 2, "emuErrorOutOfMemory", "out of memory");
}
inline RuntimeResult no_device(int ordinal) {
  return fault(RuntimeFault::kInvalid, 101, "emuErrorInvalidDevice",
               fmt::format("there is no device {}", ordinal));
}
inline RuntimeResult launch_refused(const std::string& kernel) {
  return fault(RuntimeFault::kLaunch, 701, "emuErrorLaunchOutOfResources",
               fmt::format("{}: too many resources requested for launch", kernel));
}
inline RuntimeResult no_image(bool sticky) {
  return fault(RuntimeFault::kNoImage, 209, "emuErrorNoBinaryForGpu",
               "no kernel image is available for execution on the device", sticky);
}
inline RuntimeResult launch_failure(std::string text) {
  return fault(RuntimeFault::kLaunch, 719, "emuErrorLaunchFailure", std::move(text), true);
}
inline RuntimeResult lost() {
  return fault(RuntimeFault::kLost, 46, "emuErrorDeviceUnavailable",
               "the device does not answer any more", true);
}

}  // namespace strata::gpu::emu
