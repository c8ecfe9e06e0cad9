// The local engine on the trained model of the repository.
#pragma once

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/local_engine.h"

namespace strata::engine {

inline constexpr std::chrono::seconds kPatience{60};
inline const std::string kTiny = std::string(STRATA_SOURCE_DIR) + "/models/tiny";

inline EngineOptions tiny_options() {
  EngineOptions options;
  options.model_path = kTiny + "/strata-tiny-IQ-mix-mtp.gguf";
  options.context = 512;
  options.workers = 1;
  return options;
}

inline EngineState wait_until_loaded(const Engine& engine) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (engine.state().stage == EngineStage::kLoading &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return engine.state();
}

// A record of golden/prompts.json.
inline nlohmann::json golden(std::string_view name) {
  std::ifstream file(kTiny + "/golden/prompts.json");
  for (const auto& record : nlohmann::json::parse(file)) {
    if (record["name"] == name) return record;
  }
  ADD_FAILURE() << "no golden prompt " << name;
  return {};
}

// What the sink of one request was told.
class Record {
 public:
  EventSink sink() {
    return [this](const Event& event) {
      std::unique_lock lock(mutex_);
      if (const auto* delta = std::get_if<TextDelta>(&event)) {
        text_ += delta->text;
        tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
        logprobs_.insert(logprobs_.end(), delta->logprobs.begin(), delta->logprobs.end());
        ++deltas_;
      } else if (const auto* progress = std::get_if<PromptProgress>(&event)) {
        progress_.push_back(progress->read);
      } else {
        ++endings_;
        if (const auto* failed = std::get_if<Failed>(&event)) status_ = failed->status;
        if (const auto* finished = std::get_if<Finished>(&event)) finished_ = *finished;
      }
      changed_.notify_all();
      changed_.wait(lock, [this] { return !held_; });
    };
  }

  // Every event keeps the engine thread until release().
  void hold() { set_held(true); }
  void release() { set_held(false); }

  void wait_for_text() {
    wait([this] { return deltas_ > 0; });
  }
  Finished wait_for_end() {
    wait([this] { return endings_ > 0; });
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(endings_, 1);
    EXPECT_TRUE(finished_.has_value()) << status_.message();
    return finished_.value_or(Finished{});
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return endings_ > 0;
  }
  int endings() const {
    const std::lock_guard lock(mutex_);
    return endings_;
  }

  // After the end.
  const std::string& text() const { return text_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<TokenLogprob>& logprobs() const { return logprobs_; }
  const std::vector<int>& progress() const { return progress_; }

 private:
  void set_held(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, condition));
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::string text_;
  std::vector<TokenId> tokens_;
  std::vector<TokenLogprob> logprobs_;
  std::vector<int> progress_;
  int deltas_ = 0;
  int endings_ = 0;
  std::optional<Finished> finished_;
  Status status_;
};

inline GenerateRequest greedy(std::vector<TokenId> prompt) {
  GenerateRequest request;
  request.id = "test";
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0.0f;
  return request;
}

inline GenerateRequest endless() {
  GenerateRequest request = greedy({40, 41, 42});
  request.ignore_eos = true;
  request.emit_special = true;
  return request;
}

}  // namespace strata::engine
