// Blocks of the emulator: barriers, wave operations, shared memory, and what they are strict about.
#include <algorithm>
#include <numeric>

#include "gpu/emu_support.h"

namespace strata::gpu::testing {
namespace {

constexpr ImageKey kKey = image_key(Kernel::kHcWrite);

// out[i] = sum over the block's values, by halving with a barrier at each step.
struct BlockSum {
  struct Params {
    const int* in;
    int* out;
  };
  static constexpr int kThreads = 256;
  static constexpr int kSharedBytes = kThreads * 4;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    int* s = t.shared<int>(0);
    const int at = t.block_x() * kThreads + t.index();
    s[t.index()] = p.in[at];
    t.sync();
    for (int step = kThreads / 2; step > 0; step /= 2) {
      if (t.index() < step) s[t.index()] += s[t.index() + step];
      t.sync();
    }
    p.out[at] = s[0];
  }
};

TEST(EmuBlock, BarriersOrderSharedMemoryInEveryBlock) {
  const KernelImage image = image_of<BlockSum>(kKey);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine({"sm90:max-delay-us=0"}, {image}, seed);
    std::vector<int> values(256 * 37);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * 7919 % 100003);
    const int* in = machine.upload(values);
    int* out = machine.allocate<int>(values.size());
    ASSERT_TRUE(machine.launch(image, {.x = 37}, BlockSum::Params{in, out}).ok());
    const std::vector<int> got = machine.download(out, values.size());
    ASSERT_TRUE(machine.synchronize().ok());
    for (size_t block = 0; block < 37; ++block) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(block * 256);
      const int want = std::accumulate(begin, begin + 256, 0);
      for (size_t i = 0; i < 256; ++i) ASSERT_EQ(got[block * 256 + i], want) << block << " " << i;
    }
  }
}

// Without the barrier, a block in which the reading wave happens to run first must read poison.
struct MissingBarrier {
  struct Params {
    int* out;
  };
  static constexpr int kThreads = 64;
  static constexpr int kSharedBytes = kThreads * 4;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    int* s = t.shared<int>(0);
    s[t.index()] = t.index();
    p.out[t.block_x() * kThreads + t.index()] = s[kThreads - 1 - t.index()];
  }
};

TEST(EmuBlock, AForgottenBarrierShowsInSomeBlock) {
  const KernelImage image = image_of<MissingBarrier, arch::Gfx11>(kKey);
  Machine machine({"gfx1100"}, {image});
  int* out = machine.allocate<int>(64 * 16);
  ASSERT_TRUE(machine.launch(image, {.x = 16}, MissingBarrier::Params{out}).ok());
  const std::vector<int> got = machine.download(out, 64 * 16);
  EXPECT_GT(std::count(got.begin(), got.end(), -1), 0);
}

struct GridPlaces {
  struct Params {
    int* out;
  };
  static constexpr int kThreads = 96;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int block = (t.block_z() * t.grid_y() + t.block_y()) * t.grid_x() + t.block_x();
    p.out[block * kThreads + t.index()] =
        t.size() * 10000 + t.waves() * 1000 + t.wave() * 100 + t.lane();
  }
};

TEST(EmuBlock, EveryThreadOfEveryBlockRunsOnceAndKnowsItsPlace) {
  const KernelImage image = image_of<GridPlaces>(kKey);
  Machine machine({"sm90"}, {image});
  const size_t count = 96 * 5 * 3 * 2;
  int* out = machine.allocate<int>(count);
  ASSERT_TRUE(machine.launch(image, {.x = 5, .y = 3, .z = 2}, GridPlaces::Params{out}).ok());
  const std::vector<int> got = machine.download(out, count);
  for (size_t i = 0; i < count; ++i) {
    const int thread = static_cast<int>(i % 96);
    ASSERT_EQ(got[i], 960000 + 3000 + thread / 32 * 100 + thread % 32) << i;
  }
}

// Each lane asks for values in several ways; out[block][thread][4].
struct WaveOperations {
  struct Params {
    uint32_t* out;
  };
  static constexpr int kThreads = 128;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    uint32_t* out = p.out + (t.block_x() * kThreads + t.index()) * 4;
    const int value = t.index() * 3 + 1;
    out[0] = static_cast<uint32_t>(t.shuffle(value, (t.lane() * 7 + 5) % 32));
    float sum = static_cast<float>(t.index());
    for (int mask = 16; mask > 0; mask /= 2) sum += t.shuffle_xor(sum, mask);
    out[1] = static_cast<uint32_t>(sum);
    out[2] = t.ballot(t.index() % 3 == 0);
    out[3] = t.ballot(t.wave() == 1) ^ static_cast<uint32_t>(t.shuffle(t.wave(), 0));
  }
};

