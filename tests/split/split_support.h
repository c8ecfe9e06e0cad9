// The embedded model on devices named as on the command line, and what the CPU alone answers.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/devices.h"
#include "engine/planner/measured_devices.h"
#include "engine/planner/planner.h"
#include "model/qwen4exp.h"

namespace strata::split_test {

inline constexpr int kContext = 1024;
inline constexpr int kChunk = 64;  // stands for the thousands of tokens of a real chunk

inline std::vector<TokenId> prompt_of(int length) {
  std::vector<TokenId> ids;
  for (int i = 0; i < length; ++i) ids.push_back(1 + (i * 7919 + 13) % 1500);
  return ids;
}

inline const std::string& model_path() {
  static const std::string path = STRATA_SOURCE_DIR "/models/tiny/strata-tiny-IQ-mix-mtp.gguf";
  return path;
}

inline std::shared_ptr<const GgufFile> model_file() {
  auto file = GgufFile::open(model_path());
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? std::make_shared<const GgufFile>(std::move(*file)) : nullptr;
}

inline int layers() {
  static const int count = [] {
    auto config = model::Config::read(*model_file());
    return config.ok() ? config->layers : 0;
  }();
  return count;
}

inline engine::EngineOptions options_for(const std::string& names) {
  engine::EngineOptions options;
  options.model_path = model_path();
  auto devices = backend::parse_device_list(names);
  EXPECT_TRUE(devices.ok()) << devices.status().message();
  if (devices.ok()) options.devices = std::move(*devices);
#ifdef STRATA_MODULE_FOLDER
  options.module_folder = STRATA_MODULE_FOLDER;
#endif
  options.workers = 1;
  return options;
}

// Devices opened once, together.
class Machine {
 public:
  explicit Machine(const std::string& names) : options_(options_for(names)) {
    auto set = engine::open_devices(options_);
    if (set.ok()) {
      set_ = std::move(*set);
    } else {
      problem_ = set.status().message();
    }
  }
  const std::string& problem() const { return problem_; }
  backend::Device& device(size_t i) { return *set_.devices[i]; }
  size_t size() const { return set_.devices.size(); }

  // What the planner makes of the devices, measured now.
  Result<engine::Plan> plan() {
    if (!problem_.empty()) return unavailable("{}", problem_);
    STRATA_ASSIGN_OR_RETURN(
        const auto devices,
        engine::measure_plan_devices(set_, options_, [](const std::string&) {}));
    const auto file = model_file();
    STRATA_ASSIGN_OR_RETURN(const model::Config config, model::Config::read(*file));
    STRATA_ASSIGN_OR_RETURN(const engine::ModelCost cost, engine::ModelCost::read(*file, config));
    engine::PlanOptions wanted;
    wanted.context = kContext;
    wanted.prompt_chunk = kChunk;
    return engine::make_plan(cost, devices, wanted, {});
  }

 private:
  engine::EngineOptions options_;
  engine::DeviceSet set_;
  std::string problem_;
};

inline Result<engine::Plan> plan_for(const std::string& names) { return Machine(names).plan(); }

// Stage i lies on devices[i] and ends before layer cuts[i]; the last one takes the rest.
inline Result<std::unique_ptr<model::Qwen4Exp>> load_on(
    std::span<backend::Device* const> devices, const std::vector<int>& cuts,
    std::span<const model::Route> routes = {}) {
  std::vector<memory::LayerPlace> places;
  int first = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const int end = i < cuts.size() ? cuts[i] : layers();
    places.push_back({devices[i], first, end});
    first = end;
  }
  return model::Qwen4Exp::load(model_file(), places, routes);
}

using Answer = std::vector<std::vector<float>>;

// Logits after the prompt and after each of `decoded` tokens chosen greedily.
inline Result<Answer> try_answer(model::Qwen4Exp& model, int length, int chunk, int decoded) {
  Answer out;
  STRATA_ASSIGN_OR_RETURN(memory::SequenceState sequence,
                          model.new_sequence(backend::KvType::kF16, kContext));
  STRATA_RETURN_IF_ERROR(sequence.reset());
  std::vector<float> logits;
  STRATA_RETURN_IF_ERROR(model.read_prompt(
      sequence, prompt_of(length), chunk, [](int) { return Status(); }, logits));
  out.push_back(logits);
  for (int i = 0; i < decoded; ++i) {
    const auto best =
        static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    const model::BatchItem item{.sequence = &sequence,
                                .tokens = {&best, 1},
                                .logits = model::LogitsOf::kLastToken,
                                .positions = {},
                                .next_position = 0,
                                .embeddings = {}};
    STRATA_RETURN_IF_ERROR(model.forward({&item, 1}, logits));
    out.push_back(logits);
  }
  return out;
}

inline Answer answer(model::Qwen4Exp& model, int length, int chunk, int decoded) {
  auto got = try_answer(model, length, chunk, decoded);
  EXPECT_TRUE(got.ok()) << got.status().message();
  return got.ok() ? std::move(*got) : Answer{};
}

inline bool same_bits(const Answer& a, const Answer& b) {
  return !a.empty() && a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) {
           return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](float p, float q) {
             return std::bit_cast<uint32_t>(p) == std::bit_cast<uint32_t>(q);
           });
         });
}

// What one CPU device answers, worked out once per length.
class CpuAnswers {
 public:
  const Answer& of(int length, int decoded) {
    Answer& slot = answers_[{length, decoded}];
    if (slot.empty()) {
      if (model_ == nullptr) {
        backend::Device* const only = &cpu_.device(0);
        auto loaded = load_on({&only, 1}, {});
        EXPECT_TRUE(loaded.ok()) << loaded.status().message();
        model_ = std::move(*loaded);
      }
      slot = answer(*model_, length, kContext, decoded);
    }
    return slot;
  }

 private:
  Machine cpu_{"cpu"};
  std::unique_ptr<model::Qwen4Exp> model_;
  std::map<std::pair<int, int>, Answer> answers_;
};

}  // namespace strata::split_test
