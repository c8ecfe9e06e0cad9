// Experts around their products: choosing them, sorting rows by them, adding up what they give.
#pragma once

#include "backend/gpu/kernels/products.h"

namespace strata::gpu {

// From the router's products to the best `used` experts of each row and their weights. A wave per
// row; `p` is replaced by exp(p - max).
template <class Arch>
struct RouterTopK {
  static constexpr int kThreads = 128;
  static constexpr int kTileM = kThreads / 32;
  using Params = RouterTopKParams;

  struct Choice {
    float value;
    int expert;
  };
  // By value, then by index. `b` may be none (expert < 0).
  STRATA_DEVICE static bool before(const Choice& a, const Choice& b) {
    return b.expert < 0 || a.value > b.value || (a.value == b.value && a.expert < b.expert);
  }

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int row = t.block_x() * kTileM + t.wave();
    const bool active = row < p.rows;
    const float* logits = p.p + static_cast<int64_t>(active ? row : 0) * p.experts;
    float* values = p.in_shared != 0
                        ? t.shared<float>(0) + t.wave() * p.experts
                        : p.p + static_cast<int64_t>(active ? row : 0) * p.experts;
    const int experts = active ? p.experts : 0;

    // A lane touches no probabilities but its own.
    float top = quant::float_from_bits(0xff800000u);  // minus infinity
    for (int e = t.lane(); e < experts; e += 32) top = numeric::max(top, logits[e]);
    STRATA_UNROLL for (int mask = 1; mask < 32; mask *= 2) {
      top = numeric::max(top, t.shuffle_xor(top, mask));
    }
    float poison = 0.0f;  // NaN when any probability is
    for (int e = t.lane(); e < experts; e += 32) {
      const float value = numeric::exp(logits[e] - top);
      poison += value * 0.0f;
      values[e] = value;
    }
    STRATA_UNROLL for (int mask = 1; mask < 32; mask *= 2) poison += t.shuffle_xor(poison, mask);

    // Each lane keeps the best of its experts that come after the last one chosen.
    Choice last{0.0f, -1};
    Choice own = best_after(t, values, experts, last);
    float sum = 0.0f;
    for (int j = 0; j < p.used; ++j) {
      Choice best = own;
      STRATA_UNROLL for (int mask = 1; mask < 32; mask *= 2) {
        const Choice other{t.shuffle_xor(best.value, mask), t.shuffle_xor(best.expert, mask)};
        if (other.expert >= 0 && before(other, best)) best = other;
      }
      // Values that are not numbers have no order; any experts will do, the weights show it.
      if (best.expert < 0) best = {0.0f, j};
      sum += best.value;
      if (active && t.lane() == 0) {
        p.ids[row * p.used + j] = best.expert;
        p.weights[row * p.used + j] = best.value;
      }
      if (own.expert == best.expert) own = best_after(t, values, experts, best);
    }
    t.sync_wave();
    for (int j = t.lane(); active && j < p.used; j += 32) {
      float& weight = p.weights[row * p.used + j];
      weight = weight / sum + poison;
    }
  }

  // The best of this lane's experts that come after `last`.
  STRATA_DEVICE static Choice best_after(const Thread& t, const float* values, int experts,
                                         const Choice& last) {
    constexpr int kAhead = 8;  // values read at once
    Choice best{0.0f, -1};
    for (int begin = t.lane(); begin < experts; begin += kAhead * 32) {
      float value[kAhead];
      STRATA_UNROLL for (int i = 0; i < kAhead; ++i) {
        const int e = begin + 32 * i;
        value[i] = values[e < experts ? e : begin];
      }
      STRATA_UNROLL for (int i = 0; i < kAhead; ++i) {
        const Choice c{value[i], begin + 32 * i};
        const bool candidate = c.expert < experts && c.value == c.value;  // NaN is none
        if (candidate && (last.expert < 0 || before(last, c)) && before(c, best)) best = c;
      }
    }
    return best;
  }
};

