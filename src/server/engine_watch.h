// Notices an engine that has fallen silent, so that nobody waits for it for ever. Thread-safe.
//
// A sign of life of a request is any event of it. A request is given up once its last sign is older
// than the limit: it is cancelled in the engine, and its gate gets a Failed event. While a request
// has had none, it may only be waiting for its turn; then the signs of all others count too, and of
// several such requests no other is given up before the oldest, unless the engine is stuck: it has
// not heeded the end of a request for longer than the grace, and gave no sign since.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/event_gate.h"

namespace strata::server {

class EngineWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // `limit` 0: nothing is ever given up.
  EngineWatch(std::chrono::milliseconds limit, std::chrono::milliseconds grace);
  ~EngineWatch();

  // A request from before its submission on. One that dies without accepted() is forgotten; else it
  // is watched until its last event.
  class Watched {
   public:
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

    // Passes events on to the gate. May be kept for longer than the EngineWatch lives.
    engine::EventSink sink() const;
    void accepted(std::shared_ptr<engine::RequestHandle> handle);

   private:
    friend class EngineWatch;
    struct Parts;
    explicit Watched(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
  };
  Watched begin(std::shared_ptr<EventGate> gate);

  // The engine is busy with something that brings no events, such as loading.
  void sign_of_life();

  // Gives up what is overdue at `now`. To be called every so often.
  void check(Clock::time_point now = Clock::now());

  // What is wrong with the engine, in a sentence; empty when nothing is known to be.
  struct Trouble {
    std::string text;
    bool stuck = false;  // no sign of life since a request was given up
  };
  Trouble trouble(Clock::time_point now = Clock::now()) const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace strata::server
