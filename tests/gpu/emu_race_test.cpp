// The memory checker: planted races and wild addresses are named, clean kernels pass.
#include "gpu/emu_race_kernels.h"
#include "gpu/emu_support.h"

namespace strata::gpu::testing {
namespace {

RuntimeResult run_case(RaceCase what, uint64_t seed, int blocks = 1) {
  ImageList images;
  add_race_images(images);
  Machine machine({"gfx1100:max-delay-us=0"}, images, seed);
  const int words = 64 + 64 * blocks + 1;
  int* memory = machine.upload(std::vector<int>(static_cast<size_t>(words), 0));
  const std::vector<int> host(64, 3);
  EXPECT_TRUE(
      machine.launch(images.front(), {.x = blocks}, RaceParams{what, memory, host.data()}).ok());
  return machine.synchronize();
}

TEST(EmuRace, CleanKernelsPassInEveryOrder) {
  for (const RaceCase what : {kClean, kCleanBytes, kCleanAtomics, kCleanWave}) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      const RuntimeResult result = run_case(what, seed);
      ASSERT_TRUE(result.ok()) << what << ": " << result.text;
    }
  }
}

TEST(EmuRace, BlocksThatShareNothingOrHandOverByAnAtomicPass) {
  for (const RaceCase what : {kCleanBlocks, kCleanHandOver}) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      const RuntimeResult result = run_case(what, seed, 9);
      ASSERT_TRUE(result.ok()) << what << ": " << result.text;
    }
  }
}

TEST(EmuRace, ARaceBetweenBlocksIsNamedInEveryOrder) {
  for (const RaceCase what : {kBlocksWriteOneWord, kBlockReadsWhatAnotherWrites}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const RuntimeResult result = run_case(what, seed, 3);
      ASSERT_EQ(result.fault, RuntimeFault::kLaunch) << what;
      for (const char* part : {"kernel GdnStep", "has a race: thread ", "device memory, byte ",
                               "block", "nothing orders blocks"}) {
        ASSERT_NE(result.text.find(part), std::string::npos) << part << " in: " << result.text;
      }
    }
  }
}

TEST(EmuRace, ARaceIsNamedInEveryOrderWithKernelPlaceAndBothThreads) {
  const struct {
    RaceCase what;
    const char* place;
  } cases[] = {
      {kReadWithoutBarrier, "shared memory at offset"},
      {kWriteWithoutBarrier, "shared memory at offset"},
      {kTwoWriters, "shared memory at offset"},
      {kShuffleIsNoBarrier, "shared memory at offset"},
      {kWaveSyncIsNotEnough, "shared memory at offset"},
      {kAtomicAgainstPlain, "shared memory at offset 0"},
      {kDeviceMemory, "device memory, byte"},
  };
  for (const auto& c : cases) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const RuntimeResult result = run_case(c.what, seed);
      ASSERT_EQ(result.fault, RuntimeFault::kLaunch) << c.what;
      for (const char* part : {"kernel GdnStep", "block (0, 0, 0) has a race: thread ", c.place,
                               "which thread ", "with no barrier between them"}) {
        ASSERT_NE(result.text.find(part), std::string::npos) << part << " in: " << result.text;
      }
    }
  }
}

TEST(EmuRace, AddressesThatTheDeviceCannotReachAreNamed) {
  for (const RaceCase what : {kHostAddress, kPastTheEnd}) {
    const RuntimeResult result = run_case(what, 1);
    ASSERT_EQ(result.fault, RuntimeFault::kLaunch);
    EXPECT_NE(
        result.text.find(what == kHostAddress ? "reads 4 bytes at an address where the device "
                                                "has no memory"
                                              : "writes 4 bytes at an address where the "
                                                "device has no memory"),
        std::string::npos)
        << result.text;
  }
}

}  // namespace
}  // namespace strata::gpu::testing
