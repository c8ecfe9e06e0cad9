// The n-th largest of many keys, some bits at a time, the highest first: what one thread block does per
// digit.
#pragma once

#include "backend/gpu/kernels/lanes.h"

namespace strata::gpu {

template <class Arch, int kThreads>
struct RadixSelect {
  static constexpr int kDigitBits = 11;
  static constexpr int kDigits = 1 << kDigitBits;
  // From offset 0 of the shared memory.
  static constexpr int kSharedBytes = (kDigits + 4) * static_cast<int>(sizeof(int));

  struct Digit {
    int digit;
    int wanted;  // keys to take of those that have it
    int of;      // how many have it
  };

  STRATA_DEVICE static int bit_count(uint32_t v) {
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    return static_cast<int>(((v + (v >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24);
  }

  STRATA_DEVICE static void clear(const Thread& t) {
    int* histogram = t.shared<int>(0);
    for (int i = t.index(); i < kDigits; i += kThreads) histogram[i] = 0;
    t.sync();
  }

  // Adds the digits of a wave's lanes to the histogram. Keys are alike, so most lanes have the first
  // lane's digit or the next one's: those are added at once, because equal addresses take turns.
  STRATA_DEVICE static void count(const Thread& t, uint32_t digit, bool counts) {
    int* histogram = t.shared<int>(0);
    uint32_t left = t.ballot(counts);
    STRATA_UNROLL for (int round = 0; round < 2; ++round) {
      if (left == 0) return;  // the same for the whole wave
      const int leader = bit_count((left & (0u - left)) - 1u);
      const uint32_t its = t.shuffle(digit, leader);
      const uint32_t same = t.ballot((left >> t.lane() & 1u) != 0 && digit == its);
      if (t.lane() == leader) (void)t.atomic_add(&histogram[its], bit_count(same));
      left &= ~same;
    }
    if ((left >> t.lane() & 1u) != 0) (void)t.atomic_add(&histogram[digit], 1);
  }

  // The digit of the `wanted`-th largest of the keys counted, of which there are so many.
  STRATA_DEVICE static Digit find(const Thread& t, int wanted) {
    int* histogram = t.shared<int>(0);
    int* found = histogram + kDigits;
    t.sync();
    if (t.wave() == 0) {
      // Lane l sums the digits from the top minus 64 l downwards.
      constexpr int kOfLane = kDigits / 32;
      const int top = kDigits - 1 - kOfLane * t.lane();
      int own = 0;
      for (int k = 0; k < kOfLane; ++k) own += histogram[top - k];
      int upto = own;
      for (int step = 1; step < 32; step *= 2) {
        const int before = t.shuffle(upto, (t.lane() - step) & 31);
        if (t.lane() >= step) upto += before;
      }
      int above = upto - own;
      if (above < wanted && upto >= wanted) {
        int digit = top;
        while (above + histogram[digit] < wanted) above += histogram[digit--];
        found[0] = digit;
        found[1] = wanted - above;
        found[2] = histogram[digit];
      }
    }
    t.sync();
    const Digit out{found[0], found[1], found[2]};
    t.sync();
    return out;
  }
};

}  // namespace strata::gpu
