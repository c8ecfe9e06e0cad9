// Gated delta net between its projections (docs/MODEL.md 3.5, steps 2 to 7).
#pragma once

#include "backend/gpu/kernels/lanes.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

// Steps 2 to 4: convolution over the rows of a call and the tail before them, silu, and unit length
// for q and k. A block takes one head of q, k or v for some rows; the first block of a head, which
// alone reads the old tail, replaces it.
template <class Arch>
struct GdnConv {
  static constexpr int kThreads = 128;
  static constexpr int kTileM = 8;  // rows of a block, at least; never fewer than the tail
  using Params = GdnConvParams;

  // Grid: heads, pieces of the rows.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int head = t.block_x();
    const int dim = p.head_dim;
    const int tail = p.taps - 1;
    const int64_t channels = (2 * static_cast<int64_t>(p.key_heads) + p.value_heads) * dim;
    const int64_t first_channel = static_cast<int64_t>(head) * dim;
    const int begin = t.block_y() * p.rows_per_block;
    const int end = begin + p.rows_per_block < p.rows ? begin + p.rows_per_block : p.rows;

    for (int i = t.index(); i < dim; i += kThreads) {
      const int64_t c = first_channel + i;
      const float* taps = p.conv + c * p.taps;
      for (int r = begin; r < end; ++r) {
        float sum = 0.0f;
        for (int k = 0; k < p.taps; ++k) {
          const int back = r - tail + k;  // row of this call the tap reads; negative: the tail
          const float in =
              back >= 0 ? p.qkv[back * channels + c] : p.conv_state[(back + tail) * channels + c];
          sum = numeric::fma(taps[k], in, sum);
        }
        p.out[r * channels + c] = numeric::silu(sum);
      }
      if (t.block_y() != 0) continue;
      for (int k = 0; k < tail; ++k) {
        const int from = p.rows - tail + k;
        p.conv_state[k * channels + c] =
            from >= 0 ? p.qkv[from * channels + c] : p.conv_state[(from + tail) * channels + c];
      }
    }
    if (head >= 2 * p.key_heads) return;

    t.sync();
    const int lane = t.lane() % kSumLanes;
    const int group = t.index() / kSumLanes;
    constexpr int kGroups = kThreads / kSumLanes;
    const float root = numeric::sqrt(static_cast<float>(dim));
    for (int first = begin; first < end; first += kGroups) {
      // Every half wave takes part in the sum; those beyond the rows add nothing.
      const int r = first + group < end ? first + group : end - 1;
      float* x = p.out + r * channels + first_channel;
      const bool mine = first + group < end;
      const float length = numeric::sqrt(half_wave_squares(t, x, mine ? dim : 0) + p.eps);
      if (!mine) continue;
      const float factor = head < p.key_heads ? 1.0f / (length * root) : 1.0f / length;
      for (int i = lane; i < dim; i += kSumLanes) x[i] *= factor;
    }
  }
};

// Step 5 for one value head and row.
struct GdnGates {
  float beta, decay;
  STRATA_DEVICE static GdnGates of(const GdnStepParams& p, int head, int row) {
    const int64_t at = static_cast<int64_t>(row) * p.value_heads + head;
    return {numeric::sigmoid(p.beta[at]),
            numeric::exp(p.a_log[head] * numeric::softplus(p.alpha[at] + p.dt_bias[head]))};
  }
};

STRATA_DEVICE int64_t gdn_channels(const GdnStepParams& p) {
  return (2 * static_cast<int64_t>(p.key_heads) + p.value_heads) * p.head_dim;
}

// Steps 5 and 6, a thread per column of the state; columns do not meet. For any head size, on the
// state where it lies.
template <class Arch>
struct GdnStep {
  static constexpr int kThreads = 32;
  using Params = GdnStepParams;

