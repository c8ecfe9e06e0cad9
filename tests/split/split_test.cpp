// The embedded model in stages on several devices against the model on the CPU alone: the same bits,
// wherever the layers are cut and whatever the devices are.
#include "split/split_support.h"

namespace strata::split_test {
namespace {

constexpr int kDecoded = 3;

class Split : public testing::Test {
 protected:
  static std::unique_ptr<model::Qwen4Exp> load(Machine& machine, const std::vector<int>& cuts) {
    std::vector<backend::Device*> devices;
    for (size_t i = 0; i < machine.size(); ++i) devices.push_back(&machine.device(i));
    auto loaded = load_on(devices, cuts);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? std::move(*loaded) : nullptr;
  }
  void expect_same(Machine& machine, const std::vector<int>& cuts, const std::vector<int>& lengths) {
    ASSERT_EQ(machine.problem(), "");
    const auto model = load(machine, cuts);
    ASSERT_NE(model, nullptr);
    for (const int length : lengths) {
      EXPECT_TRUE(same_bits(cpu_.of(length, kDecoded), answer(*model, length, kChunk, kDecoded)))
          << "a prompt of " << length << " cut at " << cuts.front();
    }
  }
  CpuAnswers cpu_;
};

TEST_F(Split, EqualsOneDeviceAtEveryCut) {
  Machine machine("cpu#1,cpu#2");
  for (int cut = 1; cut < layers(); ++cut) expect_same(machine, {cut}, {1, 65, 192});
}

TEST_F(Split, EqualsOneDeviceAtEveryPromptLength) {
  Machine machine("cpu#1,cpu#2");
  expect_same(machine, {layers() / 2}, {1, 63, 64, 65, 127, 128, 129, 192, 700});
}

TEST_F(Split, EqualsOneDeviceWithThreeAndFourStages) {
  Machine machine("cpu#1,cpu#2,cpu#3,cpu#4");
  expect_same(machine, {2, 5}, {1, 129, 700});
  expect_same(machine, {1, 2, layers() - 1}, {1, 129, 700});
}

TEST_F(Split, EndsAPromptThatIsCalledOff) {
  Machine machine("cpu#1,cpu#2");
  ASSERT_EQ(machine.problem(), "");
  const auto model = load(machine, {3});
  auto sequence = model->new_sequence(backend::KvType::kF16, kContext);
  ASSERT_TRUE(sequence.ok() && sequence->reset().ok());
  std::vector<float> logits;
  const auto prompt = prompt_of(700);
  const Status status = model->read_prompt(
      *sequence, prompt, 64,
      [](int read) { return read < 256 ? Status() : Status(StatusCode::kCancelled, "enough"); }, logits);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(same_bits(cpu_.of(65, kDecoded), answer(*model, 65, kChunk, kDecoded)));
}

TEST_F(Split, RefusesPlacesThatDoNotCoverTheModelOnce) {
  Machine machine("cpu#1,cpu#2");
  const auto refusal = [&](std::vector<memory::LayerPlace> places) {
    return model::Qwen4Exp::load(model_file(), places).status().message();
  };
  auto *a = &machine.device(0), *b = &machine.device(1);
  EXPECT_NE(refusal({{a, 0, 3}, {b, 4, layers()}}), "");
  EXPECT_NE(refusal({{a, 0, 4}, {b, 3, layers()}}), "");
  EXPECT_NE(refusal({{a, 0, 4}, {b, 4, layers() - 1}}), "");
  EXPECT_NE(refusal({{a, 0, 4}, {b, 4, 4}, {a, 4, layers()}}), "");
  EXPECT_NE(refusal({{a, 0, 2}, {b, 2, 4}, {a, 4, layers()}}).find("two stages"),
            std::string::npos);
}

}  // namespace
}  // namespace strata::split_test
