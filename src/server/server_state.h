// What requests of one server share beyond the engine.
#pragma once

#include "server/activity.h"
#include "server/engine_watch.h"
#include "server/metrics.h"
#include "server/response_store.h"
#include "server/server_options.h"

namespace strata::server {

struct ServerState {
  // `engine` must outlive this.
  ServerState(const ServerOptions& given, const engine::Engine& engine)
      : options(given),
        metrics(engine),
        watch(given.silence_timeout, given.cancel_grace),
        responses(given.max_stored_responses, given.max_stored_bytes) {}

  const ServerOptions& options;
  Metrics metrics;
  EngineWatch watch;
  Activity activity;
  ResponseStore responses;
};

}  // namespace strata::server
