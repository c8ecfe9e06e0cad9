// Devices beside the CPU that a test program runs on: --device=emu:gfx1030,emu:gfx1100 or
// --device=cuda:0. Without the flag: those of STRATA_TEST_DEVICES at compile time, or none. Opened once
// per process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"

namespace strata::test {

// Takes --device= off the command line. False, with a message printed, when the list is no good.
bool read_device_flag(int& argc, char** argv);

// The devices of the flag; none without it. A device that does not open fails the calling test.
const std::vector<backend::Device*>& devices();

// Closes them; before the process ends.
void close_devices();

}  // namespace strata::test
