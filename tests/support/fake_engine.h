// A scripted engine::Engine for testing what stands on top of it. Tokens are bytes (id = byte
// value) plus the five control tokens below; answers are written by the test.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace strata::test {

struct FakePiece {
  std::string text;
  std::vector<TokenId> tokens = {};
  std::vector<engine::TokenLogprob> logprobs = {};
  std::chrono::milliseconds delay{0};  // before the piece is sent
};

// What one request gets.
struct FakeAnswer {
  std::vector<FakePiece> pieces;
  std::chrono::milliseconds prompt_delay{0};  // before the first piece
  engine::FinishReason reason = engine::FinishReason::kStop;
  std::string stop_string;
  std::optional<Status> failure;  // instead of Finished, after the pieces
  std::optional<Status> refusal;  // the request is not taken at all
  int progress = 0;    // PromptProgress events within prompt_delay, for requests that want them
  bool timed = false;  // the usage tells the time that was really spent
  int repeat = 1;                 // the pieces are sent so many times
  bool deaf = false;              // goes on when it is cancelled
  // Put before the pieces: "#SUBMITTED/BEGUN ", the places of the request among those that were
  // submitted and among those that were begun.
  bool numbered = false;
};

class FakeEngine final : public engine::Engine {
 public:
  static constexpr TokenId kEndOfTurn = 256;
  static constexpr TokenId kThinkClose = 258;
  static constexpr int kVocabulary = 261;

  explicit FakeEngine(int parallel = 1) : parallel_(parallel) {
    info_.id = "fake-model";
    info_.architecture = "fake";
    info_.context_length = 4096;
    info_.trained_context = 8192;
    info_.vocabulary = kVocabulary;
    info_.has_chat_template = true;
    info_.chat_template = "{{ messages }}";
    info_.eos_token = "<|im_end|>";
    info_.sampling_defaults.temperature = 0.75f;
    state_.stage = engine::EngineStage::kReady;
    thread_ = std::thread([this] { work(); });
  }

