#include "gpu/emu_race_kernels.h"

#include "backend/gpu/instance.h"

namespace strata::gpu::testing {

namespace {

struct Races {
  using Params = RaceParams;
  static constexpr int kThreads = 64;
  static constexpr int kSharedBytes = 64 * 4 + 64;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    int* s = t.shared<int>(0);
    int8_t* bytes = t.shared<int8_t>(64 * 4);
    const int i = t.index();
    const int across = 63 - i;  // a thread of the other wave
    const int beside = i ^ 1;   // a lane of the same wave
    switch (p.what) {
      case kClean:
        for (int round = 0; round < 3; ++round) {
          s[i] = i + round;
          t.sync();
          p.memory[i] = s[across];
          t.sync();
        }
        break;
      case kCleanBytes:
        bytes[i] = static_cast<int8_t>(i);
        t.sync();
        p.memory[i] = bytes[across];
        break;
      case kCleanAtomics:
        s[i] = 0;
        t.sync();
        t.atomic_add(s, 1);
        t.atomic_add(p.memory, 1);
        t.sync();
        p.memory[i] = s[0];
        break;
      case kCleanWave:
        for (int round = 0; round < 3; ++round) {
          s[i] = i;
          t.sync_wave();
          p.memory[i] = s[beside];
          t.sync_wave();
        }
        break;
      case kCleanBlocks: p.memory[64 + t.block_x() * 64 + i] = p.memory[i] + p.memory[0]; break;
      case kCleanHandOver: {
        int* mine = p.memory + 64 + t.block_x() * 64;
        int* counter = p.memory + 64 + t.grid_x() * 64;
        mine[i] = i;
        t.sync();
        if (i == 0) s[0] = t.atomic_add(counter, 1);
        t.sync();
        if (s[0] == t.grid_x() - 1) {
          for (int block = 0; block < t.grid_x(); ++block)
            p.memory[i] += p.memory[64 + block * 64 + i];
        }
        break;
      }
      case kReadWithoutBarrier:
        s[i] = i;
        p.memory[i] = s[across];
        break;
      case kWriteWithoutBarrier:
        s[i] = i;
        t.sync();
        p.memory[i] = s[across];
        s[i] = 0;
        break;
      case kTwoWriters: s[i / 2] = 1; break;
      case kShuffleIsNoBarrier:
        s[i] = i;
        p.memory[i] = t.shuffle(i, 0);
        p.memory[i] = s[beside];
        break;
      case kWaveSyncIsNotEnough:
        s[i] = i;
        t.sync_wave();
        p.memory[i] = s[across];
        break;
      case kAtomicAgainstPlain:
        if (i == 0) {
          s[0] = 0;
        } else {
          t.atomic_add(s, 1);
        }
        break;
      case kDeviceMemory: p.memory[i & 31] = i; break;
      case kBlocksWriteOneWord: p.memory[i] = 1; break;
      case kBlockReadsWhatAnotherWrites:
        p.memory[64 + t.block_x() * 64 + i] = 1;
        s[i] = p.memory[64 + (t.grid_x() - 1) * 64 + i];
        break;
      case kHostAddress: p.memory[i] = p.host[i]; break;
      case kPastTheEnd: p.memory[64 + t.grid_x() * 64 + 1 + i] = i; break;
    }
  }
};

}  // namespace

void add_race_images(ImageList& list) {
  add<arch::Gfx11, Races>(list, image_key(Kernel::kGdnStep));
}

}  // namespace strata::gpu::testing