TEST(EmuBlock, ShufflesAndBallotsStayWithinTheWave) {
  const KernelImage image = image_of<WaveOperations, arch::Gfx10>(kKey);
  Machine machine({"gfx1030"}, {image});
  const int blocks = 9;
  uint32_t* out = machine.allocate<uint32_t>(128 * 4 * blocks);
  ASSERT_TRUE(machine.launch(image, {.x = blocks}, WaveOperations::Params{out}).ok());
  const std::vector<uint32_t> got = machine.download(out, 128 * 4 * blocks);
  for (int i = 0; i < 128 * blocks; ++i) {
    const int thread = i % 128;
    const int wave = thread / 32;
    const uint32_t* lane = &got[static_cast<size_t>(i) * 4];
    ASSERT_EQ(lane[0], static_cast<uint32_t>((wave * 32 + (thread % 32 * 7 + 5) % 32) * 3 + 1));
    ASSERT_EQ(lane[1], static_cast<uint32_t>(wave * 32 * 32 + 31 * 32 / 2));
    uint32_t thirds = 0;
    for (int l = 0; l < 32; ++l) thirds |= static_cast<uint32_t>((wave * 32 + l) % 3 == 0) << l;
    ASSERT_EQ(lane[2], thirds);
    ASSERT_EQ(lane[3], (wave == 1 ? 0xffffffffu : 0u) ^ static_cast<uint32_t>(wave));
  }
}

struct Misuse {
  enum What : int {
    kLeaveBeforeBarrier,
    kWaveLeaves,
    kShuffleMeetsBallot,
    kBarrierMeetsShuffle,
    kLaneOutside,
    kSharedOutside,
    kSharedOverrun,
    kUnalignedCopy,
    kCopyToGlobal,
  };
  struct Params {
    int what;
    int* memory;
  };
  static constexpr int kThreads = 64;
  static constexpr int kSharedBytes = 64;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    switch (p.what) {
      case kLeaveBeforeBarrier:
        if (t.index() == 40) return;
        t.sync();
        break;
      case kWaveLeaves:
        if (t.wave() == 1) return;
        t.sync();
        break;
      case kShuffleMeetsBallot:
        if (t.lane() < 16) {
          p.memory[0] = t.shuffle(1, 0);
        } else {
          p.memory[0] = static_cast<int>(t.ballot(true));
        }
        break;
      case kBarrierMeetsShuffle:
        if (t.index() == 3) {
          t.sync();
        } else {
          p.memory[0] = t.shuffle(1, 0);
        }
        break;
      case kLaneOutside: p.memory[0] = t.shuffle(1, 32); break;
      case kSharedOutside: *t.shared<int>(kSharedBytes) = 1; break;
      case kSharedOverrun: t.shared<int>(0)[kSharedBytes / 4 + t.index() % 2] = 1; break;
      case kUnalignedCopy: t.copy_async16(t.shared<int>(0) + 1, p.memory); break;
      case kCopyToGlobal: t.copy_async16(p.memory, p.memory); break;
    }
  }
};

TEST(EmuBlock, MisuseEndsTheLaunchWithASentenceThatNamesKernelAndThread) {
  const struct {
    Misuse::What what;
    std::vector<const char*> parts;
  } cases[] = {
      {Misuse::kLeaveBeforeBarrier,
       {"stuck", "63 threads", "waited at sync()", "1 thread (the first: 40) reached its end"}},
      {Misuse::kWaveLeaves,
       {"stuck", "32 threads (the first: 0) waited at sync()",
        "32 threads (the first: 32) reached its end"}},
      {Misuse::kShuffleMeetsBallot, {"diverged", "a shuffle", "a ballot", "same wave"}},
      {Misuse::kBarrierMeetsShuffle,
       {"stuck", "1 thread (the first: 3) waited at sync()",
        "31 threads (the first: 0) waited at a shuffle"}},
      {Misuse::kLaneOutside, {"lane 32"}},
      {Misuse::kSharedOutside, {"offset 64", "has 64"}},
      {Misuse::kSharedOverrun, {"wrote shared memory at offset 6", "has 64"}},
      {Misuse::kUnalignedCopy, {"not aligned to 16"}},
      {Misuse::kCopyToGlobal, {"outside its shared memory"}},
  };
  const KernelImage image = image_of<Misuse>(image_key(Kernel::kQsaSelect));
  const KernelImage good = image_of<BlockSum>(kKey);
  // The devices share the threads and fibers that blocks run on: one's failure leaves them usable.
  std::vector<std::string> specs(std::size(cases) + 1, "sm90:max-delay-us=0");
  Machine machine(specs, {image, good});
  const int healthy = static_cast<int>(std::size(cases));
  const std::vector<int> ones(256, 1);
  for (int i = 0; i < healthy; ++i) {
    int* memory = machine.allocate<int>(16, i);
    ASSERT_TRUE(machine.launch(image, {.x = 3}, Misuse::Params{cases[i].what, memory}, i).ok());
    const RuntimeResult result = machine.synchronize(i);
    ASSERT_EQ(result.fault, RuntimeFault::kLaunch) << i;
    EXPECT_TRUE(result.sticky);
    EXPECT_NE(result.text.find("kernel QsaSelect on device " + std::to_string(i)),
              std::string::npos)
        << result.text;
    for (const char* part : cases[i].parts) {
      EXPECT_NE(result.text.find(part), std::string::npos) << part << " in: " << result.text;
    }

    const int* in = machine.upload(ones, healthy);
    int* out = machine.allocate<int>(256, healthy);
    ASSERT_TRUE(machine.launch(good, {.x = 1}, BlockSum::Params{in, out}, healthy).ok());
    ASSERT_EQ(machine.download(out, 256, healthy), std::vector<int>(256, 256));
  }
}