  // Grid: pieces of 32 columns, value heads.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int dim = p.head_dim;
    const int column = t.block_x() * kThreads + t.index();
    const int head = t.block_y();
    if (column >= dim) return;
    const int64_t channels = gdn_channels(p);
    float* state = p.state + static_cast<int64_t>(head) * dim * dim + column;
    for (int r = 0; r < p.rows; ++r) {
      const float* q = p.qkv + r * channels + static_cast<int64_t>(head % p.key_heads) * dim;
      const float* k = q + static_cast<int64_t>(p.key_heads) * dim;
      const float v =
          p.qkv[r * channels + (2 * static_cast<int64_t>(p.key_heads) + head) * dim + column];
      const GdnGates gates = GdnGates::of(p, head, r);
      float prediction = 0.0f;
      for (int i = 0; i < dim; ++i) {
        const float s = state[static_cast<int64_t>(i) * dim] * gates.decay;
        state[static_cast<int64_t>(i) * dim] = s;
        prediction = numeric::fma(s, k[i], prediction);
      }
      const float d = gates.beta * (v - prediction);
      float o = 0.0f;
      for (int i = 0; i < dim; ++i) {
        const float s = numeric::fma(k[i], d, state[static_cast<int64_t>(i) * dim]);
        state[static_cast<int64_t>(i) * dim] = s;
        o = numeric::fma(s, q[i], o);
      }
      p.out[(static_cast<int64_t>(r) * p.value_heads + head) * dim + column] = o;
    }
  }
};

// The same for heads of kDim: a column of the state stays in its thread's registers over all rows.
// The output of a row and the prediction of the next one are two chains of additions over the same
// column, so one pass makes both. q and k of three rows lie in shared memory: of the row whose state
// is updated, of the row predicted, and of the one being fetched.
template <class Arch, int kDim>
struct GdnStepColumns {
  static constexpr int kThreads = 32;
  static constexpr int kSharedBytes = 3 * 2 * kDim * static_cast<int>(sizeof(float));
  static constexpr int kPart = kDim / kThreads;  // values of q, and of k, that a thread fetches
  static_assert(kPart == 4);
  using Params = GdnStepParams;

  // Grid: pieces of 32 columns, value heads.
  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int column = t.block_x() * kThreads + t.index();
    const int head = t.block_y();
    const int lane = t.lane();
    const int64_t channels = gdn_channels(p);
    const float* q_in = p.qkv + static_cast<int64_t>(head % p.key_heads) * kDim + kPart * lane;
    const float* k_in = q_in + static_cast<int64_t>(p.key_heads) * kDim;
    const float* v_in = p.qkv + (2 * static_cast<int64_t>(p.key_heads) + head) * kDim + column;
    float* shared = t.shared<float>(0);
    const auto q_of = [shared](int row) { return shared + row % 3 * (2 * kDim); };
    const auto k_of = [shared](int row) { return shared + row % 3 * (2 * kDim) + kDim; };
    const auto keep = [&](int row, const Float4& q, const Float4& k) {
      *reinterpret_cast<Float4*>(q_of(row) + kPart * lane) = q;
      *reinterpret_cast<Float4*>(k_of(row) + kPart * lane) = k;
    };

    float* state = p.state + static_cast<int64_t>(head) * kDim * kDim + column;
    float s[kDim];
    STRATA_UNROLL for (int i = 0; i < kDim; ++i) s[i] = state[i * kDim];

    for (int r = 0; r < 2 && r < p.rows; ++r) {
      keep(r, load_float4(q_in + r * channels), load_float4(k_in + r * channels));
    }
    // Lane l of the wave knows the gates of row l of the current 32.
    GdnGates gates = GdnGates::of(p, head, lane < p.rows ? lane : 0);
    float v = v_in[0];
    float beta = t.shuffle(gates.beta, 0);
    float decay = t.shuffle(gates.decay, 0);
    t.sync_wave();

