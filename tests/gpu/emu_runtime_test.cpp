// The emulator as a driver: asynchronous streams, events, memory, errors that come late, faults.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "gpu/emu_support.h"

namespace strata::gpu::testing {
namespace {

constexpr ImageKey kKey = image_key(Kernel::kHcWrite);

// x[i] = x[i] * factor + add
struct Affine {
  struct Params {
    int* x;
    int count;
    int factor;
    int add;
  };
  static constexpr int kThreads = 64;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int i = t.block_x() * kThreads + t.index();
    if (i < p.count) p.x[i] = p.x[i] * p.factor + p.add;
  }
};

template <class Arch>
KernelImage affine(ImageKey key = kKey) {
  return image_of<Affine, Arch>(key);
}

// One entry per group, as a module has them: the groups' images are different functions.
template <class Arch>
struct GroupAffine : Affine {
  static constexpr const char* kGroup = Arch::kName;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    if (kGroup == nullptr) return;
    Affine::run(t, p);
  }
};

TEST(EmuRuntime, WorkOfOneStreamKeepsItsOrderUnderDelays) {
  const KernelImage image = affine<arch::Sm90>();
  Machine machine({"sm90:max-delay-us=300"}, {image});
  int* x = machine.upload(std::vector<int>{1});
  int want = 1;
  for (int i = 0; i < 200; ++i) {
    const int factor = i % 3 == 0 ? 3 : -1;
    ASSERT_TRUE(machine.launch(image, {}, Affine::Params{x, 1, factor, i}).ok());
    want = want * factor + i;
    if (i % 10 == 9) {
      ASSERT_EQ(machine.download(x, 1)[0], want);
      want = i;
      ASSERT_TRUE(machine.runtime()
                      .copy(0, machine.stream(), x, &want, sizeof want, CopyKind::kToDevice)
                      .ok());
    }
  }
  ASSERT_EQ(machine.download(x, 1)[0], want);
}

TEST(EmuRuntime, CallsReturnBeforeTheWorkIsDone) {
  const KernelImage image = affine<arch::Sm90>();
  Machine machine({"sm90:max-delay-us=20000,seed=3"}, {image});
  EmuRuntime& runtime = machine.runtime();
  int* x = machine.upload(std::vector<int>{0});
  ASSERT_TRUE(machine.synchronize().ok());
  RuntimeEvent event = nullptr;
  ASSERT_TRUE(runtime.create_event(0, event).ok());
  bool done = false;
  ASSERT_TRUE(runtime.query_event(0, event, done).ok());
  EXPECT_TRUE(done) << "an event that was never recorded is done";
  const int launches = 100;
  for (int i = 0; i < launches; ++i) {
    ASSERT_TRUE(machine.launch(image, {}, Affine::Params{x, 1, 1, 1}).ok());
  }
  ASSERT_TRUE(runtime.record(0, event, machine.stream()).ok());
  ASSERT_TRUE(runtime.query_event(0, event, done).ok());
  EXPECT_FALSE(done);
  ASSERT_TRUE(runtime.synchronize_event(0, event).ok());
  ASSERT_TRUE(runtime.query_event(0, event, done).ok());
  EXPECT_TRUE(done);
  EXPECT_EQ(machine.download(x, 1)[0], launches);
}

