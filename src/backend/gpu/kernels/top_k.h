// The best logits of a row, exactly and in order (TopKLogitsArgs).
#pragma once

#include "backend/gpu/kernels/radix_select.h"
#include "backend/gpu/kernels/top_k_params.h"
#include "backend/logit_order.h"
#include "backend/op_args.h"

namespace strata::gpu {

// A strip of a row, as the threads of a block read it together; group g of the strip is what thread g
// reads.
struct LogitStrip {
  static constexpr int kGroup = backend::TopKLogitsArgs::kGroup;
  static constexpr int kTokens = backend::TopKLogitsArgs::kStrip;
  static constexpr int kGroups = kTokens / kGroup;
  static constexpr int kAhead = 8;  // logits of a thread that are on their way at once

  // f(id, key) for each logit of group `group` of a row, counted over all its strips; key 0 past its
  // end.
  template <class F>
  STRATA_DEVICE static void for_each(const float* logits, int valid, int group, const F& f) {
    const int first = group / kGroups * kTokens + group % kGroups;
    for (int begin = 0; begin < kGroup; begin += kAhead) {
      uint32_t key[kAhead];
      STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
        const int id = first + (begin + k) * kGroups;
        key[k] = id < valid ? backend::logit_key(quant::bits_from_float(logits[id])) : 0u;
      }
      STRATA_UNROLL for (int k = 0; k < kAhead; ++k) f(first + (begin + k) * kGroups, key[k]);
    }
  }
};

// The key of the best logit of each group; 0 for groups past the end. Grid: rows times strips.
template <class Arch>
struct LogitMaxima {
  static constexpr int kThreads = LogitStrip::kGroups;
  using Params = LogitMaximaParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x() / p.strips;
    const int group = t.block_x() % p.strips * kThreads + t.index();
    uint32_t best = 0;
    LogitStrip::for_each(p.logits + row * p.stride, p.valid, group,
                         [&](int, uint32_t key) { best = key > best ? key : best; });
    p.maxima[row * p.strips * kThreads + group] = best;
  }
};

// From those to the k best. There are k groups whose best is as good as the k-th best of all groups, so
// the k best logits are at least as good: few groups need a look. A thread block per row.
template <class Arch>
struct TopKLogits {
  static constexpr int kThreads = 1024;
  static constexpr int kAhead = 8;
  static constexpr int kRoom = 2 * backend::TopKLogitsArgs::kMost;  // of the list that is sorted
  using Select = RadixSelect<Arch, kThreads>;
  static constexpr int kListAt = Select::kSharedBytes + 16;  // the list's length before it
  static constexpr int kSharedBytes = kListAt + kRoom * static_cast<int>(sizeof(uint64_t));
  using Params = TopKLogitsParams;

