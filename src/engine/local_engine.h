// The engine of this process: one thread that loads a model, owns its sessions and serves requests
// one after another, oldest first.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/options.h"

namespace strata::engine {

// Returns at once; loading goes on in the engine thread and state() tells. The destructor cancels
// what is running or queued and waits for the thread.
std::unique_ptr<Engine> start_local_engine(EngineOptions options);

}  // namespace strata::engine
