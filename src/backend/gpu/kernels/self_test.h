// Kernels about the device and not the model.
#pragma once

#include "backend/gpu/kernels/checksum_params.h"
#include "backend/gpu/kernels/op_params.h"
#include "backend/gpu/prim/prim.h"

namespace strata::gpu {

// Copies memory, as wide as it goes: what the bandwidth of the other kernels is compared with.
template <class Arch>
struct Bandwidth {
  static constexpr int kThreads = 256;
  using Params = BandwidthParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    constexpr int kAhead = 4;
    const auto* from = static_cast<const Vec4*>(p.from);
    auto* to = static_cast<Vec4*>(p.to);
    const int64_t step = static_cast<int64_t>(t.grid_x()) * kThreads;
    int64_t i = static_cast<int64_t>(t.block_x()) * kThreads + t.index();
    for (; i + (kAhead - 1) * step < p.pieces; i += kAhead * step) {
      Vec4 piece[kAhead];
      for (int k = 0; k < kAhead; ++k) piece[k] = load_stream16(from + i + k * step);
      for (int k = 0; k < kAhead; ++k) to[i + k * step] = piece[k];
    }
    for (; i < p.pieces; i += step) to[i] = load_stream16(from + i);
  }
};

// What a device finds in its memory, as a number per block, so that two devices can compare. Each word
// of 8 bytes adds a bijective function of itself and its place: one that differs always shows.
template <class Arch>
struct Checksum {
  static constexpr int kThreads = 256;
  static constexpr int kSharedBytes = kThreads * static_cast<int>(sizeof(uint64_t));
  using Params = ChecksumParams;

  STRATA_DEVICE static uint64_t term(uint32_t low, uint32_t high, int64_t place) {
    uint64_t x = (static_cast<uint64_t>(high) << 32 | low) +
                 static_cast<uint64_t>(place) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 32);
  }

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const auto* data = static_cast<const Vec4*>(p.data);
    const int64_t step = static_cast<int64_t>(t.grid_x()) * kThreads;
    uint64_t sum = 0;
    for (int64_t i = static_cast<int64_t>(t.block_x()) * kThreads + t.index(); i < p.pieces; i += step) {
      const Vec4 v = load_stream16(data + i);
      sum += term(v.x, v.y, 2 * i) + term(v.z, v.w, 2 * i + 1);
    }
    auto* sums = t.shared<uint64_t>(0);
    sums[t.index()] = sum;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      t.sync();
      if (t.index() < half) sums[t.index()] += sums[t.index() + half];
    }
    if (t.index() == 0) p.sums[t.block_x()] = sums[0];
  }
};

}  // namespace strata::gpu
