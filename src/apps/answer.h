// One answer of the engine, streamed to standard output.
#pragma once

#include <string>
#include <vector>

#include "apps/interrupt.h"
#include "apps/options.h"
#include "base/status.h"
#include "engine/engine.h"

namespace strata::apps {

// Waits until the engine has loaded its model, showing progress. Fails with the engine's reason.
// A signal ends the process with kInterrupted at once: loading cannot be called off, and there is
// nothing to lose yet.
Status wait_until_ready(const engine::Engine& engine, SignalQueue& signals, bool quiet);

// The template variables that the settings ask for.
nlohmann::ordered_json template_kwargs(const Settings& settings);

// The request of the settings, for a prompt.
engine::GenerateRequest generate_request(const Settings& settings, std::vector<TokenId> prompt);

struct AnswerStyle {
  bool split_thinking = true;  // the answer may hold a think block
  bool starts_in_thinking = false;
  bool show_thinking = false;  // also where standard output is no terminal
  bool quiet = false;
};

struct Answer {
  std::string thinking;
  std::string content;
  std::vector<engine::TokenLogprob> logprobs;
  engine::Finished end;
  int signal = 0;  // the one that cancelled the answer, if one did
};

// Streams the answer to standard output and ends it with a line feed. A signal cancels it; the
// answer then holds what came before, with FinishReason::kCancelled. So does a closed output.
Result<Answer> give_answer(engine::Engine& engine, engine::GenerateRequest request,
                           const AnswerStyle& style, SignalQueue& signals);

// "prompt 12 tokens in 3 ms (4000.0 tok/s), 5 generated in 10 ms (500.0 tok/s)"
std::string statistics(const engine::Usage& usage);

}  // namespace strata::apps
