// The golden values in models/tiny/golden (see its README for where they come from).
#pragma once

#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_device.h"
#include "model/qwen4exp.h"

namespace strata::test {

inline std::string tiny_dir() { return std::string(STRATA_SOURCE_DIR) + "/models/tiny"; }
inline std::string default_model() { return tiny_dir() + "/strata-tiny-IQ-mix-mtp.gguf"; }

inline std::vector<float> read_f32(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
  return values;
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

struct Prompt {
  std::string name;
  std::vector<TokenId> ids;
  std::vector<TokenId> greedy;
  size_t greedy_safe = 0;
  std::vector<double> gaps;  // qsa_gap_last16; empty where every cell is attended
};

inline std::vector<Prompt> golden_prompts() {
  std::vector<Prompt> prompts;
  for (const auto& record : read_json(tiny_dir() + "/golden/prompts.json")) {
    Prompt p;
    p.name = record.at("name");
    p.ids = record.at("ids").get<std::vector<TokenId>>();
    p.greedy = record.at("greedy").get<std::vector<TokenId>>();
    const auto& safe = record.at("greedy_safe");
    p.greedy_safe = safe.is_null() ? p.greedy.size() : safe.get<size_t>();
    if (record.contains("qsa_gap_last16") && record["qsa_gap_last16"].is_array()) {
      for (const auto& gap : record["qsa_gap_last16"]) {
        p.gaps.push_back(gap.is_null() ? HUGE_VAL : gap.get<double>());
      }
    }
    prompts.push_back(std::move(p));
  }
  return prompts;
}

inline Prompt golden_prompt(const std::string& name) {
  for (auto& p : golden_prompts()) {
    if (p.name == name) return p;
  }
  ADD_FAILURE() << "no golden prompt " << name;
  return {};
}

inline double rms(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// A model on the CPU, and the logits it gives.
class TestModel {
 public:
  TestModel(const std::string& path, const backend::CpuDeviceOptions& options) {
    auto file = GgufFile::open(path);
    EXPECT_TRUE(file.ok()) << file.status().message();
    auto device = backend::open_cpu_device(options);
    EXPECT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
    auto loaded =
        model::Qwen4Exp::load(std::make_shared<const GgufFile>(std::move(*file)), *device_);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(*loaded);
  }

  model::Qwen4Exp& model() { return *model_; }
  size_t vocabulary() const { return static_cast<size_t>(model_->config().vocabulary); }

  memory::SequenceState sequence(int64_t capacity, backend::KvType type = backend::KvType::kF32) {
    auto sequence = model_->new_sequence(type, capacity);
    EXPECT_TRUE(sequence.ok()) << sequence.status().message();
    return std::move(*sequence);
  }

  // Logits of every token of `ids`, read in chunks of at most `chunk` tokens.
  std::vector<float> logits(std::span<const TokenId> ids, size_t chunk,
                            memory::SequenceState& sequence) {
    std::vector<float> all, part;
    for (size_t begin = 0; begin < ids.size(); begin += chunk) {
      const model::BatchItem item{.sequence = &sequence,
                                  .tokens = ids.subspan(begin, std::min(chunk, ids.size() - begin)),
                                  .logits = model::LogitsOf::kEveryToken,
                                  .positions = {},
                                  .next_position = 0,
                                  .embeddings = {}};
      const Status status = model_->forward({&item, 1}, part);
      EXPECT_TRUE(status.ok()) << status.message();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  std::vector<float> logits(std::span<const TokenId> ids, size_t chunk) {
    auto state = sequence(static_cast<int64_t>(ids.size()));
    return logits(ids, chunk, state);
  }

  // `count` greedy tokens after `ids`.
  std::vector<TokenId> greedy(std::span<const TokenId> ids, size_t count, size_t chunk) {
    auto state = sequence(static_cast<int64_t>(ids.size() + count));
    std::vector<float> row = logits(ids, chunk, state);
    std::vector<TokenId> out;
    while (true) {
      const auto last = row.end() - static_cast<ptrdiff_t>(vocabulary());
      out.push_back(static_cast<TokenId>(std::max_element(last, row.end()) - last));
      if (out.size() == count) return out;
      row = logits({&out.back(), 1}, 1, state);
    }
  }

 private:
  std::unique_ptr<backend::Device> device_;
  std::unique_ptr<model::Qwen4Exp> model_;
};

inline backend::CpuDeviceOptions float_activations() {
  backend::CpuDeviceOptions options;
  options.kernels.all_reference = true;
  return options;
}

}  // namespace strata::test
