// Which model file the settings mean.
#pragma once

#include "apps/options.h"
#include "base/status.h"
#include "engine/options.h"
#include "format/gguf.h"

namespace strata::apps {

// The engine options with the model of the settings: the file named, or the embedded one.
engine::EngineOptions engine_options(const Settings& settings);

// The model file itself, for commands that need no engine.
Result<GgufFile> open_model_file(const Settings& settings);

}  // namespace strata::apps
