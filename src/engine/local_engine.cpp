#include "engine/local_engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>

#include "engine/generation.h"
#include "engine/loaded_model.h"

namespace strata::engine {

namespace {

class Ticket final : public RequestHandle {
 public:
  explicit Ticket(std::shared_ptr<std::condition_variable> wake) : wake_(std::move(wake)) {}
  void cancel() override {
    cancelled.store(true, std::memory_order_relaxed);
    wake_->notify_all();
  }
  std::atomic<bool> cancelled{false};

 private:
  std::shared_ptr<std::condition_variable> wake_;
};

class LocalEngine final : public Engine {
 public:
  explicit LocalEngine(EngineOptions options) : options_(std::move(options)) {
    thread_ = std::thread([this] { run(); });
  }

  ~LocalEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (current_) current_->cancelled.store(true, std::memory_order_relaxed);
    }
    wake_->notify_all();
    thread_.join();
  }

  EngineState state() const override {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  const ModelInfo& info() const override {
    return ready_.load(std::memory_order_acquire) ? loaded_->info : nothing_loaded_;
  }

  QueueInfo queue() const override {
    const std::lock_guard lock(mutex_);
    return {static_cast<int>(queue_.size()), current_ ? 1 : 0};
  }

  Result<std::vector<TokenId>> tokenize(std::string_view text, bool parse_special) const override {
    STRATA_RETURN_IF_ERROR(check_ready());
    return loaded_->text->tokenizer().encode(
        text, parse_special ? text::Special::kParse : text::Special::kPlain);
  }

  Result<std::string> detokenize(std::span<const TokenId> tokens,
                                 bool include_special) const override {
    STRATA_RETURN_IF_ERROR(check_ready());
    return loaded_->text->tokenizer().decode(tokens, include_special);
  }

  Result<RenderedChat> render_chat(const ChatRequest& request) const override {
    STRATA_RETURN_IF_ERROR(check_ready());
    return loaded_->text->render_chat(request);
  }

  Result<std::shared_ptr<RequestHandle>> submit(GenerateRequest request, EventSink sink) override {
    STRATA_RETURN_IF_ERROR(check_ready());
    STRATA_ASSIGN_OR_RETURN(PreparedRequest prepared,
                            prepare_generation(std::move(request), *loaded_));
    auto ticket = std::make_shared<Ticket>(wake_);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return unavailable("the server is stopping");
      if (static_cast<int>(queue_.size()) >= options_.max_queue) {
        return resource_exhausted("{} requests are waiting already; try again later",
                                  queue_.size());
      }
      queue_.push_back({std::move(prepared), std::move(sink), ticket});
    }
    wake_->notify_all();
    return std::shared_ptr<RequestHandle>(std::move(ticket));
  }

 private:
  struct Job {
    PreparedRequest prepared;
    EventSink sink;
    std::shared_ptr<Ticket> ticket;
  };

  Status check_ready() const {
    if (ready_.load(std::memory_order_acquire)) return {};
    const EngineState now = state();
    if (now.stage == EngineStage::kFailed) {
      return unavailable("the model could not be loaded: {}", now.message);
    }
    return unavailable("the model is still loading ({:.0f} %); try again in a moment",
                       100.0 * now.load_progress);
  }

  void set_state(EngineStage stage, double progress, std::string message) {
    const std::lock_guard lock(mutex_);
    state_ = {stage, progress, std::move(message)};
  }

  void run() {
    if (const Status status = load(); !status.ok()) {
      set_state(EngineStage::kFailed, 0.0, status.message());
      return;
    }
    while (std::optional<Job> job = next_job()) {
      if (job->ticket->cancelled.load(std::memory_order_relaxed)) {
        job->sink(Finished{FinishReason::kCancelled, {}, {}});
      } else {
        Generation(*loaded_, *sequence_, options_.prompt_chunk, std::move(job->prepared),
                   std::move(job->sink), job->ticket->cancelled, [this] { drop_cancelled(); })
            .run();
      }
      const std::lock_guard lock(mutex_);
      current_.reset();
    }
    std::deque<Job> waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting.swap(queue_);
    }
    for (Job& job : waiting) job.sink(Finished{FinishReason::kCancelled, {}, {}});
  }

  // Whoever has left must not hold a place in the queue until the running request ends.
  void drop_cancelled() {
    std::vector<Job> dropped;
    {
      const std::lock_guard lock(mutex_);
      const auto stays = [](const Job& job) {
        return !job.ticket->cancelled.load(std::memory_order_relaxed);
      };
      const auto first = std::stable_partition(queue_.begin(), queue_.end(), stays);
      std::move(first, queue_.end(), std::back_inserter(dropped));
      queue_.erase(first, queue_.end());
    }
    for (Job& job : dropped) job.sink(Finished{FinishReason::kCancelled, {}, {}});
  }

  Status load() {
    STRATA_ASSIGN_OR_RETURN(
        loaded_, LoadedModel::load(options_, [this](double done, const std::string& what) {
          set_state(EngineStage::kLoading, done, what);
        }));
    auto sequence = loaded_->model->new_sequence(options_.kv_type, loaded_->info.context_length);
    if (!sequence.ok()) return sequence.status();
    sequence_ = std::move(*sequence);
    ready_.store(true, std::memory_order_release);
    set_state(EngineStage::kReady, 1.0, "ready");
    return {};
  }

  // The oldest request, or one that was cancelled while it waited; empty when stopping.
  std::optional<Job> next_job() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (stopping_) return std::nullopt;
      for (auto it = queue_.begin(); it != queue_.end(); ++it) {
        const bool cancelled = it->ticket->cancelled.load(std::memory_order_relaxed);
        if (it != queue_.begin() && !cancelled) continue;
        Job job = std::move(*it);
        queue_.erase(it);
        current_ = job.ticket;
        return job;
      }
      wake_->wait(lock);
    }
  }

  const EngineOptions options_;
  const ModelInfo nothing_loaded_;
  std::unique_ptr<LoadedModel> loaded_;
  std::optional<memory::SequenceState> sequence_;
  std::atomic<bool> ready_{false};

  mutable std::mutex mutex_;
  // Shared with tickets, which clients may keep longer than the engine lives.
  std::shared_ptr<std::condition_variable> wake_ = std::make_shared<std::condition_variable>();
  EngineState state_;
  std::deque<Job> queue_;
  std::shared_ptr<Ticket> current_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when everything above exists
};

}  // namespace

std::unique_ptr<Engine> start_local_engine(EngineOptions options) {
  return std::make_unique<LocalEngine>(std::move(options));
}

}  // namespace strata::engine
