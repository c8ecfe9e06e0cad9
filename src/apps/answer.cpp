#include "apps/answer.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>

#include <unistd.h>

#include "apps/exit_code.h"
#include "apps/files.h"
#include "apps/progress_line.h"
#include "server/reasoning_splitter.h"

namespace strata::apps {

namespace {

// Carries events from the engine thread to the one that prints.
class EventQueue {
 public:
  void push(engine::Event event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    filled_.notify_one();
  }
  engine::Event pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !events_.empty(); });
    engine::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<engine::Event> events_;
};

// Thinking is dimmed on a terminal and put between tags elsewhere.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(bool show_thinking)
      : terminal_(is_terminal(STDOUT_FILENO)), show_thinking_(show_thinking || terminal_) {}

  // False when the output is gone.
  bool thinking(std::string_view text) {
    if (!show_thinking_ || text.empty()) return true;
    const std::string_view opening = terminal_ ? "\x1b[2m" : "<think>\n";
    const bool opened = in_thinking_ || write_out(opening);
    in_thinking_ = true;
    return opened && write(text);
  }
  bool content(std::string_view text) { return text.empty() || (close_thinking() && write(text)); }

  bool finish() { return close_thinking() && (ends_line_ || write_out("\n")); }

 private:
  bool close_thinking() {
    if (!in_thinking_) return true;
    in_thinking_ = false;
    const bool line_ended = ends_line_ || write_out("\n");
    ends_line_ = true;
    return line_ended && write_out(terminal_ ? "\x1b[0m\n" : "</think>\n\n");
  }
  bool write(std::string_view text) {
    ends_line_ = text.back() == '\n';
    return terminal_ ? write_out(fit_for_terminal(text)) : write_out(text);
  }

  bool terminal_;
  bool show_thinking_;
  bool in_thinking_ = false;
  bool ends_line_ = true;
};

double per_second(int count, double ms) { return ms > 0.0 ? 1000.0 * count / ms : 0.0; }

}  // namespace

Status wait_until_ready(const engine::Engine& engine, SignalQueue& signals, bool quiet) {
  constexpr int kPollMs = 20;
  ProgressLine progress(!quiet);
  for (;;) {
    const engine::EngineState state = engine.state();
    if (state.stage == engine::EngineStage::kReady) return {};
    if (state.stage == engine::EngineStage::kFailed) return unavailable("{}", state.message);
    progress.show(state.load_progress, state.message);
    if (signals.wait(kPollMs) != 0) {
      progress.clear();
      std::_Exit(kInterrupted);
    }
  }
}

nlohmann::ordered_json template_kwargs(const Settings& settings) {
  auto kwargs = nlohmann::ordered_json::object();
  if (settings.no_think || settings.effort == "none") {
    kwargs["enable_thinking"] = false;
  } else if (!settings.effort.empty()) {
    kwargs["reasoning_effort"] = settings.effort;
  }
  return kwargs;
}

engine::GenerateRequest generate_request(const Settings& settings, std::vector<TokenId> prompt) {
  engine::GenerateRequest request;
  request.id = "cli";
  request.prompt = std::move(prompt);
  request.sampling = settings.sampling;
  request.stop = settings.stop;
  request.max_tokens = settings.max_tokens;
  request.ignore_eos = settings.ignore_eos;
  request.emit_special = settings.show_special;
  return request;
}

Result<Answer> give_answer(engine::Engine& engine, engine::GenerateRequest request,
                           const AnswerStyle& style, SignalQueue& signals) {
  ProgressLine progress(!style.quiet);
  request.want_progress = progress.enabled();
  const auto events = std::make_shared<EventQueue>();
  STRATA_ASSIGN_OR_RETURN(const std::shared_ptr<engine::RequestHandle> handle,
                          engine.submit(std::move(request), [events](const engine::Event& event) {
                            events->push(event);
                          }));
  std::atomic<int> stopped_by{0};
  const SignalWatch watch(signals, [handle, &stopped_by, count = 0](int signal) mutable {
    // A step of the engine can be long; who asks again and again wants out.
    constexpr int kPatience = 3;
    if (++count == kPatience) std::_Exit(kInterrupted);
    stopped_by.store(signal);
    handle->cancel();
  });

  Answer answer;
  AnswerPrinter printer(style.show_thinking);
  server::ReasoningSplitter splitter(style.starts_in_thinking);
  bool output_open = true;
  const auto take = [&](const server::ReasoningSplitter::Piece& piece) {
    answer.thinking += piece.reasoning;
    answer.content += piece.content;
    output_open =
        output_open && printer.thinking(piece.reasoning) && printer.content(piece.content);
    if (!output_open) handle->cancel();
  };
  for (;;) {
    engine::Event event = events->pop();
    if (const auto* read = std::get_if<engine::PromptProgress>(&event)) {
      progress.show(static_cast<double>(read->read) / read->total, "reading the prompt");
    } else if (auto* delta = std::get_if<engine::TextDelta>(&event)) {
      progress.clear();
      for (auto& logprob : delta->logprobs) answer.logprobs.push_back(std::move(logprob));
      take(style.split_thinking ? splitter.push(delta->text)
                                : server::ReasoningSplitter::Piece{{}, delta->text});
    } else if (auto* failed = std::get_if<engine::Failed>(&event)) {
      printer.finish();
      return failed->status;
    } else {
      answer.end = std::get<engine::Finished>(std::move(event));
      break;
    }
  }
  progress.clear();
  if (style.split_thinking) take(splitter.finish());
  output_open = printer.finish() && output_open;
  answer.signal = stopped_by.load();
  if (!output_open) return unavailable("the answer could not be written to standard output");
  return answer;
}

std::string statistics(const engine::Usage& usage) {
  std::string cached;
  if (usage.cached_tokens > 0) cached = fmt::format(" ({} known already)", usage.cached_tokens);
  return fmt::format(
      "prompt {} tokens{} in {:.0f} ms ({:.1f} tok/s), {} generated in {:.0f} ms ({:.1f} tok/s)",
      usage.prompt_tokens, cached, usage.prompt_ms,
      per_second(usage.prompt_tokens - usage.cached_tokens, usage.prompt_ms),
      usage.completion_tokens, usage.decode_ms,
      per_second(usage.completion_tokens, usage.decode_ms));
}

}  // namespace strata::apps
