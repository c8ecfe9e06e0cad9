// What comes before attention (docs/MODEL.md 3.6 steps 2 and 3, 3.7 steps 1 to 6): norms, rotation,
// cache writes, pooled block keys, and which cells each query attends.
#pragma once

#include "backend/gpu/kernels/kv_cell.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

// A lane's part of scaling a vector and rotating the pairs (i, i + rot/2); results go to
// store(i, value). A lane reads what it alone writes, so `in` may be overwritten.
template <class Store>
STRATA_DEVICE void scale_rotate(const float* in, const float* norm, const float* rope, float factor,
                                int dim, int rot, int lane, const Store& store) {
  const int half = rot / 2;
  for (int i = lane; i < half; i += kSumLanes) {
    const float c = rope[i];
    const float s = rope[half + i];
    const float a = in[i] * factor * norm[i];
    const float b = in[half + i] * factor * norm[half + i];
    store(i, numeric::fma(a, c, -(b * s)));
    store(half + i, numeric::fma(a, s, b * c));
  }
  for (int i = rot + lane; i < dim; i += kSumLanes) store(i, in[i] * factor * norm[i]);
}

// Half a wave per vector. Blocks below `vector_blocks` prepare the vectors of the rows; the others
// pool the block keys that the call completes, and the first of them, which alone reads the tail of
// the incomplete block, then replaces it.
template <class Arch>
struct QsaPrepare {
  static constexpr int kThreads = 256;
  static constexpr int kGroups = kThreads / kSumLanes;
  // Vectors of a block. A cache of int8 needs head_dim floats of shared memory for each.
  static constexpr int kTileM = kGroups;
  using Params = QsaPrepareParams;

  STRATA_DEVICE static void run(const Thread& t, const Params& p) {
    const int64_t start = p.start.get();
    if (t.block_x() < p.vector_blocks) {
      prepare(t, p, start);
    } else {
      pool(t, p, start);
    }
  }

 private:
  STRATA_DEVICE static void write_cell(const Params& p, void* cache, int64_t at, float x) {
    if (p.cache.type == backend::KvType::kF32) {
      static_cast<float*>(cache)[at] = x;
    } else {
      static_cast<uint16_t*>(cache)[at] = half_for_cache(x);
    }
  }

  STRATA_DEVICE static void prepare(const Thread& t, const Params& p, int64_t start) {
    const int64_t vectors = static_cast<int64_t>(p.rows) * p.vectors_of_row();
    const int64_t wanted = static_cast<int64_t>(t.block_x()) * kGroups + t.index() / kSumLanes;
    const bool active = wanted < vectors;
    const int64_t vector = active ? wanted : vectors - 1;
    const int64_t row = vector / p.vectors_of_row();
    int which = static_cast<int>(vector % p.vectors_of_row());
    const float* rope = p.rope + row * p.rot_dim;

    // Both halves of a wave take the same steps, whatever their vectors are.
    const float* in = nullptr;
    const float* norm = nullptr;
    float* out = nullptr;
    void* cache = nullptr;
    int64_t at = 0;
    int dim = p.head_dim;
    if (which < p.heads) {
      out = p.q + (row * p.heads + which) * 2 * dim;
      in = out;
      norm = p.q_norm;
    } else if ((which -= p.heads) < 2 * p.kv_heads) {
      const int head = which % p.kv_heads;
      const bool key = which < p.kv_heads;
      in = (key ? p.k : p.v) + (row * p.kv_heads + head) * dim;
      norm = key ? p.k_norm : nullptr;
      cache = key ? p.cache.k : p.cache.v;
      at = ((start + row) * p.kv_heads + head) * dim;
    } else {
      which -= 2 * p.kv_heads;
      dim = p.index_dim;
      out = p.index_q + (row * p.index_heads + which) * dim;
      in = out;
      norm = p.index_q_norm;
    }
    const float factor = rms_factor(half_wave_squares(t, in, active ? dim : 0), dim, p.eps);
    const int lane = t.lane() % kSumLanes;
    if (p.cache.type == backend::KvType::kI8) {
      // Codes need whole groups of finished values: keys pass through shared memory.
      float* finished = t.shared<float>(t.index() / kSumLanes * p.head_dim * 4);
      if (active && cache != nullptr && norm != nullptr) {
        scale_rotate(in, norm, rope, factor, dim, p.rot_dim, lane,
                     [finished](int i, float x) { finished[i] = x; });
      }
      t.sync_wave();
      if (active && cache != nullptr) {
        const float* x = norm != nullptr ? finished : in;
        float* scales = norm != nullptr ? p.cache.k_scales : p.cache.v_scales;
        for (int g = lane; g < dim / backend::kKvGroup; g += kSumLanes) {
          const int64_t first = at + g * backend::kKvGroup;
          scales[first / backend::kKvGroup] =
              store_codes(x + g * backend::kKvGroup, static_cast<int8_t*>(cache) + first);
        }
        return;
      }
    }
    if (!active) return;
    if (norm == nullptr) {
      for (int i = lane; i < dim; i += kSumLanes) write_cell(p, cache, at + i, in[i]);
      return;
    }
    scale_rotate(in, norm, rope, factor, dim, p.rot_dim, lane, [&](int i, float x) {
      if (cache != nullptr) {
        write_cell(p, cache, at + i, x);
      } else {
        out[i] = x;
      }
    });
  }

