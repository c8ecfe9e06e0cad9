// Hashed n-gram injection after its projections (docs/MODEL.md 3.3, injection steps 1 to 8).
#pragma once

#include "backend/gpu/kernels/lanes.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

// Steps 1 to 6, a block per row and stream.
template <class Arch>
struct PleGate {
  static constexpr int kThreads = 256;
  static constexpr int kSharedBytes = BlockSum::kSharedBytes;
  using Params = PleGateParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t at = static_cast<int64_t>(t.block_x()) * p.width;
    const int64_t channel = static_cast<int64_t>(t.block_x() % p.streams) * p.width;
    const int width = p.width;
    const float* key = p.key + at;
    const float* query = p.residual + at;
    const float* value = p.value + static_cast<int64_t>(t.block_x() / p.streams) * width;
    const float* norm_key = p.norm_key + channel;
    const float* norm_query = p.norm_query + channel;
    const float* norm_conv = p.norm_conv + channel;

    const BlockSum::Two squares = BlockSum::squares(
        t, 0, width, [key](int i) { return key[i]; }, [query](int i) { return query[i]; });
    const float key_factor = rms_factor(squares.first, width, p.eps);
    const float query_factor = rms_factor(squares.second, width, p.eps);
    const float match =
        BlockSum::products(
            t, 0, width, [=](int i) { return key[i] * key_factor * norm_key[i]; },
            [=](int i) { return query[i] * query_factor * norm_query[i]; }) /
        numeric::sqrt(static_cast<float>(width));
    const float magnitude = match < 0.0f ? -match : match;
    const float root = numeric::sqrt(numeric::max(magnitude, 1e-6f));
    const float gate = numeric::sigmoid(match > 0.0f ? root : match < 0.0f ? -root : match);
    const float sum =
        BlockSum::squares(t, 0, width, [=](int i) { return gate * value[i]; });
    const float factor = rms_factor(sum, width, p.eps);
    for (int i = t.index(); i < width; i += kThreads) {
      const float u = gate * value[i];
      p.u[at + i] = u;
      p.n[at + i] = u * factor * norm_conv[i];
    }
  }
};

// Steps 7 and 8, a thread per channel. The blocks of the first rows, which alone read the old
// state, replace it.
template <class Arch>
struct PleInject {
  static constexpr int kThreads = 256;
  static constexpr int kTileM = 16;  // rows of a block, at least; never fewer than the state's
  using Params = PleInjectParams;

  // Grid: pieces of the channels, pieces of the rows.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t c = static_cast<int64_t>(t.block_x()) * kThreads + t.index();
    if (c >= p.wide) return;
    const int tail = (p.taps - 1) * p.dilation;
    const int begin = t.block_y() * p.rows_per_block;
    const int end = begin + p.rows_per_block < p.rows ? begin + p.rows_per_block : p.rows;
    const float* taps = p.conv + c * p.taps;
    for (int r = begin; r < end; ++r) {
      float sum = 0.0f;
      for (int k = 0; k < p.taps; ++k) {
        const int64_t back = r - static_cast<int64_t>(p.taps - 1 - k) * p.dilation;
        const float in =
            back >= 0 ? p.n[back * p.wide + c] : p.conv_state[(back + tail) * p.wide + c];
        sum = numeric::fma(taps[k], in, sum);
      }
      float* residual = p.residual + r * p.wide + c;
      *residual = *residual + p.u[r * p.wide + c] + numeric::silu(sum);
    }
    if (t.block_y() != 0) return;
    for (int k = 0; k < tail; ++k) {
      const int64_t from = static_cast<int64_t>(p.rows) - tail + k;
      p.conv_state[k * p.wide + c] =
          from >= 0 ? p.n[from * p.wide + c] : p.conv_state[(from + tail) * p.wide + c];
    }
  }
};

}  // namespace strata::gpu
