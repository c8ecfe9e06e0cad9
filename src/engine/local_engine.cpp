#include "engine/local_engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "engine/device_description.h"
#include "engine/generation.h"
#include "engine/loaded_model.h"
#include "engine/planner/plan_text.h"

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

  nlohmann::ordered_json describe() const override {
    const std::lock_guard lock(mutex_);
    return description_;
  }

  nlohmann::ordered_json describe_kernels() const override {
    const std::lock_guard lock(mutex_);
    return kernels_;
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
      // The engine may have failed since the check above: nobody would serve this request.
      if (state_.stage == EngineStage::kFailed) return no_model();
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
    const std::lock_guard lock(mutex_);
    if (state_.stage == EngineStage::kFailed) return no_model();
    return unavailable("the model is still loading ({:.0f} %); try again in a moment",
                       100.0 * state_.load_progress);
  }

  // Under mutex_, once the engine has failed.
  Status no_model() const { return unavailable("no model is loaded: {}", state_.message); }

  void set_state(EngineStage stage, double progress, std::string message) {
    const std::lock_guard lock(mutex_);
    state_ = {stage, progress, std::move(message), degraded_};
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
        Generation generation(*loaded_, *sequence_, options_.prompt_chunk, std::move(job->prepared),
                              std::move(job->sink), job->ticket->cancelled,
                              [this] { drop_cancelled(); });
        const Status status = generation.run();
        log_request(generation.usage());
        if (status.ok()) compare_with_plan(generation.usage());
        // A fault of a device, not of the request: see what is left and go on with it.
        if (status.code() == StatusCode::kUnavailable && !recover(status)) break;
      }
      const std::lock_guard lock(mutex_);
      current_.reset();
    }
    std::deque<Job> waiting;
    bool failed = false;
    {
      const std::lock_guard lock(mutex_);
      waiting.swap(queue_);
      current_.reset();
      failed = state_.stage == EngineStage::kFailed;
    }
    for (Job& job : waiting) {
      if (failed) {
        job.sink(Failed{check_ready()});
      } else {
        job.sink(Finished{FinishReason::kCancelled, {}, {}});
      }
    }
  }

  void log_request(const Usage& usage) {
    const auto rate = [](int tokens, double ms) { return ms > 0 ? 1000.0 * tokens / ms : 0.0; };
    const int read = usage.prompt_tokens - usage.cached_tokens;
    log::info(
        "prompt {} tokens = {} reused + {} read in {:.0f} ms ({:.1f} tok/s), {} generated in "
        "{:.0f} ms ({:.1f} tok/s)",
        usage.prompt_tokens, usage.cached_tokens, read, usage.prompt_ms,
        rate(read, usage.prompt_ms), usage.completion_tokens, usage.decode_ms,
        rate(usage.completion_tokens, usage.decode_ms));
  }

  // The first requests that tell something about it show what the plan's prediction is worth.
  void compare_with_plan(const Usage& usage) {
    constexpr int kEnoughTokens = 16;
    if (!loaded_->plan) return;
    Plan plan = *loaded_->plan;
    MeasuredSpeed measured;
    const int read = usage.prompt_tokens - usage.cached_tokens;
    if (!prompt_compared_ && read >= std::min(plan.chunk, plan.prompt_tokens) && usage.prompt_ms > 0) {
      plan.prompt_tok_s = 1e3 * read / cut_prompt(plan, read).ms;
      measured.prompt_tok_s = 1e3 * read / usage.prompt_ms;
      prompt_compared_ = true;
    }
    if (!decode_compared_ && usage.completion_tokens >= kEnoughTokens) {
      measured.decode_ms = usage.decode_ms / usage.completion_tokens;
      decode_compared_ = true;
    }
    if (!measured.prompt_tok_s && !measured.decode_ms) return;
    const std::optional<std::string> verdict = compare_prediction(plan, measured);
    if (verdict) log::warn("{}", *verdict);
    const std::lock_guard lock(mutex_);
    nlohmann::ordered_json& json = description_["measured"];
    if (measured.prompt_tok_s) {
      json["prompt"] = {{"tokens", read},
                        {"tok_s", *measured.prompt_tok_s},
                        {"predicted_tok_s", plan.prompt_tok_s}};
    }
    if (measured.decode_ms) {
      json["window"] = {{"ms", *measured.decode_ms}, {"predicted_ms", plan.decode_ms}};
    }
    if (verdict) json["warnings"].push_back(*verdict);
  }

  // Places the model on the devices that still answer. False when the engine has failed.
  bool recover(const Status& fault) {
    log::error("{}", fault.message());
    sequence_.reset();
    direct_copies_ = direct_copies_ && !loaded_->model->direct_copies_failed();
    Status status = fault;
    for (bool first = true; status.code() == StatusCode::kUnavailable; first = false) {
      std::vector<backend::DeviceRequest> left = devices_left();
      if (left.empty()) {
        status = unavailable("no device is left");
        break;
      }
      // A fault that costs no device is tried again once: it may have been of the moment.
      if (!first && left.size() == loaded_->placed.size()) break;
      set_state(EngineStage::kLoading, 0.0,
                fmt::format("{}; starting again on what is left",
                            lost_.empty() ? "a device failed" : lost_text()));
      status = place_again(std::move(left));
    }
    if (!status.ok()) {
      ready_.store(false, std::memory_order_release);
      log::error("{}", status.message());
      set_state(EngineStage::kFailed, 0.0,
                fmt::format("{} ({})", status.message(), fault.message()));
      return false;
    }
    if (!lost_.empty()) {
      degraded_ = fmt::format("{}, the model runs on {}", lost_text(), device_names());
      log::warn("degraded: {}", degraded_);
    }
    set_state(EngineStage::kReady, 1.0, "ready");
    return true;
  }

  // What the devices that still answer were opened from; the others are added to lost_.
  std::vector<backend::DeviceRequest> devices_left() {
    const auto& devices = loaded_->set.devices;
    if (devices.empty()) return loaded_->placed;  // none could be opened: there is nothing to ask
    std::vector<backend::DeviceRequest> left;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (const Status alive = device_answers(*devices[i]); alive.ok()) {
        left.push_back(loaded_->placed[i]);
      } else {
        log::error("{}", alive.message());
        lost_.push_back(device_title(devices[i]->caps()));
      }
    }
    // Where nobody chose the devices, the CPU is always one of them.
    if (left.empty() && options_.devices.empty()) {
      left.push_back({.id = "cpu", .target = {}, .kernels = options_.kernels});
    }
    return left;
  }

  Status place_again(std::vector<backend::DeviceRequest> devices) {
    EngineOptions options = options_;
    options.devices = std::move(devices);
    for (backend::DeviceRequest& device : options.devices) device.peer = device.peer && direct_copies_;
    // Points given for more devices mean nothing now.
    if (!lost_.empty()) options.layer_split = {};
    STRATA_RETURN_IF_ERROR(loaded_->place(options, [this](double done, const std::string& what) {
      set_state(EngineStage::kLoading, done, what);
    }));
    return make_sequence();
  }

  std::string lost_text() const {
    return fmt::format("{} {} lost", fmt::join(lost_, ", "), lost_.size() == 1 ? "is" : "are");
  }

  // Memory, a copy each way: what a lost device refuses.
  static Status device_answers(backend::Device& device) {
    STRATA_RETURN_IF_ERROR(device.stream().synchronize());
    STRATA_ASSIGN_OR_RETURN(const backend::Buffer buffer, device.allocate(64));
    const uint32_t sent = 0x57a7a000;
    uint32_t received = 0;
    STRATA_RETURN_IF_ERROR(device.copy_to_device(buffer.data(), &sent, sizeof sent));
    STRATA_RETURN_IF_ERROR(device.copy_to_host(&received, buffer.data(), sizeof received));
    if (received != sent) return unavailable("{}: memory does not keep values", device.caps().id);
    return {};
  }

  std::string device_names() const {
    std::string names;
    for (const auto& device : loaded_->set.devices) {
      names += (names.empty() ? "" : ", ") + device_title(device->caps());
    }
    return names;
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
    if (!options_.not_built.empty()) {
      log::warn("not in this version, and left out: {}", fmt::join(options_.not_built, "; "));
    }
    STRATA_ASSIGN_OR_RETURN(
        loaded_, LoadedModel::load(options_, [this](double done, const std::string& what) {
          set_state(EngineStage::kLoading, done, what);
        }));
    STRATA_RETURN_IF_ERROR(make_sequence());
    ready_.store(true, std::memory_order_release);
    set_state(EngineStage::kReady, 1.0, "ready");
    return {};
  }

  Status make_sequence() {
    STRATA_ASSIGN_OR_RETURN(
        sequence_, loaded_->model->new_sequence(options_.kv_type, loaded_->info.context_length));
    prompt_compared_ = false;
    decode_compared_ = false;
    describe_placement();
    return {};
  }

  // Kept as JSON, so that readers need nothing of what recovery replaces.
  void describe_placement() {
    nlohmann::ordered_json json;
    json["devices"] = nlohmann::ordered_json::array();
    for (const auto& device : loaded_->set.devices) {
      const backend::DeviceCaps& caps = device->caps();
      json["devices"].push_back({{"id", caps.id},
                                 {"architecture", caps.arch},
                                 {"name", caps.name},
                                 {"address", caps.stable_id},
                                 {"memory_mib", caps.memory_bytes >> 20}});
    }
    json["back_ends"] = nlohmann::ordered_json::array();
    for (const auto& module : loaded_->set.modules) {
      nlohmann::ordered_json libraries = nlohmann::ordered_json::array();
      for (const backend::ModuleLibrary& library : module->module->libraries()) {
        libraries.push_back(
            {{"name", library.name}, {"path", library.path}, {"version", library.version}});
      }
      json["back_ends"].push_back({{"kind", module->module->kind()},
                                   {"path", module->path},
                                   {"version", module->version},
                                   {"architectures", module->architectures},
                                   {"driver", module->module->driver_version()},
                                   {"libraries", libraries}});
    }
    json["layers"] = nlohmann::ordered_json::array();
    for (const memory::LayerPlace& place : loaded_->model->places()) {
      json["layers"].push_back(
          {{"device", place.device->caps().id}, {"first", place.first}, {"last", place.end - 1}});
    }
    json["hand_offs"] = nlohmann::ordered_json::array();
    for (const ProvedRoute& proved : loaded_->routes) {
      json["hand_offs"].push_back({{"from", proved.from},
                                   {"to", proved.to},
                                   {"prompts", proved.name()},
                                   {"tokens", "host"},
                                   {"why", proved.why}});
    }
    json["self_tests"] = "passed";
    json["not_built"] = options_.not_built;
    if (loaded_->plan) json["plan"] = plan_json(*loaded_->plan);
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (size_t i = 0; i < loaded_->set.devices.size(); ++i) {
      backend::Device& device = *loaded_->set.devices[i];
      nlohmann::ordered_json entry = {{"device", device.caps().id}, {"graphs", device.caps().graphs}};
      for (const PlanDevice& measured : loaded_->measured) {
        if (measured.id != device.caps().id) continue;
        entry["rates"] = rates_json({.memory_gbs = measured.memory_gbs,
                                     .to_device_gbs = measured.to_device_gbs,
                                     .to_host_gbs = measured.to_host_gbs,
                                     .launch_us = measured.launch_us,
                                     .int8_tops = measured.int8_tops});
      }
      entry["table"] = kernel_table_json(device);
      entry["images"] = images_json(loaded_->set.module_of(i), device);
      kernels.push_back(std::move(entry));
    }
    const std::lock_guard lock(mutex_);
    description_ = std::move(json);
    kernels_ = std::move(kernels);
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
  bool prompt_compared_ = false, decode_compared_ = false;  // the plan's prediction with a request
  bool direct_copies_ = true;      // none has arrived wrong
  std::vector<std::string> lost_;  // titles of the devices that do not answer any more
  std::string degraded_;   // EngineState::degraded; engine thread only

  mutable std::mutex mutex_;
  // Shared with tickets, which clients may keep longer than the engine lives.
  std::shared_ptr<std::condition_variable> wake_ = std::make_shared<std::condition_variable>();
  EngineState state_;
  nlohmann::ordered_json description_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json kernels_ = nlohmann::ordered_json::array();
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