// Adds while the other stream multiplies; only the event makes the result certain.
TEST(EmuRuntime, StreamsAreUnorderedButForEvents) {
  const KernelImage image = affine<arch::Sm90>();
  std::set<int> unordered;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Machine machine({"sm90:max-delay-us=800"}, {image}, seed);
    EmuRuntime& runtime = machine.runtime();
    RuntimeStream other = nullptr;
    ASSERT_TRUE(runtime.create_stream(0, other).ok());
    RuntimeEvent event = nullptr;
    ASSERT_TRUE(runtime.create_event(0, event).ok());
    for (const bool use_event : {true, false}) {
      int* x = machine.upload(std::vector<int>{1});
      ASSERT_TRUE(machine.synchronize().ok());
      const Affine::Params add{x, 1, 1, 1}, multiply{x, 1, 10, 0}, nothing{x, 0, 1, 0};
      for (int i = 0; i < 8; ++i) ASSERT_TRUE(machine.launch(image, {}, nothing).ok());
      ASSERT_TRUE(machine.launch(image, {}, add).ok());
      if (use_event) {
        ASSERT_TRUE(runtime.record(0, event, machine.stream()).ok());
        ASSERT_TRUE(runtime.wait(0, other, event).ok());
      }
      for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(runtime.launch(0, other, image, {}, 0, &nothing).ok());
      }
      ASSERT_TRUE(runtime.launch(0, other, image, {}, 0, &multiply).ok());
      ASSERT_TRUE(runtime.synchronize(0, other).ok());
      ASSERT_TRUE(machine.synchronize().ok());
      const int got = machine.download(x, 1)[0];
      if (use_event) {
        ASSERT_EQ(got, 20);
      } else {
        unordered.insert(got);
      }
    }
  }
  EXPECT_TRUE(unordered.contains(20));
  EXPECT_TRUE(unordered.contains(11)) << "without the event the order must vary";
}

