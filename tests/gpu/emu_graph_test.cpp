// Launches that the emulator records and runs again.
#include "gpu/emu_support.h"

namespace strata::gpu::testing {
namespace {

// x[i] = x[i] * factor + *add
struct Affine {
  struct Params {
    int* x;
    const int* add;
    int factor;
  };
  static constexpr int kThreads = 32;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    if (t.index() == 0) *p.x = *p.x * p.factor + *p.add;
  }
};

class EmuGraph : public ::testing::Test {
 protected:
  void open(const std::string& spec) {
    image_ = image_of<Affine>(image_key(Kernel::kHcWrite));
    machine_ = std::make_unique<Machine>(std::vector<std::string>{spec}, ImageList{image_});
    x_ = machine_->upload(std::vector<int>{1});
    add_ = machine_->upload(std::vector<int>{5});
    ASSERT_TRUE(machine_->synchronize().ok());
  }
  EmuRuntime& runtime() { return machine_->runtime(); }
  RuntimeResult launch(int factor) {
    return machine_->launch(image_, {}, Affine::Params{x_, add_, factor});
  }
  RuntimeResult begin() { return runtime().begin_recording(0, machine_->stream()); }
  RuntimeResult end(RuntimeGraph& out) {
    return runtime().end_recording(0, machine_->stream(), out);
  }
  RuntimeResult run(RuntimeGraph graph) {
    return runtime().run_graph(0, machine_->stream(), graph);
  }
  void put(int* at, int value) {
    ASSERT_TRUE(runtime()
                    .copy(0, machine_->stream(), at, &value, sizeof value, CopyKind::kToDevice)
                    .ok());
  }
  int x() { return machine_->download(x_, 1)[0]; }
  // x = (x * 2 + add) * 3 + add
  RuntimeGraph recorded() {
    RuntimeGraph graph = nullptr;
    EXPECT_TRUE(begin().ok());
    EXPECT_TRUE(launch(2).ok() && launch(3).ok());
    EXPECT_TRUE(end(graph).ok());
    EXPECT_NE(graph, nullptr);
    return graph;
  }

  KernelImage image_;
  std::unique_ptr<Machine> machine_;
  int* x_ = nullptr;
  int* add_ = nullptr;
};

TEST_F(EmuGraph, RecordingRunsNothing) {
  open("sm90:max-delay-us=100");
  const uint64_t before = runtime().counters(0).launches;
  const RuntimeGraph graph = recorded();
  EXPECT_EQ(x(), 1);
  EXPECT_EQ(runtime().counters(0).launches, before);
  EXPECT_EQ(runtime().counters(0).live_graphs, 1u);
  EXPECT_TRUE(runtime().destroy_graph(0, graph).ok());
  EXPECT_EQ(runtime().counters(0).live_graphs, 0u);
  EXPECT_FALSE(runtime().destroy_graph(0, graph).ok());
}

TEST_F(EmuGraph, EveryRunReadsWhatMemoryHoldsThen) {
  open("sm90:max-delay-us=100");
  const RuntimeGraph graph = recorded();
  int want = 1;
  for (const int add : {5, 7, -3}) {
    put(add_, add);
    ASSERT_TRUE(run(graph).ok());
    want = (want * 2 + add) * 3 + add;
    EXPECT_EQ(x(), want);
  }
  // Runs stand in order with launches of the stream.
  put(x_, 1);
  ASSERT_TRUE(run(graph).ok());
  ASSERT_TRUE(launch(10).ok());
  ASSERT_TRUE(run(graph).ok());
  EXPECT_EQ(x(), ((((1 * 2 - 3) * 3 - 3) * 10 - 3) * 2 - 3) * 3 - 3);
}

TEST_F(EmuGraph, AGivenUpGraphEndsWhatItStarted) {
  open("sm90:max-delay-us=2000");
  const RuntimeGraph graph = recorded();
  ASSERT_TRUE(run(graph).ok());
  ASSERT_TRUE(runtime().destroy_graph(0, graph).ok());
  EXPECT_EQ(x(), (1 * 2 + 5) * 3 + 5);
  EXPECT_FALSE(run(graph).ok());
}

TEST_F(EmuGraph, WhatIsNoLaunchIsRefusedAndSpoilsTheRecording) {
  open("sm90");
  int value = 3;
  void* memory = nullptr;
  const std::vector<std::function<RuntimeResult()>> refused = {
      [&] { return runtime().copy(0, machine_->stream(), x_, &value, 4, CopyKind::kToDevice); },
      [&] { return runtime().fill_zero(0, machine_->stream(), x_, 4); },
      [&] { return machine_->synchronize(); },
      [&] { return launch(0).ok() ? machine_->launch(image_, {.x = 0}, Affine::Params{x_, add_, 1})
                                  : RuntimeResult{}; },
      [&] { return begin(); },
  };
  for (const auto& call : refused) {
    ASSERT_TRUE(begin().ok());
    const RuntimeResult result = call();
    EXPECT_EQ(result.fault, RuntimeFault::kInvalid) << result.text;
    RuntimeGraph graph = nullptr;
    EXPECT_FALSE(end(graph).ok());
    EXPECT_EQ(graph, nullptr);
    EXPECT_TRUE(machine_->synchronize().ok());
  }
  ASSERT_TRUE(begin().ok());
  EXPECT_EQ(runtime().allocate(0, 64, memory).fault, RuntimeFault::kInvalid);
  EXPECT_EQ(memory, nullptr);
  RuntimeGraph graph = nullptr;
  EXPECT_TRUE(end(graph).ok());
  EXPECT_EQ(graph, nullptr) << "nothing was recorded";
  EXPECT_EQ(x(), 1);
  EXPECT_FALSE(end(graph).ok()) << "an end without a beginning";
}

TEST_F(EmuGraph, RefusesMemoryThatIsGone) {
  open("sm90");
  const RuntimeGraph graph = recorded();
  ASSERT_TRUE(runtime().release(0, add_).ok());
  const RuntimeResult result = run(graph);
  EXPECT_EQ(result.fault, RuntimeFault::kInvalid);
  EXPECT_NE(result.text.find("released"), std::string::npos) << result.text;
  EXPECT_EQ(x(), 1);
}

TEST_F(EmuGraph, FaultsCountEachLaunchOfARun) {
  open("sm90:fail-launch=4");
  RuntimeGraph graph = recorded();
  ASSERT_TRUE(run(graph).ok());
  EXPECT_EQ(run(graph).fault, RuntimeFault::kLaunch) << "the fourth launch is its second";
  EXPECT_EQ(x(), 26) << "nothing of a refused run happens";
  EXPECT_TRUE(run(graph).ok());

  open("sm90:late-error-at-launch=2");
  graph = recorded();
  EXPECT_TRUE(run(graph).ok());
  const RuntimeResult late = machine_->synchronize();
  EXPECT_TRUE(late.sticky) << late.text;
}

TEST_F(EmuGraph, ADeviceMayRecordNothing) {
  open("sm90:graphs=0");
  EXPECT_FALSE(runtime().records(0));
  EXPECT_FALSE(begin().ok());
  EXPECT_TRUE(launch(2).ok());
  EXPECT_EQ(x(), 7);
}

}  // namespace
}  // namespace strata::gpu::testing
