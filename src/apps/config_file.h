// Options from a file: a JSON object whose keys are the long names of options, with - or _:
//
//   {"model": "qwen.gguf", "context": 65536, "devices": ["hip:0", "hip:1"],
//    "device_options": {"1": {"kernels": "reference", "reserve_mib": 5120}}}
//
// Known from other engines and understood: "backend": "hip" with "gpu": [0, 1] means
// "devices": "hip:0,hip:1".
#pragma once

#include <string>

#include "apps/command_table.h"
#include "apps/options.h"
#include "base/status.h"

namespace strata::apps {

// Sets what the file says. A failure names the file and the key. Keys of other commands' options are
// allowed and skipped: one file may serve them all.
Status read_config_file(const std::string& path, CommandId id, Settings& settings);

}  // namespace strata::apps
