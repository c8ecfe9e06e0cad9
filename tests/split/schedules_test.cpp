// A thousand schedules of stream delays: when the work of a stream is done must not matter.
//
// A stream's delays come from its seed and from how much it has done before, so every prompt on an
// opened pair meets a schedule of its own. --schedules=N changes how many.
#include <cstdlib>
#include <cstring>

#include "engine/handoff_routes.h"
#include "split/split_support.h"

namespace strata::split_test {
namespace {

int schedules = 1000;

constexpr int kPairs = 10;
const char* const kArchs[kPairs] = {"gfx1100", "gfx1201", "gfx1030", "gfx1100", "sm75",
                                    "gfx1030", "sm120",   "sm80",    "sm90",    "gfx1201"};

// Each pair takes its part of the schedules.
class Schedules : public testing::TestWithParam<int> {};

TEST_P(Schedules, NeverChangeALogit) {
  const int pair = GetParam();
  const auto name = [&](int i) {
    return fmt::format("emu:{}:multiprocessors=1,max-delay-us=40,seed={}#{}",
                       kArchs[(pair + i) % kPairs], 1000 * pair + i + 1, i);
  };
  Machine machine(name(0) + "," + name(1));
  ASSERT_EQ(machine.problem(), "");
  backend::Device* const devices[] = {&machine.device(0), &machine.device(1)};
  const engine::ProvedRoute proved = engine::prove_route(*devices[0], *devices[1]);
  std::vector<std::unique_ptr<model::Qwen4Exp>> models;
  for (const model::Route route : {model::Route::kHost, proved.route}) {
    auto model = load_on(devices, {1 + pair % (layers() - 1)}, {&route, 1});
    ASSERT_TRUE(model.ok()) << model.status().message();
    models.push_back(std::move(*model));
  }
  CpuAnswers cpu;
  for (int i = 0; i < schedules / kPairs; ++i) {
    // Chunks of one token: the second stage reads one while the first reads the next, and rows of a
    // third one use what the first one has left.
    const int length = i % 20 == 0 ? 5 : i % 4 == 0 ? 2 : 1;
    const Answer got = answer(*models[static_cast<size_t>(i / 10 + i / 4) % 2], length, 1, 0);
    ASSERT_TRUE(same_bits(got, cpu.of(length, 0)))
        << "schedule " << i << " on " << name(0) << " and " << name(1) << ", " << proved.line();
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, Schedules, testing::Range(0, kPairs));

}  // namespace
}  // namespace strata::split_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--schedules=", 12) == 0) {
      strata::split_test::schedules = std::atoi(argv[i] + 12);
    }
  }
  return RUN_ALL_TESTS();
}