struct AsyncCopies {
  struct Params {
    const int* in;
    int* out;
    int groups;  // to leave in flight: 0 is right, more reads what may not be there
  };
  static constexpr int kThreads = 32;
  static constexpr int kSharedBytes = 2 * 32 * 16;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    int* s = t.shared<int>(0);
    for (int stage = 0; stage < 2; ++stage) {
      t.copy_async16(s + (stage * 32 + t.lane()) * 4, p.in + (stage * 32 + t.lane()) * 4);
      t.copy_async_commit();
    }
    if (p.groups == 0) {
      t.copy_async_wait<0>();
    } else {
      t.copy_async_wait<1>();
    }
    t.sync();
    for (int i = 0; i < 8; ++i) p.out[t.block_x() * 256 + i * 32 + t.lane()] = s[i * 32 + t.lane()];
  }
};

TEST(EmuBlock, AsynchronousCopiesArriveWhenWaitedForAndNotBefore) {
  const KernelImage image = image_of<AsyncCopies>(kKey);
  const KernelImage plain = image_of<AsyncCopies, arch::Gfx12>(kKey);
  Machine machine({"sm90", "gfx1201"}, {image, plain});
  std::vector<int> values(256);
  std::iota(values.begin(), values.end(), 1);
  const int* in = machine.upload(values);
  int* out = machine.allocate<int>(256 * 16);

  ASSERT_TRUE(machine.launch(image, {.x = 16}, AsyncCopies::Params{in, out, 0}).ok());
  std::vector<int> got = machine.download(out, 256 * 16);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], values[i % 256]);

  ASSERT_TRUE(machine.launch(image, {.x = 16}, AsyncCopies::Params{in, out, 1}).ok());
  got = machine.download(out, 256 * 16);
  size_t early = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (i % 256 < 128) {
      ASSERT_EQ(got[i], values[i % 256]);
    }
    early += got[i] == -1;
  }
  EXPECT_GT(early, 0u) << "the second group must be late in some block";

  // Where copies are ordinary ones there is nothing to wait for.
  const int* in1 = machine.upload(values, 1);
  int* out1 = machine.allocate<int>(256 * 16, 1);
  ASSERT_TRUE(machine.launch(plain, {.x = 16}, AsyncCopies::Params{in1, out1, 1}, 1).ok());
  got = machine.download(out1, 256 * 16, 1);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], values[i % 256]);
}

struct CountUp {
  struct Params {
    int* counter;
    int* seen;  // one flag per value that the counter had
  };
  static constexpr int kThreads = 128;
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    p.seen[t.atomic_add(p.counter, 1)] = 1;
  }
};

TEST(EmuBlock, AtomicAddGivesEachThreadItsOwnValueAcrossBlocks) {
  const KernelImage image = image_of<CountUp>(kKey);
  Machine machine({"sm90"}, {image});
  const size_t total = 128 * 500;
  int* counter = machine.upload(std::vector<int>{0});
  int* seen = machine.upload(std::vector<int>(total, 0));
  ASSERT_TRUE(machine.launch(image, {.x = 500}, CountUp::Params{counter, seen}).ok());
  EXPECT_EQ(machine.download(counter, 1)[0], static_cast<int>(total));
  EXPECT_EQ(machine.download(seen, total), std::vector<int>(total, 1));
}

}  // namespace
}  // namespace strata::gpu::testing
