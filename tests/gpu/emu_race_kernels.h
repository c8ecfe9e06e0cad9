// Kernels for the race checker's test, compiled apart from it because only they are instrumented.
#pragma once

#include "backend/gpu/image.h"

namespace strata::gpu::testing {

struct RaceParams {
  int what;
  int* memory;      // of 64 words, 64 more for each block, and a counter that is 0
  const int* host;  // an address of the host
};

// What a launch of the one image does; every one of them computes the right result here.
enum RaceCase : int {
  kClean,       // barriers between all that needs them
  kCleanBytes,  // neighbouring bytes by different threads
  kCleanAtomics,
  kCleanWave,            // ordered by sync_wave() within each wave
  kCleanBlocks,          // each writes its own, all read the same
  kCleanHandOver,        // the block that is last, by an atomic, reads what the others wrote
  kReadWithoutBarrier,   // of another wave's word
  kWriteWithoutBarrier,  // of the word another wave reads
  kTwoWriters,
  kShuffleIsNoBarrier,   // lanes exchange through memory with a shuffle between
  kWaveSyncIsNotEnough,  // sync_wave() between different waves
  kAtomicAgainstPlain,
  kDeviceMemory,  // two threads, one word of device memory
  kBlocksWriteOneWord,
  kBlockReadsWhatAnotherWrites,
  kHostAddress,
  kPastTheEnd,  // of the allocation
};

void add_race_images(ImageList& list);

}  // namespace strata::gpu::testing