  // Key, then the lower id: a larger rank is a better logit, and no two have the same.
  static constexpr int kIdBits = 22;
  static constexpr uint64_t kLastId = (uint64_t{1} << kIdBits) - 1;
  static_assert(kLastId + 1 == backend::TopKLogitsArgs::kMostTokens);
  STRATA_DEVICE static uint64_t rank_of(uint32_t key, int id) {
    return static_cast<uint64_t>(key) << kIdBits | (kLastId - static_cast<uint64_t>(id));
  }

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x();
    const float* logits = p.logits + row * p.stride;
    const uint32_t* maxima = p.maxima + row * p.groups;
    const uint32_t bound = p.k < p.groups ? kth_group(t, p, maxima) : 0u;
    int count = gather(t, p, logits, maxima, bound, rank_of(bound, static_cast<int>(kLastId)));
    if (count > kRoom) {
      count = gather(t, p, logits, maxima, bound, kth_rank(t, p, logits, maxima, bound));
    }
    uint64_t* list = t.shared<uint64_t>(kListAt);
    sort(t, list, count);
    for (int i = t.index(); i < p.k; i += kThreads) {
      const auto id = static_cast<int>(kLastId - (list[i] & kLastId));
      p.values[row * p.k + i] = logits[id];
      p.ids[row * p.k + i] = id;
    }
  }

 private:
  // A key that at least k groups reach and that the k-th best of them is not above.
  STRATA_DEVICE static uint32_t kth_group(const Thread& t, const Params& p,
                                          const uint32_t* maxima) {
    uint32_t bits = 0;
    int wanted = p.k;
    // Digits of 11, 11 and 10 bits.
    for (int pass = 0; pass < 3; ++pass) {
      const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0;
      const int above = pass == 0 ? 32 : pass == 1 ? 21 : 10;
      const uint32_t mask = (1u << (above - shift)) - 1u;
      Select::clear(t);
      for (int first = 0; first < p.groups; first += kAhead * kThreads) {
        uint32_t key[kAhead];
        STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
          const int g = first + k * kThreads + t.index();
          key[k] = g < p.groups ? maxima[g] : 0u;
        }
        STRATA_UNROLL for (int k = 0; k < kAhead; ++k) {
          const bool counts = first + k * kThreads + t.index() < p.groups &&
                              (pass == 0 || (key[k] ^ bits) >> above == 0);
          Select::count(t, key[k] >> shift & mask, counts);
        }
      }
      const typename Select::Digit found = Select::find(t, wanted);
      bits |= static_cast<uint32_t>(found.digit) << shift;
      wanted = found.wanted;
      if (found.of == wanted) break;  // the same for the whole block
    }
    return bits;
  }

  // The same of the logits of groups that reach `bound`, which may be far more than k: the rank that
  // exactly k of them reach.
  STRATA_DEVICE static uint64_t kth_rank(const Thread& t, const Params& p, const float* logits,
                                         const uint32_t* maxima, uint32_t bound) {
    uint64_t bits = 0;
    int wanted = p.k;
    int above = 32 + kIdBits;
    while (above > 0) {
      const int shift = above > Select::kDigitBits ? above - Select::kDigitBits : 0;
      const uint64_t mask = (uint64_t{1} << (above - shift)) - 1;
      Select::clear(t);
      for (int first = 0; first < p.groups; first += kThreads) {
        const int g = first + t.index();
        const bool reaches = g < p.groups && maxima[g] >= bound;
        if (t.ballot(reaches) == 0) continue;  // the same for the whole wave
        LogitStrip::for_each(logits, reaches ? p.valid : 0, reaches ? g : 0,
                             [&](int id, uint32_t key) {
                               const uint64_t rank = rank_of(key, id);
                               const bool counts = reaches && id < p.valid && key >= bound &&
                                                   (rank ^ bits) >> above == 0;
                               Select::count(t, static_cast<uint32_t>(rank >> shift & mask),
                                             counts);
                             });
      }
      const typename Select::Digit found = Select::find(t, wanted);
      bits |= static_cast<uint64_t>(found.digit) << shift;
      wanted = found.wanted;
      if (found.of == wanted) break;  // the same for the whole block
      above = shift;
    }
    return bits;
  }

  // Lists the ranks from `least` on, in no order; returns how many there are, listed or not.
  STRATA_DEVICE static int gather(const Thread& t, const Params& p, const float* logits,
                                  const uint32_t* maxima, uint32_t bound, uint64_t least) {
    int* length = t.shared<int>(Select::kSharedBytes);
    uint64_t* list = t.shared<uint64_t>(kListAt);
    if (t.index() == 0) *length = 0;
    t.sync();
    for (int g = t.index(); g < p.groups; g += kThreads) {
      if (maxima[g] < bound) continue;
      LogitStrip::for_each(logits, p.valid, g, [&](int id, uint32_t key) {
        const uint64_t rank = rank_of(key, id);
        if (id >= p.valid || rank < least) return;
        const int at = t.atomic_add(length, 1);
        if (at < kRoom) list[at] = rank;
      });
    }
    t.sync();
    const int count = *length;
    t.sync();
    return count;
  }

  // Best first; a bitonic network.
  STRATA_DEVICE static void sort(const Thread& t, uint64_t* list, int count) {
    int size = 1;
    while (size < count) size *= 2;
    for (int i = count + t.index(); i < size; i += kThreads) list[i] = 0;
    t.sync();
    for (int length = 2; length <= size; length *= 2) {
      for (int step = length / 2; step > 0; step /= 2) {
        for (int pair = t.index(); pair < size / 2; pair += kThreads) {
          const int i = 2 * (pair & ~(step - 1)) | (pair & (step - 1));
          const uint64_t a = list[i], b = list[i + step];
          const bool falling = (i & length) == 0;
          if ((a < b) == falling) {
            list[i] = b;
            list[i + step] = a;
          }
        }
        t.sync();
      }
    }
  }
};

}  // namespace strata::gpu
