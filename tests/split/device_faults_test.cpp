// Faults of single cards, seen from inside: the emulator tells what reached which card and what was
// given back.
#include <array>
#include <atomic>
#include <thread>

#include "split/emu_cards.h"

namespace strata::split_test {
namespace {

constexpr int kDecoded = 1;

Result<Answer> load_and_answer(std::span<backend::Device* const> devices,
                               const std::vector<int>& cuts, int length) {
  STRATA_ASSIGN_OR_RETURN(const auto model, load_on(devices, cuts));
  return try_answer(*model, length, 4, kDecoded);
}

class DeviceFaults : public testing::Test {
 protected:
  CpuAnswers cpu_answers_;
  Machine cpus_{"cpu#1,cpu#2"};
};

TEST_F(DeviceFaults, MemoryThatRunsOutAnywhereIsOneSentenceAndLeavesNothingBehind) {
  uint64_t needed = 0;
  {
    Cards cards({"gfx1100:name=A"});
    backend::Device* const places[] = {&cpus_.device(0), &cards.card(0)};
    ASSERT_TRUE(load_and_answer(places, {3}, 6).ok());
    needed = cards.runtime().counters(0).allocation_calls;
  }
  ASSERT_GT(needed, 20u);
  const uint64_t step = needed / 12;
  for (uint64_t n = 1; n <= needed; n += n < 3 || n + 3 > needed ? 1 : step) {
    Cards cards({fmt::format("gfx1100:fail-allocation={}", n)});
    backend::Device* const places[] = {&cpus_.device(0), &cards.card(0)};
    const auto got = load_and_answer(places, {3}, 6);
    ASSERT_FALSE(got.ok()) << n;
    EXPECT_EQ(got.status().code(), StatusCode::kResourceExhausted) << got.status().message();
    EXPECT_EQ(got.status().message().find('\n'), std::string::npos) << got.status().message();
    EXPECT_TRUE(has(got.status().message(), "emu:0 gfx1100")) << got.status().message();
    // Only what the device keeps for its stream.
    cards.close();
    const auto left = cards.runtime().counters(0);
    EXPECT_EQ(left.live_allocations, 0u) << n;
    EXPECT_EQ(left.live_streams, 0u) << n;
    EXPECT_EQ(left.live_events, 0u) << n;
  }
}

TEST_F(DeviceFaults, ALostCardGivesItsMemoryBackAndLeavesTheOtherAlone) {
  Cards cards({"gfx1030:lose-at-launch=70", "gfx1201:seed=3"});
  backend::Device* const both[] = {&cards.card(0), &cards.card(1)};
  const auto got = load_and_answer(both, {3}, 6);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(has(got.status().message(), "emu:0 gfx1030")) << got.status().message();
  backend::Device* const other[] = {&cards.card(1)};
  const auto alone = load_and_answer(other, {}, 6);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_TRUE(same_bits(*alone, cpu_answers_.of(6, kDecoded)));
  cards.close();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cards.runtime().counters(i).live_allocations, 0u) << i;
}

TEST_F(DeviceFaults, ALaterFaultOfTheSameCardIsNotTakenForANewOne) {
  Cards cards({"sm90:late-error-at-launch=40", "sm75:seed=3"});
  backend::Device* const places[] = {&cards.card(0), &cards.card(1)};
  const auto first = load_and_answer(places, {3}, 6);
  ASSERT_FALSE(first.ok());
  // Work that is asked for afterwards repeats the first fault and where it lies.
  const Status again = cards.card(0).stream().synchronize();
  EXPECT_TRUE(has(again.message(), "illegal memory access")) << again.message();
  EXPECT_TRUE(has(again.message(), "the fault lies in one of")) << again.message();
  EXPECT_TRUE(cards.card(1).stream().synchronize().ok());
}

// A stage of one layer: whatever fails there, that layer is named and no other.
TEST_F(DeviceFaults, NamesTheLayerOfAFault) {
  for (const int layer : {1, 2, 3, 6}) {
    for (const char* fault : {"fail-launch=9", "late-error-at-launch=9", "lose-at-launch=9"}) {
      Cards cards({fmt::format("gfx1100:{}", fault)});
      backend::Device* const places[] = {&cpus_.device(0), &cards.card(0), &cpus_.device(1)};
      const auto got = load_and_answer(places, {layer, layer + 1}, 5);
      ASSERT_FALSE(got.ok()) << layer << " " << fault;
      const std::string text = got.status().message();
      EXPECT_EQ(got.status().code(), StatusCode::kUnavailable) << text;
      EXPECT_TRUE(has(text, fmt::format(" in layer {}", layer))) << text;
      for (int other = 0; other < layers(); ++other) {
        EXPECT_TRUE(other == layer || !has(text, fmt::format(" in layer {}", other))) << text;
      }
    }
  }
}

// However many kernels were under way, the range begins with the first of them.
TEST_F(DeviceFaults, NamesTheWholeRangeThatALateErrorMayLieIn) {
  Cards cards({"gfx1100:late-error-at-launch=3"});
  backend::Device* const places[] = {&cpus_.device(0), &cards.card(0), &cpus_.device(1)};
  const auto got = load_and_answer(places, {1, 7}, 1);
  ASSERT_FALSE(got.ok());
  const std::string text = got.status().message();
  EXPECT_TRUE(has(text, " in layer 1")) << text;
  EXPECT_TRUE(has(text, "the fault lies in one of")) << text;
}

// Stages run on threads of their own. Every call must reach its own card whatever the thread did
// before, and the emulator refuses streams and addresses of another.
TEST_F(DeviceFaults, CallsReachTheirCardFromAnyThread) {
  Cards cards({"gfx1100:seed=1", "gfx1201:seed=2"});
  backend::Device* const places[] = {&cards.card(0), &cards.card(1)};
  const auto model = load_on(places, {4});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const uint64_t second_before = cards.runtime().counters(1).launches;
  // A new thread each time, whose last call went to the card that it does not begin with.
  for (const size_t wrong : {1u, 0u, 1u}) {
    Result<Answer> got = Answer{};
    int before = -1, after = -1;
    std::thread worker([&] {
      (void)cards.card(wrong).free_bytes();
      before = cards.runtime().current_device();
      got = try_answer(**model, 9, 4, kDecoded);
      (void)cards.card(1 - wrong).free_bytes();
      after = cards.runtime().current_device();
    });
    worker.join();
    EXPECT_EQ(before, static_cast<int>(wrong));
    EXPECT_EQ(after, 1 - static_cast<int>(wrong));
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_TRUE(same_bits(*got, cpu_answers_.of(9, kDecoded)));
  }
  EXPECT_GT(cards.runtime().counters(1).launches, second_before);
}

// Two engines' worth of work at once on two cards of one runtime.
TEST_F(DeviceFaults, CardsWorkForDifferentThreadsAtOnce) {
  Cards cards({"sm90:seed=1", "gfx1030:seed=2"});
  std::vector<std::thread> workers;
  std::atomic<int> right{0};
  const Answer& expected = cpu_answers_.of(6, kDecoded);
  for (size_t i = 0; i < 2; ++i) {
    workers.emplace_back([&, i] {
      backend::Device* const place = &cards.card(i);
      const auto got = load_and_answer({&place, 1}, {}, 6);
      if (got.ok() && same_bits(*got, expected)) ++right;
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(right, 2);
}

// The planner knows what is free on each card: a small one gets the layers that fit it.
TEST_F(DeviceFaults, ACardWithLittleMemoryGetsFewLayers) {
  const std::string first = "emu:gfx1100:max-delay-us=0";
  const std::string second = "emu:gfx1201:max-delay-us=0,memory-mib=";
  // Layers of each card that is used.
  const auto layers_of = [&](const std::string& names) {
    const auto plan = plan_for(names);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    std::map<size_t, int> out;
    if (!plan.ok()) return out;
    for (const engine::PlanStage& stage : plan->stages) {
      EXPECT_LE(stage.used_bytes(), stage.free_bytes) << stage.title;
      out[stage.device] = stage.last - stage.first + 1;
    }
    return out;
  };
  // No card holds the model of 17 MiB and what it works with alone.
  for (const size_t little : {0u, 1u}) {
    auto counts = layers_of(fmt::format("{},memory-mib={},{}{}", first, little == 0 ? 12 : 20, second,
                                        little == 0 ? 20 : 12));
    EXPECT_GT(counts[little], 0);
    EXPECT_LT(counts[little], counts[1 - little]);
    EXPECT_EQ(counts[0] + counts[1], layers());
  }
  // Two cards of one size, and somebody else has memory of the second.
  Machine machine("emu:gfx1100:max-delay-us=0,memory-mib=20,emu:gfx1201:max-delay-us=0,memory-mib=20");
  ASSERT_EQ(machine.problem(), "");
  const auto taken = machine.device(1).allocate(size_t{8} << 20);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  const auto free_on = [&](size_t i) {
    const auto free_bytes = machine.device(i).free_bytes();
    EXPECT_TRUE(free_bytes.ok());
    return free_bytes.ok() ? *free_bytes : 0;
  };
  // Before anything is measured, which leaves some of the stream's own memory taken.
  const std::array<uint64_t, 2> free_before = {free_on(0), free_on(1)};
  EXPECT_EQ(free_before[0] - free_before[1], taken->size());
  const auto shared = machine.plan();
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  std::map<size_t, int> counts;
  for (const engine::PlanStage& stage : shared->stages) {
    EXPECT_EQ(stage.free_bytes, free_before[stage.device]) << stage.title;
    counts[stage.device] = stage.last - stage.first + 1;
  }
  EXPECT_GT(counts[1], 0);
  EXPECT_LT(counts[1], counts[0]);
  // The plan holds: the model and its sequence lie where it put them, and answer.
  backend::Device* places[] = {&machine.device(shared->stages[0].device),
                               &machine.device(shared->stages[1].device)};
  EXPECT_TRUE(load_and_answer(places, shared->split_points(), 6).ok());

  const auto neither = plan_for(first + ",memory-mib=6," + second + "4");
  ASSERT_FALSE(neither.ok());
  EXPECT_EQ(neither.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(has(neither.status().message(), "MiB are missing")) << neither.status().message();
}

}  // namespace
}  // namespace strata::split_test
