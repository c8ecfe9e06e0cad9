// How prompts go from each stage to the next: directly between two cards only where copies have
// been seen to arrive, through pinned host memory everywhere else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "memory/sequence_state.h"
#include "model/handoff.h"

namespace strata::engine {

struct ProvedRoute {
  std::string from, to;  // device ids
  model::Route route = model::Route::kHost;
  std::string why;  // "24 direct copies arrived whole", "peer=off for hip:1"

  // "prompts go from hip:0 to hip:1 through host memory: peer=off for hip:1"
  std::string line() const;
  // "direct" or "host"
  const char* name() const { return route == model::Route::kDirect ? "direct" : "host"; }
};

// Where the driver of both claims direct copies: copies patterns of several sizes both ways, each
// several times, and compares what the receiving card finds, by its own sums and read back, with
// what was sent. Takes some milliseconds and twice 16 MiB on real cards. Both devices must be idle;
// whatever fails is why the route is kHost.
ProvedRoute prove_route(backend::Device& from, backend::Device& to);

// From each place to the next.
std::vector<ProvedRoute> prove_routes(std::span<const memory::LayerPlace> places);

}  // namespace strata::engine
