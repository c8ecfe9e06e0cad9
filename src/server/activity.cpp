#include "server/activity.h"

#include <algorithm>
#include <utility>

namespace strata::server {
namespace {

constexpr size_t kRecent = 32;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const char* outcome_name(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop: return "stop";
    case engine::FinishReason::kLength: return "length";
    case engine::FinishReason::kCancelled: return "cancelled";
  }
  return "stop";
}

}  // namespace

Activity::Entry::Entry(Entry&& other) noexcept
    : activity_(std::exchange(other.activity_, nullptr)), serial_(other.serial_) {}

Activity::Entry::~Entry() {
  if (activity_ != nullptr) activity_->end(serial_, "cancelled", nullptr);
}

void Activity::Entry::progress(const engine::PromptProgress& progress) {
  if (activity_ == nullptr) return;
  const std::lock_guard lock(activity_->mutex_);
  Running& running = activity_->running_.at(serial_);
  const int read = std::max(progress.read, running.prompt_read);
  activity_->read_tokens_ += static_cast<uint64_t>(read - running.prompt_read);
  running.prompt_read = read;
}

void Activity::Entry::text(const engine::TextDelta& delta) {
  if (activity_ == nullptr) return;
  const std::lock_guard lock(activity_->mutex_);
  activity_->running_.at(serial_).generated += static_cast<int>(delta.tokens.size());
  activity_->generated_tokens_ += delta.tokens.size();
}

void Activity::Entry::finish(const engine::Finished& finished) {
  if (Activity* activity = std::exchange(activity_, nullptr)) {
    activity->end(serial_, outcome_name(finished.reason), &finished.usage);
  }
}

void Activity::Entry::fail() {
  if (Activity* activity = std::exchange(activity_, nullptr)) {
    activity->end(serial_, "failed", nullptr);
  }
}

Activity::Entry Activity::begin(std::string request_id, std::string endpoint, int prompt_tokens) {
  const std::lock_guard lock(mutex_);
  const uint64_t serial = next_serial_++;
  running_[serial] = {std::move(request_id), std::move(endpoint), prompt_tokens, 0, 0,
                      Clock::now()};
  return {*this, serial};
}

void Activity::end(uint64_t serial, const char* outcome, const engine::Usage* usage) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(serial);
  const Running& running = found->second;
  Json entry = Json::object();
  entry["id"] = running.request_id;
  entry["endpoint"] = running.endpoint;
  entry["outcome"] = outcome;
  entry["finished"] = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  entry["seconds"] = seconds_since(running.begin);
  entry["prompt_tokens"] = running.prompt_tokens;
  if (usage != nullptr) {
    const auto more = [](int counted, int told) {
      return static_cast<uint64_t>(std::max(told - counted, 0));
    };
    read_tokens_ += more(running.prompt_read, usage->prompt_tokens - usage->cached_tokens);
    generated_tokens_ += more(running.generated, usage->completion_tokens);
    entry["reused_tokens"] = usage->cached_tokens;
    entry["generated_tokens"] = usage->completion_tokens;
    entry["prompt_ms"] = usage->prompt_ms;
    entry["decode_ms"] = usage->decode_ms;
  } else {
    entry["generated_tokens"] = running.generated;
  }
  running_.erase(found);
  recent_.push_front(std::move(entry));
  if (recent_.size() > kRecent) recent_.pop_back();
}

Json Activity::describe(int running) const {
  const std::lock_guard lock(mutex_);
  Json requests = Json::array();
  for (const auto& [serial, one] : running_) {
    const bool in_work = static_cast<int>(requests.size()) < running;
    Json entry = Json::object();
    entry["id"] = one.request_id;
    entry["endpoint"] = one.endpoint;
    entry["stage"] = one.generated > 0 ? "generating" : in_work ? "reading" : "waiting";
    entry["prompt_tokens"] = one.prompt_tokens;
    entry["prompt_read"] = one.prompt_read;
    entry["generated_tokens"] = one.generated;
    entry["seconds"] = seconds_since(one.begin);
    requests.push_back(std::move(entry));
  }
  Json out = Json::object();
  out["read_tokens"] = read_tokens_;
  out["generated_tokens"] = generated_tokens_;
  out["requests"] = std::move(requests);
  Json recent = Json::array();
  for (const Json& one : recent_) recent.push_back(one);
  out["recent"] = std::move(recent);
  return out;
}

}  // namespace strata::server
