// What the generations of this server are doing and what the last ones did, for GET /v1/status:
// counts and times, never a byte of a prompt or an answer. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "engine/engine.h"
#include "server/json_input.h"

namespace strata::server {

class Activity {
 public:
  // One generation, from its submission to the engine on. One that ends without finish() or fail()
  // counts as cancelled. For one thread at a time; the Activity outlives it.
  class Entry {
   public:
    Entry(Entry&& other) noexcept;
    Entry& operator=(Entry&&) = delete;
    ~Entry();

    void progress(const engine::PromptProgress& progress);
    void text(const engine::TextDelta& delta);
    void finish(const engine::Finished& finished);
    void fail();

   private:
    friend class Activity;
    Entry(Activity& activity, uint64_t serial) : activity_(&activity), serial_(serial) {}
    Activity* activity_;  // nullptr: the end has been told
    uint64_t serial_;
  };

  Entry begin(std::string request_id, std::string endpoint, int prompt_tokens);

  // "read_tokens" and "generated_tokens" since the start, running requests included; "requests" in
  // the order in which they came, of which the first `running` are in work; "recent", newest
  // first.
  Json describe(int running) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Running {
    std::string request_id;
    std::string endpoint;
    int prompt_tokens = 0;
    int prompt_read = 0;
    int generated = 0;
    Clock::time_point begin;
  };

  void end(uint64_t serial, const char* outcome, const engine::Usage* usage);

  mutable std::mutex mutex_;
  uint64_t next_serial_ = 0;
  uint64_t read_tokens_ = 0;
  uint64_t generated_tokens_ = 0;
  std::map<uint64_t, Running> running_;  // by serial, so in order
  std::deque<Json> recent_;              // newest first
};

}  // namespace strata::server