TEST(EmuRuntime, WorkWaitsForAFlagThatTheHostOrAnotherDeviceSets) {
  const KernelImage image = affine<arch::Sm90>();
  Machine machine({"sm90", "sm90", "sm90:late-error-at-launch=1", "sm90:host-waits=0"}, {image});
  EmuRuntime& runtime = machine.runtime();
  void* memory = nullptr;
  ASSERT_TRUE(runtime.allocate_pinned(0, 64, memory).ok());
  auto* flag = static_cast<uint32_t*>(memory);
  // Counted around 2^32.
  *flag = UINT32_MAX;
  int* x = machine.upload(std::vector<int>{1});
  RuntimeEvent event = nullptr;
  ASSERT_TRUE(runtime.create_event(0, event).ok());
  const auto hold_back = [&](uint32_t value) {
    ASSERT_TRUE(runtime.wait_for_host(0, machine.stream(), flag, value).ok());
    ASSERT_TRUE(machine.launch(image, {}, Affine::Params{x, 1, 2, 0}).ok());
    ASSERT_TRUE(runtime.record(0, event, machine.stream()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  bool done = true;
  hold_back(1);
  ASSERT_TRUE(runtime.query_event(0, event, done).ok());
  EXPECT_FALSE(done);
  std::atomic_ref(*flag).store(2);
  EXPECT_EQ(machine.download(x, 1)[0], 2);
  // By the end of another device's work.
  hold_back(3);
  ASSERT_TRUE(runtime.set_flag(1, machine.stream(1), flag, 3).ok());
  EXPECT_EQ(machine.download(x, 1)[0], 4);
  // A device that fails never comes to it.
  int* y = machine.upload(std::vector<int>{1}, 2);
  ASSERT_TRUE(machine.launch(image, {}, Affine::Params{y, 1, 1, 0}, 2).ok());
  ASSERT_TRUE(runtime.set_flag(2, machine.stream(2), flag, 9).ok());
  EXPECT_FALSE(machine.synchronize(2).ok());
  EXPECT_EQ(*flag, 3u);

  uint32_t pageable = 0;
  EXPECT_FALSE(runtime.wait_for_host(0, machine.stream(), &pageable, 1).ok());
  EXPECT_FALSE(runtime.set_flag(0, machine.stream(), &pageable, 1).ok());
  EXPECT_TRUE(runtime.waits_for_host(0));
  EXPECT_FALSE(runtime.waits_for_host(3));
  EXPECT_FALSE(runtime.wait_for_host(3, machine.stream(3), flag, 3).ok());
  EXPECT_FALSE(runtime.set_flag(3, machine.stream(3), flag, 4).ok());
}

TEST(EmuRuntime, EventsTellTimeAndWaitForTheRecordingThatWasLatestAtTheCall) {
  const KernelImage image = affine<arch::Gfx11>();
  Machine machine({"gfx1100:max-delay-us=2000,seed=5", "gfx1100"}, {image});
  EmuRuntime& runtime = machine.runtime();
  RuntimeEvent begin = nullptr, end = nullptr;
  ASSERT_TRUE(runtime.create_event(0, begin).ok());
  ASSERT_TRUE(runtime.create_event(0, end).ok());
  float ms = -1;
  EXPECT_EQ(runtime.elapsed(0, begin, end, ms).fault, RuntimeFault::kInvalid);
  ASSERT_TRUE(runtime.record(0, begin, machine.stream()).ok());
  int* x = machine.upload(std::vector<int>{1});
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(machine.launch(image, {}, Affine::Params{x, 1, 1, 1}).ok());
  }
  ASSERT_TRUE(runtime.record(0, end, machine.stream()).ok());
  ASSERT_TRUE(runtime.synchronize_event(0, end).ok());
  ASSERT_TRUE(runtime.elapsed(0, begin, end, ms).ok());
  EXPECT_GT(ms, 0.0f);
  // An event of device 0 orders work of device 1, but is recorded on streams of device 0 only.
  EXPECT_TRUE(runtime.wait(1, machine.stream(1), end).ok());
  EXPECT_EQ(runtime.record(1, end, machine.stream(1)).fault, RuntimeFault::kInvalid);
  EXPECT_EQ(runtime.record(0, end, machine.stream(1)).fault, RuntimeFault::kInvalid);
  ASSERT_TRUE(runtime.destroy_event(0, begin).ok());
  EXPECT_EQ(runtime.destroy_event(0, begin).fault, RuntimeFault::kInvalid);
}

TEST(EmuRuntime, PageableSourcesAreReadBeforeTheCallReturnsAndPinnedOnesWhenTheWorkRuns) {
  Machine machine({"sm90:max-delay-us=20000,seed=3"}, {});
  EmuRuntime& runtime = machine.runtime();
  int* gate = machine.upload(std::vector<int>{0});
  int* x = machine.allocate<int>(1);
  void* memory = nullptr;
  ASSERT_TRUE(runtime.allocate_pinned(0, sizeof(int), memory).ok());
  int* pinned = static_cast<int*>(memory);
  std::vector<int> pageable{5};
  // Keeps the stream busy: none of what follows can have run when the calls return.
  const auto hold = [&] {
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(runtime.fill_zero(0, machine.stream(), gate, sizeof(int)).ok());
    }
  };
  hold();
  ASSERT_TRUE(runtime.copy(0, machine.stream(), x, pageable.data(), 4, CopyKind::kToDevice).ok());
  pageable[0] = 6;
  EXPECT_EQ(machine.download(x, 1)[0], 5);

  *pinned = 7;
  hold();
  ASSERT_TRUE(runtime.copy(0, machine.stream(), x, pinned, 4, CopyKind::kToDevice).ok());
  *pinned = 8;
  EXPECT_EQ(machine.download(x, 1)[0], 8) << "a pinned source is read when its turn comes";

  *pinned = 0;
  hold();
  ASSERT_TRUE(runtime.copy(0, machine.stream(), pinned, x, 4, CopyKind::kToHost).ok());
  EXPECT_EQ(*pinned, 0) << "a pinned destination is written later";
  ASSERT_TRUE(machine.synchronize().ok());
  EXPECT_EQ(*pinned, 8);

  EXPECT_EQ(runtime.live_pinned(), 1u);
  ASSERT_TRUE(runtime.release_pinned(0, memory).ok());
  EXPECT_EQ(runtime.live_pinned(), 0u);
  EXPECT_EQ(runtime.release_pinned(0, memory).fault, RuntimeFault::kInvalid);
}

TEST(EmuRuntime, MemoryHasABudgetAndComesPoisoned) {
  Machine machine({"gfx1030:memory-mib=8"}, {});
  EmuRuntime& runtime = machine.runtime();
  uint64_t free_bytes = 0, total = 0;
  ASSERT_TRUE(runtime.memory_info(0, free_bytes, total).ok());
  EXPECT_EQ(total, 8u << 20);
  EXPECT_EQ(free_bytes, total);
  auto* first = machine.allocate<uint8_t>(5 << 20);
  EXPECT_EQ(machine.download(first, 1000), std::vector<uint8_t>(1000, 0xff));
  void* second = nullptr;
  const RuntimeResult refused = runtime.allocate(0, 4 << 20, second);
  EXPECT_EQ(refused.fault, RuntimeFault::kOutOfMemory);
  EXPECT_FALSE(refused.sticky);
  EXPECT_EQ(second, nullptr);
  ASSERT_TRUE(runtime.fill_zero(0, machine.stream(), first, 1000).ok());
  EXPECT_EQ(machine.download(first, 1001).back(), 0xff);
  ASSERT_TRUE(runtime.release(0, first).ok());
  ASSERT_TRUE(runtime.memory_info(0, free_bytes, total).ok());
  EXPECT_EQ(free_bytes, total);
  EXPECT_EQ(runtime.release(0, first).fault, RuntimeFault::kInvalid);
  EXPECT_TRUE(runtime.allocate(0, 8 << 20, second).ok());
}

TEST(EmuRuntime, AddressesThatAreNotTheDevicesAreRefusedAtTheCall) {
  const KernelImage image = affine<arch::Gfx11>();
  Machine machine({"gfx1100", "gfx1101"}, {image});
  EmuRuntime& runtime = machine.runtime();
  int* mine = machine.allocate<int>(64, 0);
  int* other = machine.allocate<int>(64, 1);
  int* gone = machine.allocate<int>(64, 0);
  ASSERT_TRUE(runtime.release(0, gone).ok());
  std::vector<int> host(65);
  const auto copy = [&](void* dst, const void* src, size_t bytes, CopyKind kind) {
    return runtime.copy(0, machine.stream(), dst, src, bytes, kind);
  };
  EXPECT_TRUE(copy(mine, host.data(), 256, CopyKind::kToDevice).ok());
  const struct {
    RuntimeResult result;
    const char* part;
  } cases[] = {
      {copy(mine, host.data(), 260, CopyKind::kToDevice), "partly within an allocation"},
      {copy(mine + 63, host.data(), 8, CopyKind::kToDevice), "partly within an allocation"},
      {copy(other, host.data(), 4, CopyKind::kToDevice), "memory of another device"},
      {copy(host.data(), host.data() + 4, 4, CopyKind::kToDevice), "memory of the host"},
      {copy(gone, host.data(), 4, CopyKind::kToDevice), "released memory"},
      {copy(mine, mine + 8, 4, CopyKind::kToDevice),
       "host's side of the copy is memory of device 0"},
      {copy(mine, mine + 8, 4, CopyKind::kToHost), "host's side of the copy is memory of device 0"},
      {copy(host.data(), host.data() + 4, 4, CopyKind::kToHost), "memory of the host"},
      {copy(mine, other, 4, CopyKind::kOnDevice), "memory of another device"},
      {runtime.fill_zero(0, machine.stream(), other, 4), "memory of another device"},
      {runtime.fill_zero(0, machine.stream(1), mine, 4), "stream is not one of this device"},
      {machine.launch(image, {}, Affine::Params{other, 1, 1, 1}), "an address of device 1"},
      {machine.launch(image, {}, Affine::Params{gone, 1, 1, 1}), "released memory"},
      {runtime.release(0, other), "not the start of an allocation of this device"},
      {runtime.release(0, mine + 1), "not the start of an allocation of this device"},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(cases[i].result.fault, RuntimeFault::kInvalid) << i;
    EXPECT_FALSE(cases[i].result.sticky);
    EXPECT_NE(cases[i].result.text.find(cases[i].part), std::string::npos) << cases[i].result.text;
  }
  EXPECT_TRUE(machine.synchronize().ok()) << "refused calls leave nothing behind";
}

TEST(EmuRuntime, GeometryBeyondTheLimitsIsRefusedAtTheCall) {
  const KernelImage image = affine<arch::Sm90>();
  KernelImage odd = image;
  odd.shape.threads = 48;
  Machine machine({"sm90", "gfx1201"}, {image});
  EmuRuntime& runtime = machine.runtime();
  int* x = machine.allocate<int>(1);
  const Affine::Params params{x, 1, 1, 1};
  const auto launch = [&](const KernelImage& i, Grid grid, int shared) {
    return runtime.launch(0, machine.stream(), i, grid, shared, &params).fault;
  };
  EXPECT_EQ(launch(image, {.x = 0}, 0), RuntimeFault::kInvalid);
  EXPECT_EQ(launch(image, {.x = 1, .y = 65536}, 0), RuntimeFault::kInvalid);
  EXPECT_EQ(launch(odd, {}, 0), RuntimeFault::kInvalid);
  EXPECT_EQ(launch(image, {}, 228 * 1024), RuntimeFault::kInvalid);
  EXPECT_EQ(launch(image, {}, 100 * 1024), RuntimeFault::kInvalid) << "not allowed yet";
  EXPECT_EQ(runtime.allow_shared(0, image.entry, 228 * 1024).fault, RuntimeFault::kInvalid);
  ASSERT_TRUE(runtime.allow_shared(0, image.entry, 100 * 1024).ok());
  EXPECT_EQ(launch(image, {}, 100 * 1024), RuntimeFault::kNone);
  EXPECT_EQ(runtime.allow_shared(1, image.entry, 1024).fault, RuntimeFault::kNoImage);
  EXPECT_TRUE(machine.synchronize().ok());
}

TEST(EmuRuntime, AnAbsentImageIsFoundByAskingAndOtherwiseLateAndForGood) {
  using A11 = GroupAffine<arch::Gfx11>;
  using A12 = GroupAffine<arch::Gfx12>;
  const KernelImage gfx11 = image_of<A11, arch::Gfx11>(kKey);
  const KernelImage gfx12 = image_of<A12, arch::Gfx12>(kKey);
  ASSERT_NE(gfx11.entry, gfx12.entry);
  Machine machine({"gfx1100", "gfx1201", "gfx1200:drop-image=HcWrite"}, {gfx11, gfx12});
  EmuRuntime& runtime = machine.runtime();
  FunctionFacts facts;
  EXPECT_TRUE(runtime.function(0, gfx11.entry, facts).ok());
  EXPECT_EQ(facts.max_threads, 1024);
  EXPECT_EQ(runtime.function(0, gfx12.entry, facts).fault, RuntimeFault::kNoImage);
  EXPECT_EQ(runtime.function(1, gfx11.entry, facts).fault, RuntimeFault::kNoImage);
  EXPECT_TRUE(runtime.function(1, gfx12.entry, facts).ok());
  EXPECT_EQ(runtime.function(2, gfx12.entry, facts).fault, RuntimeFault::kNoImage) << "dropped";
  EXPECT_TRUE(machine.synchronize(0).ok()) << "asking leaves no error behind";

  // The device of another group, and the one whose image was dropped.
  for (const int device : {1, 2}) {
    const KernelImage& image = device == 1 ? gfx11 : gfx12;
    int* x = machine.upload(std::vector<int>{7}, device);
    EXPECT_TRUE(machine.launch(image, {}, Affine::Params{x, 1, 2, 0}, device).ok())
        << "the launch itself says nothing";
    const RuntimeResult late = machine.synchronize(device);
    EXPECT_EQ(late.fault, RuntimeFault::kNoImage);
    EXPECT_TRUE(late.sticky);
    void* memory = nullptr;
    EXPECT_EQ(runtime.allocate(device, 16, memory).fault, RuntimeFault::kNoImage) << "for good";
  }
  EXPECT_TRUE(machine.synchronize(0).ok()) << "the other device is well";
  int* x = machine.upload(std::vector<int>{7});
  EXPECT_TRUE(machine.launch(gfx11, {}, Affine::Params{x, 1, 2, 0}).ok());
  EXPECT_EQ(machine.download(x, 1)[0], 14);
}

TEST(EmuRuntime, PlantedFaultsComeAtTheirNumber) {
  const KernelImage image = affine<arch::Sm90>();
  Machine machine({"sm90:fail-allocation=2", "sm90:fail-launch=3", "sm90:late-error-at-launch=2",
                   "sm90:lose-at-launch=2"},
                  {image});
  EmuRuntime& runtime = machine.runtime();
  void* memory = nullptr;
  EXPECT_TRUE(runtime.allocate(0, 16, memory).ok());
  EXPECT_EQ(runtime.allocate(0, 16, memory).fault, RuntimeFault::kOutOfMemory);
  EXPECT_TRUE(runtime.allocate(0, 16, memory).ok());
  EXPECT_EQ(runtime.counters(0).live_allocations, 2u);

  const auto launch = [&](int device, int* x) {
    return machine.launch(image, {}, Affine::Params{x, 1, 1, 1}, device);
  };
  int* x1 = machine.upload(std::vector<int>{0}, 1);
  EXPECT_TRUE(launch(1, x1).ok());
  EXPECT_TRUE(launch(1, x1).ok());
  const RuntimeResult refused = launch(1, x1);
  EXPECT_EQ(refused.fault, RuntimeFault::kLaunch);
  EXPECT_FALSE(refused.sticky);
  EXPECT_TRUE(launch(1, x1).ok());
  EXPECT_EQ(machine.download(x1, 1, 1)[0], 3);

  int* x2 = machine.upload(std::vector<int>{0}, 2);
  EXPECT_TRUE(launch(2, x2).ok());
  EXPECT_TRUE(launch(2, x2).ok()) << "accepted; wrong later";
  const RuntimeResult late = machine.synchronize(2);
  EXPECT_EQ(late.fault, RuntimeFault::kLaunch);
  EXPECT_TRUE(late.sticky);
  EXPECT_EQ(launch(2, x2).fault, RuntimeFault::kLaunch);
  EXPECT_EQ(runtime.release(2, x2).fault, RuntimeFault::kLaunch);
  EXPECT_EQ(runtime.counters(2).live_allocations, 0u) << "given back all the same";

  int* x3 = machine.upload(std::vector<int>{0}, 3);
  EXPECT_TRUE(launch(3, x3).ok());
  EXPECT_TRUE(launch(3, x3).ok());
  EXPECT_EQ(launch(3, x3).fault, RuntimeFault::kLost);
  EXPECT_EQ(machine.synchronize(3).fault, RuntimeFault::kLost);
  uint64_t free_bytes = 0, total = 0;
  EXPECT_EQ(runtime.memory_info(3, free_bytes, total).fault, RuntimeFault::kLost);
  RuntimeDevice facts;
  EXPECT_EQ(runtime.device(3, facts).fault, RuntimeFault::kLost);
  EXPECT_TRUE(machine.synchronize(1).ok());
}

TEST(EmuRuntime, WritesPastAnAllocationAreFound) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer stops at the write itself";
#endif
  const KernelImage image = affine<arch::Sm90>();
  Machine machine({"sm90"}, {image});
  int* x = machine.upload(std::vector<int>(10, 0));
  ASSERT_TRUE(machine.launch(image, {}, Affine::Params{x, 11, 1, 1}).ok());
  const RuntimeResult result = machine.synchronize();
  EXPECT_EQ(result.fault, RuntimeFault::kLaunch);
  EXPECT_NE(result.text.find("0 bytes past the end of an allocation of 40 bytes"),
            std::string::npos)
      << result.text;
}