// Sorts the slots (row, choice) of a call by expert and cuts each expert's into tiles of `tile_rows`
// rows. One block.
template <class Arch>
struct ExpertGroups {
  static constexpr int kThreads = 1024;
  using Params = ExpertGroupsParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    int* counts = t.shared<int>(0);
    int* cursors = counts + p.experts;
    for (int e = t.index(); e < p.experts; e += kThreads) counts[e] = 0;
    t.sync();
    for_each(t, p, [&](int, int expert) { t.atomic_add(&counts[expert], 1); });
    t.sync();
    if (t.wave() == 0) {
      // A lane takes a run of experts.
      const int each = (p.experts + 31) / 32;
      const int begin = t.lane() * each < p.experts ? t.lane() * each : p.experts;
      const int end = begin + each < p.experts ? begin + each : p.experts;
      int slots = 0, tiles = 0;
      for (int e = begin; e < end; ++e) {
        slots += counts[e];
        tiles += (counts[e] + p.tile_rows - 1) / p.tile_rows;
      }
      const int own_slots = slots, own_tiles = tiles;
      for (int step = 1; step < 32; step *= 2) {
        const int from = t.lane() >= step ? t.lane() - step : t.lane();
        const int s = t.shuffle(slots, from), c = t.shuffle(tiles, from);
        if (t.lane() >= step) slots += s, tiles += c;
      }
      if (t.lane() == 31) *p.tile_count = tiles;
      int first_slot = slots - own_slots, tile = tiles - own_tiles;
      for (int e = begin; e < end; ++e) {
        cursors[e] = first_slot;
        for (int at = 0; at < counts[e]; at += p.tile_rows) {
          const int left = counts[e] - at;
          p.tiles[tile++] = {e, first_slot + at, left < p.tile_rows ? left : p.tile_rows};
        }
        first_slot += counts[e];
      }
    }
    t.sync();
    for_each(t, p, [&](int slot, int expert) {
      p.slots[t.atomic_add(&cursors[expert], 1)] = slot;
    });
  }

  // f(slot, expert) for this thread's slots, which are read a few at a time.
  template <class F>
  STRATA_DEVICE static void for_each(const Thread& t, const Params& p, const F& f) {
    constexpr int kAhead = 4;
    for (int i = t.index(); i < p.pairs; i += kAhead * kThreads) {
      int expert[kAhead];
      STRATA_UNROLL for (int a = 0; a < kAhead; ++a) {
        expert[a] = i + a * kThreads < p.pairs ? p.ids[i + a * kThreads] : -1;
      }
      STRATA_UNROLL for (int a = 0; a < kAhead; ++a) {
        if (expert[a] >= 0) f(i + a * kThreads, expert[a]);
      }
    }
  }
};

// y = sum over choices of weight * output, in the order of choice.
template <class Arch>
struct ExpertCombine {
  static constexpr int kThreads = 256;
  using Params = ExpertCombineParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x() / p.pieces;
    const int i = t.block_x() % p.pieces * kThreads + t.index();
    if (i >= p.width) return;
    float y = 0.0f;
    for (int j = 0; j < p.used; ++j) {
      const int64_t slot = row * p.used + j;
      y = numeric::fma(p.weights[slot], p.outputs[slot * p.stride + i], y);
    }
    p.y[row * p.width + i] = y;
  }
};

// out = silu(gate) * up, row by row.
template <class Arch>
struct SwiGlu {
  static constexpr int kThreads = 256;
  using Params = SwiGluParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x() / p.pieces;
    const int i = t.block_x() % p.pieces * kThreads + t.index();
    if (i >= p.width) return;
    const int64_t at = row * p.stride + i;
    p.out[row * p.out_stride + i] = numeric::silu(p.gate[at]) * p.up[at];
  }
};

// y += sigmoid(logit) * d.
template <class Arch>
struct SharedExpertAdd {
  static constexpr int kThreads = 256;
  using Params = SharedExpertAddParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t row = t.block_x() / p.pieces;
    const int i = t.block_x() % p.pieces * kThreads + t.index();
    if (i >= p.width) return;
    const int64_t at = row * p.width + i;
    p.y[at] = numeric::fma(numeric::sigmoid(p.logits[row]), p.d[at], p.y[at]);
  }
};

}  // namespace strata::gpu