  ~FakeEngine() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // The answer of every later request.
  void set_answer(FakeAnswer answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // The answer of later requests whose prompt contains `key`.
  void set_answer_for(std::string key, FakeAnswer answer) {
    const std::lock_guard lock(mutex_);
    answers_[std::move(key)] = std::move(answer);
  }
  // Decides the answer by the prompt, where no answer of set_answer_for() does.
  void set_script(std::function<FakeAnswer(const std::string& prompt)> script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }
  void set_context_length(int tokens) { info_.context_length = tokens; }  // before any request
  void set_id(std::string id) { info_.id = std::move(id); }              // before any request
  void set_description(nlohmann::ordered_json json) { description_ = std::move(json); }  // likewise
  void set_state(engine::EngineState state) {
    const std::lock_guard lock(mutex_);
    state_ = std::move(state);
  }
  void set_submit_error(std::optional<Status> status) {
    const std::lock_guard lock(mutex_);
    submit_error_ = std::move(status);
  }
  // What compiling a constraint takes.
  void set_submit_delay(std::chrono::milliseconds delay) { submit_delay_ = delay; }
  void set_render_error(std::optional<Status> status) {
    const std::lock_guard lock(mutex_);
    render_error_ = std::move(status);
  }
  // A template that takes no chat with this variable.
  void set_refused_variable(std::string name) {
    const std::lock_guard lock(mutex_);
    refused_variable_ = std::move(name);
  }
  void set_starts_in_reasoning(bool value) { starts_in_reasoning_ = value; }
  // For long runs: submitted() and rendered() stay empty.
  void set_forgetful() { forgetful_ = true; }

  std::vector<engine::GenerateRequest> submitted() const {
    const std::lock_guard lock(mutex_);
    return submitted_;
  }
  std::vector<engine::ChatRequest> rendered() const {
    const std::lock_guard lock(mutex_);
    return rendered_;
  }
  int submissions_begun() const { return submissions_begun_; }
  int cancelled() const { return cancelled_; }
  int finished() const { return finished_; }

  engine::EngineState state() const override {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  const engine::ModelInfo& info() const override { return info_; }
  nlohmann::ordered_json describe() const override { return description_; }
  engine::QueueInfo queue() const override {
    const std::lock_guard lock(mutex_);
    return {static_cast<int>(waiting_.size()), static_cast<int>(running_.size())};
  }

  Result<std::vector<TokenId>> tokenize(std::string_view text, bool parse_special) const override {
    std::vector<TokenId> tokens;
    while (!text.empty()) {
      size_t used = 1;
      TokenId token = static_cast<unsigned char>(text.front());
      for (size_t i = 0; parse_special && i < kControls.size(); ++i) {
        if (text.starts_with(kControls[i])) {
          used = kControls[i].size();
          token = static_cast<TokenId>(256 + i);
        }
      }
      tokens.push_back(token);
      text.remove_prefix(used);
    }
    return tokens;
  }

  Result<std::string> detokenize(std::span<const TokenId> tokens,
                                 bool include_special) const override {
    std::string text;
    for (const TokenId token : tokens) {
      if (token < 0 || token >= kVocabulary) return invalid_argument("{} is no token.", token);
      if (token < 256) {
        text += static_cast<char>(token);
      } else if (include_special) {
        text += kControls[static_cast<size_t>(token) - 256];
      }
    }
    return text;
  }

  Result<engine::RenderedChat> render_chat(const engine::ChatRequest& request) const override {
    const std::lock_guard lock(mutex_);
    if (!forgetful_) rendered_.push_back(request);
    if (render_error_) return *render_error_;
    if (request.template_kwargs.contains(refused_variable_)) {
      return invalid_argument("Unexpected {}.", refused_variable_);
    }
    engine::RenderedChat chat;
    for (const auto& message : request.messages) {
      chat.text += "[" + message["role"].get<std::string>() + "]";
      const auto content = message.find("content");
      if (content == message.end()) continue;
      if (content->is_string()) chat.text += content->get<std::string>();
      if (!content->is_array()) continue;
      for (const auto& part : *content) chat.text += part.value("text", "");
    }
    chat.tokens = tokenize(chat.text, false).value();
    chat.starts_in_reasoning = starts_in_reasoning_;
    return chat;
  }

  Result<std::shared_ptr<engine::RequestHandle>> submit(engine::GenerateRequest request,
                                                        engine::EventSink sink) override {
    ++submissions_begun_;
    std::this_thread::sleep_for(submit_delay_.load());
    auto job = std::make_shared<Job>();
    {
      const std::lock_guard lock(mutex_);
      if (submit_error_) return *submit_error_;
      job->engine = this;
      job->sink = std::move(sink);
      job->prompt_tokens = static_cast<int>(request.prompt.size());
      const std::string prompt = detokenize(request.prompt, true).value();
      job->answer = script_ ? script_(prompt) : answer_;
      for (const auto& [key, answer] : answers_) {
        if (prompt.find(key) != std::string::npos) job->answer = answer;
      }
      if (job->answer.refusal) return *job->answer.refusal;
      job->want_progress = request.want_progress;
      job->place = ++submissions_;
      if (!forgetful_) submitted_.push_back(std::move(request));
      waiting_.push_back(job);
    }
    changed_.notify_all();
    return std::shared_ptr<engine::RequestHandle>(std::make_shared<Handle>(job));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::array<std::string_view, 5> kControls{"<|im_end|>", "<think>", "</think>",
                                                             "<|im_start|>", "<|endoftext|>"};

  struct Job {
    FakeEngine* engine = nullptr;
    engine::EventSink sink;
    FakeAnswer answer;
    int64_t place = 0;
    int prompt_tokens = 0;
    int completion_tokens = 0;
    size_t next = 0;
    int round = 0;
    Clock::time_point due;
    bool want_progress = false;
    int progress = 0;  // events told
    Clock::time_point begin;
    Clock::time_point prompt_end;
    std::atomic<bool> told{false};  // to end
    std::atomic<bool> cancel{false};  // and heeds it
  };

  class Handle final : public engine::RequestHandle {
   public:
    explicit Handle(std::shared_ptr<Job> job) : job_(std::move(job)) {}
    void cancel() override {
      if (job_->told.exchange(true)) return;
      {
        const std::lock_guard lock(job_->engine->mutex_);
        ++job_->engine->cancelled_;
        job_->cancel = !job_->answer.deaf;
      }
      job_->engine->changed_.notify_all();
    }

   private:
    std::shared_ptr<Job> job_;
  };

  // True when the job is over.
  bool step(Job& job) {
    engine::Finished finished;
    finished.usage.prompt_tokens = job.prompt_tokens;
    finished.usage.cached_tokens = job.prompt_tokens / 2;
    finished.usage.prompt_ms = 10.0;
    finished.usage.decode_ms = 20.0;
    if (job.answer.timed) {
      const auto ms = [](Clock::duration time) {
        return std::chrono::duration<double, std::milli>(time).count();
      };
      finished.usage.prompt_ms = ms(job.prompt_end - job.begin);
      finished.usage.decode_ms = ms(Clock::now() - job.prompt_end);
    }
    if (job.cancel) {
      finished.reason = engine::FinishReason::kCancelled;
      finished.usage.completion_tokens = job.completion_tokens;
      job.sink(finished);
      return true;
    }
    if (job.progress < job.answer.progress) {
      ++job.progress;
      if (job.want_progress) {
        job.sink(engine::PromptProgress{job.prompt_tokens * job.progress / job.answer.progress,
                                        job.prompt_tokens});
      }
      job.prompt_end = Clock::now();
      job.due = job.prompt_end;
      if (job.progress < job.answer.progress) {
        job.due += job.answer.prompt_delay / job.answer.progress;
      } else if (!job.answer.pieces.empty()) {
        job.due += job.answer.pieces[0].delay;
      }
      return false;
    }
    if (job.next < job.answer.pieces.size()) {
      const FakePiece& piece = job.answer.pieces[job.next++];
      engine::TextDelta delta{piece.text, piece.tokens, piece.logprobs};
      if (delta.tokens.empty() && !piece.text.empty()) {
        delta.tokens = tokenize(piece.text, true).value();
      }
      job.completion_tokens += static_cast<int>(delta.tokens.size());
      job.sink(delta);
    }
    if (job.next == job.answer.pieces.size() && ++job.round < job.answer.repeat) job.next = 0;
    if (job.next < job.answer.pieces.size()) {
      job.due = Clock::now() + job.answer.pieces[job.next].delay;
      return false;
    }
    finished.usage.completion_tokens = job.completion_tokens + 1;  // the end-of-turn token
    finished.reason = job.answer.reason;
    finished.stop_string = job.answer.stop_string;
    if (job.answer.failure) {
      job.sink(engine::Failed{*job.answer.failure});
    } else {
      job.sink(finished);
    }
    ++finished_;
    return true;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      for (auto it = waiting_.begin(); it != waiting_.end();) {
        const bool room = static_cast<int>(running_.size()) < parallel_;
        if (!room && !(*it)->cancel) {
          ++it;
          continue;
        }
        (*it)->begin = Clock::now();
        (*it)->prompt_end = (*it)->begin + (*it)->answer.prompt_delay;
        (*it)->due = (*it)->prompt_end;
        if ((*it)->answer.progress > 0) {
          (*it)->due = (*it)->begin + (*it)->answer.prompt_delay / (*it)->answer.progress;
        } else if (!(*it)->answer.pieces.empty()) {
          (*it)->due += (*it)->answer.pieces[0].delay;
        }
        ++begun_;
        if ((*it)->answer.numbered) {
          auto& pieces = (*it)->answer.pieces;
          pieces.insert(pieces.begin(), {fmt::format("#{}/{} ", (*it)->place, begun_)});
        }
        running_.push_back(*it);
        it = waiting_.erase(it);
      }
      auto wake = Clock::now() + std::chrono::hours(1);
      for (size_t i = 0; i < running_.size();) {
        const auto job = running_[i];
        if (!job->cancel && job->due > Clock::now()) {
          wake = std::min(wake, job->due);
          ++i;
          continue;
        }
        lock.unlock();
        const bool over = step(*job);
        lock.lock();
        if (over) {
          running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
          wake = Clock::now();
        } else {
          wake = std::min(wake, job->due);
          ++i;
        }
      }
      if (!ending_ && wake > Clock::now() && !any_cancelled() && !startable()) {
        changed_.wait_until(lock, wake);
      }
    }
    for (const auto& job : running_) job->sink(engine::Failed{unavailable("The engine ended.")});
    for (const auto& job : waiting_) job->sink(engine::Failed{unavailable("The engine ended.")});
  }

  bool any_cancelled() const {
    for (const auto* list : {&waiting_, &running_}) {
      for (const auto& job : *list) {
        if (job->cancel) return true;
      }
    }
    return false;
  }
  bool startable() const {
    return !waiting_.empty() && static_cast<int>(running_.size()) < parallel_;
  }

  const int parallel_;
  engine::ModelInfo info_;
  nlohmann::ordered_json description_ = nlohmann::ordered_json::object();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  engine::EngineState state_;
  FakeAnswer answer_;
  std::map<std::string, FakeAnswer> answers_;
  std::function<FakeAnswer(const std::string&)> script_;
  std::optional<Status> submit_error_;
  std::optional<Status> render_error_;
  std::string refused_variable_;
  std::atomic<bool> starts_in_reasoning_{false};
  std::atomic<bool> forgetful_{false};
  std::atomic<std::chrono::milliseconds> submit_delay_{std::chrono::milliseconds(0)};
  int64_t submissions_ = 0;
  int64_t begun_ = 0;
  std::vector<engine::GenerateRequest> submitted_;
  mutable std::vector<engine::ChatRequest> rendered_;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::deque<std::shared_ptr<Job>> running_;
  std::atomic<int> submissions_begun_{0};
  std::atomic<int> cancelled_{0};
  std::atomic<int> finished_{0};
  std::thread thread_;
};

}  // namespace strata::test
