// Rotates pairs (i, i + rot/2); `rope` holds rot/2 cosines, then rot/2 sines.
inline void rotate(float* x, const float* rope, int rot) {
  const int half = rot / 2;
  for (int i = 0; i < half; ++i) {
    const float c = rope[i];
    const float s = rope[half + i];
    const float a = x[i];
    const float b = x[half + i];
    x[i] = numeric::fma(a, c, -(b * s));
    x[half + i] = numeric::fma(a, s, b * c);
  }
}

inline void norm_rotate(const float* in, const float* norm, const float* rope, float* out, int dim,
                        int rot, float eps) {
  const float factor = rms_factor(in, dim, eps);
  for (int i = 0; i < dim; ++i) out[i] = in[i] * factor * norm[i];
  rotate(out, rope, rot);
}

// Stores `dim` values at element offset `at` of a cache. Values beyond the range of a half are
// clamped: an infinity would turn the whole row into NaN.
inline void store_cell(void* cache, float* scales, KvType type, int64_t at, const float* x,
                       int dim) {
  if (type == KvType::kF32) {
    std::memcpy(static_cast<float*>(cache) + at, x, sizeof(float) * static_cast<size_t>(dim));
    return;
  }
  if (type == KvType::kI8) {
    for (int i = 0; i < dim; i += kKvGroup) {
      scales[(at + i) / kKvGroup] =
          quantise_codes(x + i, static_cast<int8_t*>(cache) + at + i);
    }
    return;
  }
  auto* out = static_cast<uint16_t*>(cache) + at;
  for (int i = 0; i < dim; ++i) {
    const float low = x[i] < -65504.0f ? -65504.0f : x[i];  // NaN stays NaN
    out[i] = quant::float_to_half(low > 65504.0f ? 65504.0f : low);
  }
}

// Row r of this call, or a token of the block that was incomplete before it.
inline const float* recent(const float* rows, const float* tail, int64_t index, int64_t start,
                           int ratio, int width) {
  return index >= start ? rows + (index - start) * width : tail + index % ratio * width;
}

inline void pool_block(const QsaPrepareArgs& a, int64_t block) {
  const int64_t first = block * a.ratio;
  float* key = a.cache.block_keys + block * a.index_dim;
  for (int i = 0; i < a.index_dim; ++i) key[i] = 0.0f;
  for (int t = 0; t < a.ratio; ++t) {
    const float* raw =
        recent(a.index_k, a.cache.tail_keys, first + t, a.start, a.ratio, a.index_dim);
    for (int i = 0; i < a.index_dim; ++i) key[i] += raw[i];
  }
  for (int i = 0; i < a.index_dim; ++i) key[i] /= static_cast<float>(a.ratio);
  norm_rotate(key, a.index_k_norm,
              recent(a.rope, a.tail_rope, first, a.start, a.ratio, a.rot_dim), key, a.index_dim,
              a.rot_dim, a.eps);
}

inline Status qsa_prepare(CpuStream& stream, const QsaPrepareArgs& a) {
  stream.reserve_scratch(sizeof(float) * static_cast<size_t>(a.head_dim));
  stream.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    const float* rope = a.rope + r * a.rot_dim;
    for (int h = 0; h < a.heads; ++h) {
      float* q = a.q + (r * a.heads + h) * 2 * a.head_dim;
      norm_rotate(q, a.q_norm, rope, q, a.head_dim, a.rot_dim, a.eps);
    }
    auto* key = static_cast<float*>(
        stream.scratch(worker, sizeof(float) * static_cast<size_t>(a.head_dim)));
    for (int h = 0; h < a.kv_heads; ++h) {
      const int64_t in = (r * a.kv_heads + h) * a.head_dim;
      const int64_t at = ((a.start + r) * a.kv_heads + h) * a.head_dim;
      norm_rotate(a.k + in, a.k_norm, rope, key, a.head_dim, a.rot_dim, a.eps);
      store_cell(a.cache.k, a.cache.k_scales, a.cache.type, at, key, a.head_dim);
      store_cell(a.cache.v, a.cache.v_scales, a.cache.type, at, a.v + in, a.head_dim);
    }
    if (a.ratio > 0) {
      for (int h = 0; h < a.index_heads; ++h) {
        float* q = a.index_q + (r * a.index_heads + h) * a.index_dim;
        norm_rotate(q, a.index_q_norm, rope, q, a.index_dim, a.rot_dim, a.eps);
      }
    }
  });
  if (a.ratio == 0) return {};

  const int64_t end = a.start + a.rows;
  const int64_t first_block = a.start / a.ratio;
  stream.pool().parallel_for(end / a.ratio - first_block,
                             [&](int64_t i, int) { pool_block(a, first_block + i); });
  for (int64_t index = std::max(a.start, end / a.ratio * a.ratio); index < end; ++index) {
    const int64_t slot = index % a.ratio;
    std::memcpy(a.cache.tail_keys + slot * a.index_dim, a.index_k + (index - a.start) * a.index_dim,
                sizeof(float) * static_cast<size_t>(a.index_dim));
    std::memcpy(a.tail_rope + slot * a.rot_dim, a.rope + (index - a.start) * a.rot_dim,
                sizeof(float) * static_cast<size_t>(a.rot_dim));
  }
  return {};
}