TEST(EmuRuntime, DirectCopiesBetweenDevicesWorkWithinAVendorAndCanBeCorrupted) {
  Machine machine({"gfx1100", "gfx1201", "sm90", "gfx1201:corrupt-peer-copy=1", "gfx1100:peer=0"},
                  {});
  EmuRuntime& runtime = machine.runtime();
  bool can = false;
  for (const auto& [to, from, want] : {std::tuple{1, 0, true},
                                       {0, 1, true},
                                       {2, 0, false},
                                       {0, 0, false},
                                       {3, 0, true},
                                       {4, 0, false},
                                       {0, 4, false}}) {
    ASSERT_TRUE(runtime.can_copy_peer(to, from, can).ok());
    EXPECT_EQ(can, want) << to << " from " << from;
  }
  std::vector<int> values(5000);
  std::iota(values.begin(), values.end(), 0);
  int* source = machine.upload(values, 0);
  ASSERT_TRUE(machine.synchronize(0).ok());
  int* good = machine.allocate<int>(values.size(), 1);
  int* bad = machine.allocate<int>(values.size(), 3);
  int* none = machine.allocate<int>(values.size(), 2);
  const size_t bytes = values.size() * 4;
  ASSERT_TRUE(runtime.copy_peer(1, machine.stream(1), good, 0, source, bytes).ok());
  EXPECT_EQ(machine.download(good, values.size(), 1), values);
  ASSERT_TRUE(runtime.copy_peer(3, machine.stream(3), bad, 0, source, bytes).ok());
  EXPECT_TRUE(machine.synchronize(3).ok()) << "nothing says that the bytes are wrong";
  EXPECT_NE(machine.download(bad, values.size(), 3), values);
  EXPECT_EQ(runtime.copy_peer(2, machine.stream(2), none, 0, source, bytes).fault,
            RuntimeFault::kInvalid);
  EXPECT_EQ(runtime.copy_peer(1, machine.stream(1), good, 0, good, bytes).fault,
            RuntimeFault::kInvalid);
}