  // Row `index` of the sequence: of this call, or a token of the block that was incomplete before.
  STRATA_DEVICE static const float* recent(const Params& p, int64_t start, const float* rows,
                                           const float* tail, int64_t index, int width) {
    return index >= start ? rows + (index - start) * width : tail + index % p.ratio * width;
  }

  STRATA_DEVICE static void pool(const Thread& t, const Params& p, int64_t start) {
    const int64_t end = start + p.rows;
    const int64_t first_block = start / p.ratio;
    const int64_t blocks = end / p.ratio - first_block;
    const int dim = p.index_dim;
    const int lane = t.lane() % kSumLanes;
    const int64_t pool_block = t.block_x() - p.vector_blocks;
    const int64_t wanted = pool_block * kGroups + t.index() / kSumLanes;
    const bool active = wanted < blocks;
    const int64_t first = (first_block + wanted) * p.ratio;
    float* key = p.cache.block_keys + (first_block + wanted) * dim;
    if (active) {
      for (int i = lane; i < dim; i += kSumLanes) {
        float sum = 0.0f;
        for (int k = 0; k < p.ratio; ++k) {
          sum += recent(p, start, p.index_k, p.cache.tail_keys, first + k, dim)[i];
        }
        key[i] = sum / static_cast<float>(p.ratio);
      }
    }
    t.sync_wave();
    const float squares = half_wave_squares(t, key, active ? dim : 0);
    if (active) {
      scale_rotate(key, p.index_k_norm,
                   recent(p, start, p.rope, p.tail_rope, first, p.rot_dim),
                   rms_factor(squares, dim, p.eps), dim, p.rot_dim, lane,
                   [key](int i, float x) { key[i] = x; });
    }
    if (pool_block != 0) return;

    t.sync();
    const int64_t whole = end / p.ratio * p.ratio;
    for (int64_t index = start > whole ? start : whole; index < end; ++index) {
      const int64_t slot = index % p.ratio;
      const int64_t row = index - start;
      for (int i = t.index(); i < dim; i += kThreads) {
        p.cache.tail_keys[slot * dim + i] = p.index_k[row * dim + i];
      }
      for (int i = t.index(); i < p.rot_dim; i += kThreads) {
        p.tail_rope[slot * p.rot_dim + i] = p.rope[row * p.rot_dim + i];
      }
    }
  }
};

}  // namespace strata::gpu