// Scores of the complete blocks a query sees.
inline void score_blocks(const QsaSelectArgs& a, const float* index_q, int64_t blocks,
                         float* scores) {
  for (int64_t b = 0; b < blocks; ++b) {
    float score = 0.0f;
    for (int h = 0; h < a.index_heads; ++h) {
      const float dot =
          dot_f32(index_q + h * a.index_dim, a.block_keys + b * a.index_dim, a.index_dim);
      score += numeric::max(dot, 0.0f);
    }
    scores[b] = score;
  }
}

// The trained rule: the best whole blocks, then the tail.
inline int select_blocks(const QsaSelectArgs& a, int64_t seen, const float* scores, int32_t* order,
                         int32_t* cells) {
  const int64_t blocks = seen / a.ratio;
  const int64_t keep = std::min<int64_t>(a.budget / a.ratio, blocks);
  std::iota(order, order + blocks, 0);
  const auto better = [scores](int32_t x, int32_t y) {
    return scores[x] > scores[y] || (scores[x] == scores[y] && x < y);
  };
  if (keep < blocks) std::nth_element(order, order + keep, order + blocks, better);
  std::sort(order, order + keep);
  int count = 0;
  for (int64_t i = 0; i < keep; ++i) {
    for (int t = 0; t < a.ratio; ++t) cells[count++] = order[i] * a.ratio + t;
  }
  for (int64_t cell = blocks * a.ratio; cell < seen; ++cell) {
    cells[count++] = static_cast<int32_t>(cell);
  }
  return count;
}

// The cell-wise rule of a peer's release: equal scores within a block are cut wherever its sort
// happens to leave them, so the same library sort runs here over the same array.
inline int select_cells(const QsaSelectArgs& a, int64_t seen, const float* scores, int32_t* cells) {
  const int64_t blocks = seen / a.ratio;
  const int64_t padded = (a.total + 255) / 256 * 256;
  std::vector<float> value(static_cast<size_t>(padded), -INFINITY);
  for (int64_t cell = 0; cell < seen; ++cell) {
    value[static_cast<size_t>(cell)] = cell >= blocks * a.ratio ? 1e9f : scores[cell / a.ratio];
  }
  std::vector<int> order(static_cast<size_t>(padded));
  std::iota(order.begin(), order.end(), 0);
  const auto width =
      static_cast<ptrdiff_t>(std::min<int64_t>(padded, a.budget + a.ratio - 1));
  std::partial_sort(order.begin(), order.begin() + width, order.end(),
                    [&](int x, int y) { return value[x] > value[y]; });
  int count = 0;
  for (ptrdiff_t i = 0; i < width; ++i) {
    if (order[i] < seen) cells[count++] = order[i];
  }
  std::sort(cells, cells + count);
  return count;
}

inline Status qsa_select(CpuStream& stream, const QsaSelectArgs& a) {
  if (a.ratio > 0) {
    const auto blocks = static_cast<size_t>((a.start + a.rows) / a.ratio);
    stream.reserve_scratch(sizeof(int32_t) * (blocks + 1));
  }
  stream.pool().parallel_for(a.rows, [&](int64_t r, int worker) {
    const int64_t seen = a.start + r + 1;
    if (a.ratio == 0 || seen <= a.budget + a.ratio - 1) {
      a.counts[r] = static_cast<int32_t>(seen);
      return;
    }
    const int64_t blocks = seen / a.ratio;
    float* scores = a.scratch + r * a.scratch_stride;
    score_blocks(a, a.index_q + r * a.index_heads * a.index_dim, blocks, scores);
    int32_t* cells = a.cells + r * a.max_cells;
    if (a.form == QsaForm::kLc050) {
      a.counts[r] = select_cells(a, seen, scores, cells);
    } else {
      auto* order = static_cast<int32_t*>(
          stream.scratch(worker, sizeof(int32_t) * static_cast<size_t>(blocks)));
      a.counts[r] = select_blocks(a, seen, scores, order, cells);
    }
  });
  return {};
}
