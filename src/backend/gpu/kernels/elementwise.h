// Kernels of one value in, one value out: embedding rows and the residual streams.
#pragma once

#include "backend/gpu/kernels/elementwise_params.h"
#include "backend/gpu/prim/prim.h"
#include "backend/numeric.h"
#include "format/quant/types.h"

namespace strata::gpu {

// Decodes table rows. A thread takes 32 consecutive values, or one of an unquantised type.
template <class Arch, class Q>
struct Embed {
  static constexpr int kThreads = 128;
  static constexpr int kUnit = Q::kQuantised ? quant::kGroupElems : 1;
  using Params = EmbedParams;

  // Grid: rows, pieces of a row.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int row = t.block_x();
    const uint8_t* blocks = p.table + p.ids[row] * p.row_bytes;
    float* out = p.out + static_cast<int64_t>(row) * p.width;
    const int units = p.width / kUnit;
    for (int u = t.block_y() * kThreads + t.index(); u < units; u += t.grid_y() * kThreads) {
      float value[kUnit];
      if constexpr (Q::kQuantised) {
        constexpr int kGroups = Q::kElems / kUnit;
        quant::IntGroup g;
        Q::unpack(blocks + static_cast<int64_t>(u / kGroups) * Q::kBytes, u % kGroups, g);
        quant::decode_half<Q::kHasMin>(g, 0, value);
        quant::decode_half<Q::kHasMin>(g, 1, value + 16);
      } else {
        Q::decode(blocks + static_cast<int64_t>(u) * Q::kBytes, value);
      }
      for (int i = 0; i < kUnit; ++i) {
        out[u * kUnit + i] = p.scale != nullptr ? value[i] * p.scale[0] : value[i];
      }
    }
  }
};

template <class Arch>
struct HcBroadcast {
  static constexpr int kThreads = 256;
  using Params = HcBroadcastParams;

  // Grid: rows, pieces of a row.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x();
    const float* e = p.e + row * p.width;
    float* residual = p.residual + row * p.streams * p.width;
    for (int i = t.block_y() * kThreads + t.index(); i < p.width; i += t.grid_y() * kThreads) {
      const float value = e[i];
      for (int s = 0; s < p.streams; ++s) residual[static_cast<int64_t>(s) * p.width + i] = value;
    }
  }
};

template <class Arch>
struct HcWrite {
  static constexpr int kThreads = 256;
  using Params = HcWriteParams;

  // Grid: rows, pieces of a row.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x();
    const float* y = p.y + row * p.width;
    const float* weight = p.inject_weight + row * p.streams;
    float* residual = p.residual + row * p.streams * p.width;
    for (int i = t.block_y() * kThreads + t.index(); i < p.width; i += t.grid_y() * kThreads) {
      const float value = y[i];
      for (int s = 0; s < p.streams; ++s) {
        float* r = residual + static_cast<int64_t>(s) * p.width + i;
        *r = numeric::fma(weight[s], value, *r);
      }
    }
  }
};

}  // namespace strata::gpu