    float prediction = 0.0f;
    const float* first_key = k_of(0);
    STRATA_UNROLL for (int i = 0; i < kDim; i += 4) {
      const Float4 k = load_float4(first_key + i);
      STRATA_UNROLL for (int e = 0; e < 4; ++e) {
        s[i + e] *= decay;
        prediction = numeric::fma(s[i + e], k.v[e], prediction);
      }
    }

    float* out = p.out + static_cast<int64_t>(head) * kDim + column;
    const int64_t out_stride = static_cast<int64_t>(p.value_heads) * kDim;
    for (int r = 0; r + 1 < p.rows; ++r) {
      const float d = beta * (v - prediction);
      const bool fetch = r + 2 < p.rows;
      Float4 q_ahead{}, k_ahead{};
      if (fetch) {
        q_ahead = load_float4(q_in + (r + 2) * channels);
        k_ahead = load_float4(k_in + (r + 2) * channels);
      }
      v = v_in[(r + 1) * channels];
      if ((r + 1) % kThreads == 0) {
        const int row = r + 1 + lane;
        gates = GdnGates::of(p, head, row < p.rows ? row : r + 1);
      }
      beta = t.shuffle(gates.beta, (r + 1) % kThreads);
      decay = t.shuffle(gates.decay, (r + 1) % kThreads);

      const float* q_now = q_of(r);
      const float* k_now = k_of(r);
      const float* k_next = k_of(r + 1);
      float o = 0.0f;
      prediction = 0.0f;
      STRATA_UNROLL for (int i = 0; i < kDim; i += 4) {
        const Float4 q = load_float4(q_now + i);
        const Float4 k = load_float4(k_now + i);
        const Float4 next = load_float4(k_next + i);
        STRATA_UNROLL for (int e = 0; e < 4; ++e) {
          const float updated = numeric::fma(k.v[e], d, s[i + e]);
          o = numeric::fma(updated, q.v[e], o);
          s[i + e] = updated * decay;
          prediction = numeric::fma(s[i + e], next.v[e], prediction);
        }
      }
      out[r * out_stride] = o;
      if (fetch) keep(r + 2, q_ahead, k_ahead);
      t.sync_wave();
    }

    const int last = p.rows - 1;
    const float d = beta * (v - prediction);
    const float* q_now = q_of(last);
    const float* k_now = k_of(last);
    float o = 0.0f;
    STRATA_UNROLL for (int i = 0; i < kDim; i += 4) {
      const Float4 q = load_float4(q_now + i);
      const Float4 k = load_float4(k_now + i);
      STRATA_UNROLL for (int e = 0; e < 4; ++e) {
        s[i + e] = numeric::fma(k.v[e], d, s[i + e]);
        o = numeric::fma(s[i + e], q.v[e], o);
      }
    }
    out[last * out_stride] = o;
    STRATA_UNROLL for (int i = 0; i < kDim; ++i) state[i * kDim] = s[i];
  }
};

// Step 7, in place: half a wave per row and value head.
template <class Arch>
struct GdnNorm {
  static constexpr int kThreads = 256;
  static constexpr int kTileM = kThreads / kSumLanes;  // heads of a block
  using Params = GdnNormParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t wanted = static_cast<int64_t>(t.block_x()) * kTileM + t.index() / kSumLanes;
    const int64_t head = wanted < p.heads ? wanted : p.heads - 1;
    float* o = p.out + head * p.head_dim;
    const float* z = p.z + head * p.head_dim;
    const float squares = half_wave_squares(t, o, wanted < p.heads ? p.head_dim : 0);
    const float factor = rms_factor(squares, p.head_dim, p.eps);
    if (wanted >= p.heads) return;
    for (int i = t.lane() % kSumLanes; i < p.head_dim; i += kSumLanes) {
      o[i] = o[i] * factor * p.norm[i] * numeric::sigmoid(z[i]);
    }
  }
};

}  // namespace strata::gpu
