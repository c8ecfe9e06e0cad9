// The cost of a model against its file and against what the model really allocates.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "engine/planner/model_cost.h"
#include "format/summary.h"
#include "memory/sequence_state.h"
#include "model/config.h"
#include "model/workspace.h"

namespace strata::engine {
namespace {

class IdleStream final : public backend::Stream {
 public:
  explicit IdleStream(backend::Device& device) : device_(device) {}
  backend::Device& device() override { return device_; }
  Status synchronize() override { return {}; }

 private:
  backend::Device& device_;
};

// Hands out addresses of nothing and remembers how much was asked for.
class CountingDevice final : public backend::Device {
 public:
  uint64_t asked = 0;

  const backend::DeviceCaps& caps() const override { return caps_; }
  const backend::KernelTable& kernels() const override { return table_; }
  backend::Stream& stream() override { return stream_; }
  Result<backend::Buffer> allocate(size_t bytes) override {
    asked += bytes;
    return backend::Buffer(this, reinterpret_cast<void*>(uintptr_t{4096}), bytes);
  }
  Status copy_to_device(void*, const void*, size_t) override { return {}; }
  Status copy_to_host(void*, const void*, size_t) override { return {}; }
  Status copy_on_device(void*, const void*, size_t) override { return {}; }
  Status zero(void*, size_t) override { return {}; }
  bool shares_host_memory() const override { return true; }

 private:
  void release(void*, size_t) override {}
  backend::DeviceCaps caps_;
  backend::KernelTable table_;
  IdleStream stream_{*this};
};

class PlannerModel : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = GgufFile::open(STRATA_SOURCE_DIR "/models/tiny/strata-tiny-IQ-mix-mtp.gguf");
    ASSERT_TRUE(file.ok()) << file.status().message();
    file_ = std::make_unique<GgufFile>(std::move(*file));
    auto config = model::Config::read(*file_);
    ASSERT_TRUE(config.ok()) << config.status().message();
    config_ = *config;
    auto cost = ModelCost::read(*file_, config_);
    ASSERT_TRUE(cost.ok());
    cost_ = *cost;
  }

  std::unique_ptr<GgufFile> file_;
  model::Config config_;
  ModelCost cost_;
};

// Pages make tensors larger than in the file: by less than 512 bytes each, or by a page of 2 MiB
// where they are large.
void expect_placed(uint64_t placed, uint64_t bytes, size_t tensors) {
  EXPECT_GE(placed, bytes);
  EXPECT_LE(placed, bytes + tensors * 1024);
}

TEST_F(PlannerModel, CountsEveryTensorOnceWhereItBelongs) {
  std::map<ModelPart, std::pair<uint64_t, size_t>> parts;
  for (const auto& tensor : summarize(*file_).tensors) {
    parts[tensor.part].first += tensor.bytes;
    parts[tensor.part].second += 1;
  }
  uint64_t dense = 0, experts = 0;
  for (const LayerCost& layer : cost_.layers) {
    dense += layer.dense_bytes;
    experts += layer.expert_bytes * static_cast<uint64_t>(layer.experts);
  }
  EXPECT_EQ(cost_.layers.size(), static_cast<size_t>(config_.layers));
  expect_placed(cost_.embedding_bytes, parts[ModelPart::kEmbeddings].first, 1);
  EXPECT_EQ(cost_.table_bytes, parts[ModelPart::kPleTable].first);
  expect_placed(experts, parts[ModelPart::kExperts].first,
                parts[ModelPart::kExperts].second * static_cast<size_t>(config_.experts));
  uint64_t of_layers = 0;
  size_t tensors = 0;
  for (const ModelPart part : {ModelPart::kPleLayer, ModelPart::kAttention, ModelPart::kDeltaNet,
                               ModelPart::kRouter, ModelPart::kSharedExpert,
                               ModelPart::kHyperConnections, ModelPart::kOther, ModelPart::kHead}) {
    of_layers += parts[part].first;
    tensors += parts[part].second;
  }
  // The mixer before the head counts as a hyper-connection in the summary and as the head here.
  expect_placed(dense + cost_.head_bytes - (cost_.tied ? cost_.embedding_bytes : 0), of_layers,
                tensors);
  ASSERT_TRUE(cost_.draft);
  expect_placed(cost_.draft->dense_bytes +
                    cost_.draft->expert_bytes * static_cast<uint64_t>(cost_.draft->experts),
                parts[ModelPart::kDraftLayer].first,
                parts[ModelPart::kDraftLayer].second * static_cast<size_t>(config_.experts));
}

