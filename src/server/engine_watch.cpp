#include "server/engine_watch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"

namespace strata::server {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct EngineWatch::State {
  struct Entry {
    std::shared_ptr<EventGate> gate;
    std::shared_ptr<engine::RequestHandle> handle;
    Clock::time_point asked;
    std::optional<Clock::time_point> heard;
    std::optional<Clock::time_point> given_up;
  };

  void event(uint64_t serial, const engine::Event& event) {
    const bool last = std::holds_alternative<engine::Finished>(event) ||
                      std::holds_alternative<engine::Failed>(event);
    Entry ended;  // destroyed outside the lock
    const std::lock_guard lock(mutex);
    last_sign = Clock::now();
    const auto found = entries.find(serial);
    if (found == entries.end()) return;
    found->second.heard = last_sign;
    if (!last) return;
    ended = std::move(found->second);
    entries.erase(found);
  }

  // Under the mutex. A request that was given up and has not ended within the grace.
  bool ignored(const Entry& entry, Clock::time_point now) const {
    return entry.given_up && now - *entry.given_up >= grace;
  }
  bool stuck(Clock::time_point now) const {
    return std::any_of(entries.begin(), entries.end(), [&](const auto& one) {
      return ignored(one.second, now) && last_sign < *one.second.given_up;
    });
  }

  State(std::chrono::milliseconds given_limit, std::chrono::milliseconds given_grace)
      : limit(given_limit), grace(given_grace) {}

  const std::chrono::milliseconds limit;
  const std::chrono::milliseconds grace;
  mutable std::mutex mutex;
  uint64_t next_serial = 0;
  std::map<uint64_t, Entry> entries;  // by serial, so in the order in which they came
  Clock::time_point last_sign = Clock::now();
  Clock::time_point last_given_up = last_sign;
};

struct EngineWatch::Watched::Parts {
  std::shared_ptr<State> state;
  std::shared_ptr<EventGate> gate;
  uint64_t serial = 0;
  bool accepted = false;
};

EngineWatch::EngineWatch(std::chrono::milliseconds limit, std::chrono::milliseconds grace)
    : state_(std::make_shared<State>(limit, grace)) {}

EngineWatch::~EngineWatch() = default;

EngineWatch::Watched EngineWatch::begin(std::shared_ptr<EventGate> gate) {
  const std::lock_guard lock(state_->mutex);
  const uint64_t serial = state_->next_serial++;
  state_->entries[serial] = {gate, nullptr, Clock::now(), std::nullopt, std::nullopt};
  return Watched(std::unique_ptr<Watched::Parts>(
      new Watched::Parts{state_, std::move(gate), serial, false}));
}

EngineWatch::Watched::Watched(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

EngineWatch::Watched::~Watched() {
  if (parts_->accepted) return;
  const std::lock_guard lock(parts_->state->mutex);
  parts_->state->entries.erase(parts_->serial);
}

engine::EventSink EngineWatch::Watched::sink() const {
  // Weak: a request that the engine has lost would else keep itself alive by its handle.
  return [state = std::weak_ptr(parts_->state), serial = parts_->serial,
          gate = parts_->gate](const engine::Event& event) {
    if (const auto watch = state.lock()) watch->event(serial, event);
    gate->deliver(event);
  };
}

void EngineWatch::Watched::accepted(std::shared_ptr<engine::RequestHandle> handle) {
  parts_->accepted = true;
  {
    const std::lock_guard lock(parts_->state->mutex);
    const auto found = parts_->state->entries.find(parts_->serial);
    if (found == parts_->state->entries.end()) return;  // it has ended already
    found->second.handle = handle;
    if (!found->second.given_up) return;
  }
  handle->cancel();
}

void EngineWatch::sign_of_life() {
  const std::lock_guard lock(state_->mutex);
  state_->last_sign = Clock::now();
}

void EngineWatch::check(Clock::time_point now) {
  if (state_->limit.count() == 0) return;
  std::vector<State::Entry> overdue;
  {
    const std::lock_guard lock(state_->mutex);
    const bool stuck = state_->stuck(now);
    bool oldest = true;
    for (auto& [serial, entry] : state_->entries) {
      if (entry.given_up) continue;
      const bool first = std::exchange(oldest, false);
      Clock::time_point sign = entry.heard.value_or(std::max(entry.asked, state_->last_sign));
      if (!entry.heard && !stuck) {
        if (!first) continue;
        sign = std::max(sign, state_->last_given_up);  // its turn has come only now
      }
      if (now - sign < state_->limit) continue;
      entry.given_up = now;
      overdue.push_back(entry);
    }
    if (!overdue.empty()) state_->last_given_up = now;
  }
  for (const State::Entry& entry : overdue) {
    log::error("the engine has given no sign of life for {:.1f} s; a request is given up",
               seconds(state_->limit));
    // Told first: the engine's own last event would only say that it was cancelled.
    entry.gate->deliver(engine::Failed{unavailable(
        "The engine gave no sign of life for {:g} seconds, so this request was ended; the server "
        "goes on, and GET /health tells how the engine is.",
        seconds(state_->limit))});
    if (entry.handle) entry.handle->cancel();
  }
}

EngineWatch::Trouble EngineWatch::trouble(Clock::time_point now) const {
  const std::lock_guard lock(state_->mutex);
  const auto ignored = std::count_if(
      state_->entries.begin(), state_->entries.end(),
      [&](const auto& one) { return state_->ignored(one.second, now); });
  if (ignored == 0) return {};
  if (state_->stuck(now)) {
    return {fmt::format("The engine has given no sign of life for {:.0f} s and does not end what "
                        "was cancelled; restart the server if that goes on.",
                        seconds(now - state_->last_sign)),
            true};
  }
  return {fmt::format("{} cancelled request{} not ended in the engine, which goes on with others.",
                      ignored, ignored == 1 ? " has" : "s have"),
          false};
}

}  // namespace strata::server
