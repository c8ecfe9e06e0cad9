// Stages on emulated cards of every architecture group, mixed with each other and with the CPU: the
// bits of the CPU alone, whatever stands where.
//
// All pairs, cuts and prompt lengths appear; --full tries every cut of every pair.
#include <cstring>

#include "split/split_support.h"

namespace strata::split_test {
namespace {

bool full = false;

constexpr int kDecoded = 1;
const std::vector<std::string> kArchs = {"sm75",    "sm80",    "sm90",   "sm120",
                                         "gfx1030", "gfx1100", "gfx1201"};

// One card per group; small ones, so that drivers choose the forms for a full device.
std::string every_group() {
  std::string names;
  for (const std::string& arch : kArchs) {
    names += fmt::format("{}emu:{}:multiprocessors=1,max-delay-us=20", names.empty() ? "" : ",", arch);
  }
  return names;
}

class MixedSplit : public testing::Test {
 protected:
  // `places` are numbers of devices of `machine`, in the order of the stages.
  void expect_same(Machine& machine, const std::vector<size_t>& places, const std::vector<int>& cuts,
                   const std::vector<int>& lengths) {
    std::vector<backend::Device*> devices;
    std::string names;
    for (const size_t place : places) {
      devices.push_back(&machine.device(place));
      names += devices.back()->caps().arch + " ";
    }
    auto model = load_on(devices, cuts);
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const int length : lengths) {
      EXPECT_TRUE(same_bits(cpu_.of(length, kDecoded), answer(**model, length, kChunk, kDecoded)))
          << names << "cut at " << fmt::format("{}", fmt::join(cuts, ",")) << ", a prompt of "
          << length;
    }
  }
  CpuAnswers cpu_;
};

TEST_F(MixedSplit, EveryPairOfGroupsInBothOrdersEqualsTheCpu) {
  Machine machine(every_group());
  ASSERT_EQ(machine.problem(), "");
  const std::vector<int> lengths = {1, 2, 3, 9};
  size_t turn = 0;
  for (size_t a = 0; a < machine.size(); ++a) {
    for (size_t b = 0; b < machine.size(); ++b) {
      if (a == b) continue;
      for (int cut = 1; cut < layers(); ++cut) {
        if (!full && cut != 1 + static_cast<int>(turn) % (layers() - 1)) continue;
        expect_same(machine, {a, b}, {cut}, {lengths[turn % lengths.size()]});
      }
      ++turn;
    }
  }
}

TEST_F(MixedSplit, EveryPromptLengthEqualsTheCpu) {
  Machine machine(every_group());
  ASSERT_EQ(machine.problem(), "");
  size_t a = 0;
  for (const int length : {1, 63, 64, 65, 127, 128, 129, 192}) {
    expect_same(machine, {a % 7, (a + 3) % 7}, {1 + static_cast<int>(a) % (layers() - 1)}, {length});
    ++a;
  }
}

TEST_F(MixedSplit, APromptOfManyChunksEqualsTheCpu) {
  Machine machine("emu:gfx1100,emu:sm90,cpu");
  ASSERT_EQ(machine.problem(), "");
  expect_same(machine, {0, 1, 2}, {2, 4}, {700});
}

TEST_F(MixedSplit, TheCpuMayStandAnywhere) {
  Machine machine("cpu,emu:gfx1100,emu:sm90,emu:gfx1201");
  ASSERT_EQ(machine.problem(), "");
  expect_same(machine, {0, 1}, {3}, {65});
  expect_same(machine, {2, 0}, {layers() - 1}, {65});
  expect_same(machine, {1, 0, 2}, {2, 3}, {65});
  expect_same(machine, {1, 2, 3, 0}, {1, 2, 5}, {65});
  expect_same(machine, {0, 3, 2, 1}, {2, 4, layers() - 1}, {65});
}

TEST_F(MixedSplit, ThreeAndFourCardsEqualTheCpu) {
  Machine machine(every_group());
  ASSERT_EQ(machine.problem(), "");
  expect_same(machine, {0, 4, 2}, {1, 4}, {65});
  expect_same(machine, {5, 6, 3}, {3, 6}, {65});
  expect_same(machine, {6, 1, 5, 3}, {2, 4, 6}, {129});
  expect_same(machine, {3, 2, 4, 0}, {1, 2, 3}, {65});
}

TEST_F(MixedSplit, TwoCardsOfOneKindEqualTheCpu) {
  Machine machine("emu:gfx1100#1,emu:gfx1100#2,emu:sm86#1,emu:sm86#2");
  ASSERT_EQ(machine.problem(), "");
  expect_same(machine, {0, 1}, {4}, {65});
  expect_same(machine, {3, 2}, {2}, {65});
}

// The pairs of the two reports that this engine was founded on.
TEST_F(MixedSplit, TheFoundingPairsEqualTheCpuAtEveryCut) {
  Machine machine("emu:gfx1100,emu:gfx1201,emu:gfx1030");
  ASSERT_EQ(machine.problem(), "");
  for (int cut = 1; cut < layers(); ++cut) {
    // A prompt of two chunks, which both stages share, once in each order.
    const std::vector<std::vector<size_t>> orders = {{0, 1}, {1, 0}, {2, 0}, {0, 2}};
    for (size_t i = 0; i < orders.size(); ++i) {
      expect_same(machine, orders[i], {cut}, {full || cut == 1 + 2 * static_cast<int>(i) ? 65 : 2});
    }
  }
}

// Cards too small for the model alone, in both orders; the planner chooses.
TEST_F(MixedSplit, TheFoundingPairsEqualTheCpuWhereThePlannerPutsTheLayers) {
  const std::string gfx1030 = "emu:gfx1030:max-delay-us=0,memory-mib=20";
  const std::string gfx1100 = "emu:gfx1100:max-delay-us=0,memory-mib=20";
  const std::string gfx1201 = "emu:gfx1201:max-delay-us=0,memory-mib=20";
  for (const auto& [one, two] : {std::pair(gfx1100, gfx1201), std::pair(gfx1201, gfx1100),
                                 std::pair(gfx1030, gfx1100), std::pair(gfx1100, gfx1030)}) {
    const auto plan = plan_for(one + "," + two);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_EQ(plan->stages.size(), 2u);
    Machine machine(one + "," + two);
    ASSERT_EQ(machine.problem(), "");
    expect_same(machine, {plan->stages[0].device, plan->stages[1].device}, plan->split_points(),
                {65});
  }
}

// Hand-offs go through host memory, so a link between cards that corrupts does no harm.
TEST_F(MixedSplit, ABrokenLinkBetweenCardsDoesNoHarm) {
  Machine machine("emu:gfx1100:corrupt-peer-copy=1,emu:gfx1101:corrupt-peer-copy=1");
  ASSERT_EQ(machine.problem(), "");
  expect_same(machine, {0, 1}, {3}, {65});
  expect_same(machine, {1, 0}, {3}, {65});
}

}  // namespace
}  // namespace strata::split_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--full") == 0) strata::split_test::full = true;
  }
  return RUN_ALL_TESTS();
}
