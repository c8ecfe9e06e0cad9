// The embedded model on each device and, where there are several, cut between the first two: the CPU's
// logits, bit for bit, and nothing else. The shortest run of the whole model on a card, for tools that
// watch it (compute-sanitizer --tool racecheck build/tests/gpu_model --device=cuda:0).
#include "split/split_support.h"
#include "support/test_devices.h"

namespace strata::split_test {
namespace {

constexpr int kPrompt = 23, kPiece = 9;  // cut where no window, block or convolution ends
constexpr int kDecoded = 4;              // launched, recorded and replayed

TEST(CardModel, GivesTheCpusBits) {
  CpuAnswers cpu;
  const std::vector<backend::Device*>& devices = test::devices();
  ASSERT_FALSE(devices.empty());
  std::vector<std::pair<std::vector<backend::Device*>, std::vector<int>>> placements;
  for (backend::Device* device : devices) placements.push_back({{device}, {}});
  if (devices.size() > 1) placements.push_back({{devices[0], devices[1]}, {layers() / 2}});
  for (const auto& [places, cuts] : placements) {
    auto model = load_on(places, cuts);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_TRUE(same_bits(cpu.of(kPrompt, kDecoded), answer(**model, kPrompt, kPiece, kDecoded)))
        << places.front()->caps().id;
  }
}

}  // namespace
}  // namespace strata::split_test