TEST_F(PlannerModel, ScratchIsWhatTheModelReserves) {
  for (const int rows : {1, 64, 512}) {
    for (const int64_t context : {1000, 20000}) {
      CountingDevice device;
      {
        model::Workspace workspace;
        ASSERT_TRUE(workspace.reserve(device, config_, rows, 1, context).ok());
      }
      const uint64_t predicted = cost_.workspace_bytes(rows, 1, context);
      EXPECT_GE(predicted, device.asked) << rows << " rows, context " << context;
      // No more than a page and the rounding of the pieces above.
      EXPECT_LE(predicted, device.asked * 1.02 + (2 << 20) + 16384)
          << rows << " rows, context " << context;
    }
  }
}

// One row of a recorded step, in a sequence of the whole context, needs more than a prompt of one token
// at a time: the recording has room up to the next power of two.
TEST_F(PlannerModel, ScratchHasRoomForRecordedSteps) {
  constexpr int64_t kContextPastAPower = (int64_t{1} << 22) + 1;
  for (const int chunk : {1, 512}) {
    CountingDevice prompt, decode;
    {
      model::Workspace a, b;
      ASSERT_TRUE(a.reserve(prompt, config_, chunk, 1, kContextPastAPower).ok());
      ASSERT_TRUE(b.reserve(decode, config_, 1, 1, int64_t{1} << 23).ok());
    }
    EXPECT_EQ(decode.asked > prompt.asked, chunk == 1);
    const auto needed = std::max(prompt.asked, decode.asked);
    const uint64_t planned =
        cost_.step_bytes(chunk, 1, kContextPastAPower) - cost_.unpacked_bytes(chunk);
    EXPECT_GE(planned, needed) << chunk;
    EXPECT_LE(planned, needed * 1.02 + (2 << 20) + 16384) << chunk;
  }
}

TEST_F(PlannerModel, CachesAreWhatASequenceReserves) {
  for (const auto type : {backend::KvType::kF16, backend::KvType::kF32, backend::KvType::kI8}) {
    for (const int64_t context : {500, 30000}) {
      CountingDevice device;
      {
        const memory::LayerPlace place{.device = &device, .first = 0, .end = config_.layers};
        auto sequence =
            memory::SequenceState::create({&place, 1}, config_.state_shape(), type, context);
        ASSERT_TRUE(sequence.ok()) << sequence.status().message();
      }
      uint64_t state = 0;
      for (const LayerCost& layer : cost_.layers) state += layer.state_bytes;
      const uint64_t predicted = cost_.cache_bytes(type, context) + state;
      EXPECT_GE(predicted, device.asked);
      const size_t buffers = 3 * cost_.layers.size();
      EXPECT_LE(predicted, device.asked + buffers * (context > 10000 ? 2 << 20 : 1024));
    }
  }
}

TEST_F(PlannerModel, MultiplyAddsAreThoseOfTheMatrices) {
  double dense = 0, one_expert = 0, head = 0;
  for (const TensorInfo& tensor : file_->tensors()) {
    if (tensor.shape.size() < 2 ||
        model_part(tensor.name, config_.layers) == ModelPart::kDraftLayer)
      continue;
    if (tensor.name.find("_exps.") != std::string::npos) {
      one_expert += static_cast<double>(tensor.elems()) / config_.experts;
    } else if (tensor.name.starts_with("blk.")) {
      dense += static_cast<double>(tensor.elems());
    } else if (tensor.name.starts_with("output") ||
               (cost_.tied && tensor.name == "token_embd.weight")) {
      head += static_cast<double>(tensor.elems());
    }
  }
  double cost_dense = 0, cost_expert = 0;
  for (const LayerCost& layer : cost_.layers) {
    cost_dense += layer.dense_macs;
    cost_expert += layer.expert_macs;
  }
  EXPECT_DOUBLE_EQ(cost_dense, dense);
  EXPECT_DOUBLE_EQ(cost_expert, one_expert);
  EXPECT_DOUBLE_EQ(cost_.head_macs, head);
  EXPECT_EQ(cost_.wide, config_.streams * config_.width);
}

}  // namespace
}  // namespace strata::engine
