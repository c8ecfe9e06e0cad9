// One request from its prompt to its last event, on the engine thread.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>

#include "engine/engine.h"
#include "engine/loaded_model.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "engine/thinking_budget.h"
#include "text/grammar/matcher.h"
#include "text/utf8.h"

namespace strata::engine {

// A checked request; made by prepare_generation().
struct PreparedRequest {
  GenerateRequest request;
  ResolvedSampling sampling;
  StopMatcher stop;
  std::optional<grammar::Matcher> constraint;
};

// Checks everything that can be known before any work: prompt length against the context, ids,
// sampling ranges, stop strings.
Result<PreparedRequest> prepare_generation(GenerateRequest request, const LoadedModel& loaded);

class Generation {
 public:
  // All references must outlive the run. `cancelled` may be set from any thread. `on_step` is called
  // before every forward call, on the thread of run().
  Generation(LoadedModel& loaded, memory::SequenceState& sequence, int prompt_chunk,
             PreparedRequest prepared, EventSink sink, const std::atomic<bool>& cancelled,
             std::function<void()> on_step);

  // Runs to the end. The sink gets exactly one Finished or Failed, as its last event. Returns what
  // the request failed of, for the engine to act on.
  Status run();
  const Usage& usage() const { return usage_; }

 private:
  // kCancelled once the request has been called off.
  Status begin_step();
  Status read_prompt();
  Status decode();
  // How many of the best logits are enough for every step of the request but forced ones; 0: all are
  // needed.
  int candidates() const;
  // Chooses the next token from logits_ or top_ and tells the sampler and the constraint.
  Result<SampleResult> choose();
  // Takes the chosen token into text and events. True when the answer is complete.
  bool take(const SampleResult& sampled);
  void emit(std::string text);
  void finish(FinishReason reason);
  TokenLogprob describe(const SampleResult& sampled) const;

  LoadedModel& loaded_;
  memory::SequenceState& sequence_;
  int prompt_chunk_;
  GenerateRequest request_;
  Sampler sampler_;
  StopMatcher stop_;
  std::optional<grammar::Matcher> constraint_;
  ThinkingBudget thinking_;
  EventSink sink_;
  const std::atomic<bool>& cancelled_;
  std::function<void()> on_step_;

  text::Utf8Stream utf8_;
  model::TopLogits top_;        // of the last step, when it has a k
  std::vector<float> logits_;  // all of them, when it has none or they are needed after all
  std::vector<uint64_t> mask_;  // tokens that may come next; empty for all
  int64_t unfinished_tokens_ = 0;  // tokens whose last character is still incomplete
  int64_t emitted_tokens_ = 0;
  std::deque<TokenId> waiting_tokens_;        // sampled, not yet in an event
  std::deque<TokenLogprob> waiting_logprobs_;
  Usage usage_;
  std::chrono::steady_clock::time_point decode_start_{};
};

}  // namespace strata::engine