TEST(EmuRuntime, CallsFromManyThreadsReachTheDeviceTheyName) {
  const KernelImage image = affine<arch::Sm90>();
  const int devices = 3;
  Machine machine({"sm90", "sm90", "sm90"}, {image});
  EmuRuntime& runtime = machine.runtime();
  std::vector<int*> x;
  for (int d = 0; d < devices; ++d) x.push_back(machine.upload(std::vector<int>{d * 1000}, d));
  const uint64_t before = runtime.counters(0).launches;
  std::vector<std::thread> threads;
  const int rounds = 40;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      for (int i = 0; i < rounds; ++i) {
        const int d = (n + i) % devices;
        EXPECT_TRUE(
            machine.launch(image, {}, Affine::Params{x[static_cast<size_t>(d)], 1, 1, 1}, d).ok());
        EXPECT_EQ(runtime.current_device(), d);
        std::this_thread::yield();
        EXPECT_TRUE(machine.synchronize((d + 1) % devices).ok());
        EXPECT_EQ(runtime.current_device(), (d + 1) % devices);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t launches = 0;
  for (int d = 0; d < devices; ++d) {
    const uint64_t mine = runtime.counters(d).launches;
    EXPECT_EQ(machine.download(x[static_cast<size_t>(d)], 1, d)[0],
              d * 1000 + static_cast<int>(mine));
    launches += mine;
  }
  EXPECT_EQ(launches - before, 4u * rounds);
}

TEST(EmuRuntime, NothingIsLeftWhenEverythingIsGivenBack) {
  Machine machine({"gfx1100:fail-allocation=3"}, {});
  EmuRuntime& runtime = machine.runtime();
  RuntimeEvent event = nullptr;
  ASSERT_TRUE(runtime.create_event(0, event).ok());
  void* a = machine.allocate<int>(10);
  void* b = machine.allocate<int>(10);
  void* c = nullptr;
  EXPECT_FALSE(runtime.allocate(0, 40, c).ok());
  EmuRuntime::Counters now = runtime.counters(0);
  EXPECT_EQ(now.live_allocations, 2u);
  EXPECT_EQ(now.live_streams, 1u);
  EXPECT_EQ(now.live_events, 1u);
  ASSERT_TRUE(runtime.release(0, a).ok());
  ASSERT_TRUE(runtime.release(0, b).ok());
  ASSERT_TRUE(runtime.destroy_event(0, event).ok());
  ASSERT_TRUE(runtime.destroy_stream(0, machine.stream()).ok());
  now = runtime.counters(0);
  EXPECT_EQ(now.live_allocations + now.live_bytes + now.live_streams + now.live_events, 0u);
}

TEST(EmuSpec, DevicesAreTheCardsTheyAreNamedAfter) {
  Machine machine({"gfx1100", "gfx1030", "gfx1201", "sm90", "sm86", "sm120", "gfx906", "gfx1150",
                   "emu:gfx1031:memory-mib=256,multiprocessors=4,name=Test Card", "gfx1999"},
                  {});
  const struct {
    const char *arch, *group, *name;
    int wave;
    uint64_t memory_mib;
  } want[] = {
      {"gfx1100", "gfx11", "Emulated AMD Radeon RX 7900 XTX", 32, 24 * 1024},
      {"gfx1030", "gfx10", "Emulated AMD Radeon RX 6950 XT", 32, 16 * 1024},
      {"gfx1201", "gfx12", "Emulated AMD Radeon RX 9070 XT", 32, 16 * 1024},
      {"sm90", "sm90", "Emulated NVIDIA H200", 32, 141 * 1024},
      {"sm86", "sm80", "Emulated NVIDIA GeForce RTX 3090", 32, 24 * 1024},
      {"sm120", "sm120", "Emulated NVIDIA GeForce RTX 5080", 32, 16 * 1024},
      {"gfx906", "", "Emulated AMD Radeon VII", 64, 16 * 1024},
      {"gfx1150", "gfx11", "Emulated AMD Radeon 890M", 32, 16 * 1024},
      {"gfx1031", "gfx10", "Emulated Test Card", 32, 256},
      {"gfx1999", "", "Emulated gfx1999", 32, 8 * 1024},
  };
  std::set<std::string> ids;
  for (int i = 0; i < static_cast<int>(std::size(want)); ++i) {
    RuntimeDevice got;
    ASSERT_TRUE(machine.runtime().device(i, got).ok());
    EXPECT_EQ(got.arch, want[i].arch);
    EXPECT_EQ(got.group, want[i].group);
    EXPECT_EQ(got.name, want[i].name);
    EXPECT_EQ(got.wave, want[i].wave);
    EXPECT_EQ(got.memory_bytes, want[i].memory_mib << 20);
    EXPECT_EQ(got.integrated, got.arch == "gfx1150");
    EXPECT_GT(got.multiprocessors, 0);
    ids.insert(got.stable_id);
  }
  EXPECT_EQ(ids.size(), std::size(want));
  EXPECT_TRUE(ids.contains("emu:0000:03:00.0"));
  RuntimeDevice none;
  EXPECT_EQ(machine.runtime().device(10, none).fault, RuntimeFault::kInvalid);
  EXPECT_EQ(machine.runtime().device(-1, none).fault, RuntimeFault::kInvalid);
}

TEST(EmuSpec, RefusesWhatItCannotReadWithASentence) {
  const struct {
    const char *spec, *part;
  } cases[] = {
      {"", "not an architecture"},
      {"h100", "not an architecture"},
      {"gfx", "not an architecture"},
      {"sm9x0", "not an architecture"},
      {"gfx1100:", "\"\" is not an option"},
      {"gfx1100:seed", "\"seed\" is not an option"},
      {"gfx1100:speed=3", "unknown option speed"},
      {"gfx1100:memory-mib=0", "memory-mib=0 must be a whole number from 1"},
      {"gfx1100:memory-mib=1.5", "must be a whole number"},
      {"gfx1100:seed=-1", "must be a whole number"},
      {"gfx1100:seed=99999999999999999999", "must be a whole number"},
      {"gfx1100:corrupt-peer-copy=0", "a whole number from 1"},
      {"gfx1100:drop-image=Gdn", "drop-image=Gdn: no kernel has this name"},
      {"gfx1100:name=", "needs a name"},
      {"gfx1100:seed=1,,peer=0", "\"\" is not an option"},
  };
  for (const auto& c : cases) {
    const auto made = make_emu_runtime({"sm90", c.spec}, 1, {});
    ASSERT_FALSE(made.ok()) << c.spec;
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(made.status().message().find(c.part), std::string::npos) << made.status().message();
  }
}

}  // namespace
}  // namespace strata::gpu::testing
