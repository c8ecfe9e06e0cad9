// The convolution of one channel range, over all rows; the new tail replaces the old one.
inline void gdn_convolve(const GdnArgs& a, int64_t channels, int64_t begin, int64_t end,
                         void* memory) {
  const ChannelTaps taps(a.conv, a.conv_width, begin, end, memory);
  const int tail = a.conv_width - 1;
  // Row `back` of this call; negative: the tail.
  const auto input = [&](int back) {
    return (back >= 0 ? a.qkv + back * channels : a.conv_state + (back + tail) * channels) + begin;
  };
  for (int r = 0; r < a.rows; ++r) {
    float* out = a.scratch + r * channels + begin;
    convolve_channels(taps, a.conv_width, end - begin, [&](int k) { return input(r - tail + k); },
                      out);
    for (int64_t c = 0; c < end - begin; ++c) out[c] = numeric::silu(out[c]);
  }
  for (int t = 0; t < tail; ++t) {
    std::memmove(a.conv_state + t * channels + begin, input(a.rows - tail + t),
                 sizeof(float) * static_cast<size_t>(end - begin));
  }
}

// Scales q and k of one key head to unit length, q by 1/sqrt(head_dim) besides.
inline void gdn_normalise(const GdnArgs& a, int64_t channels, int r, int head) {
  const int dim = a.head_dim;
  float* q = a.scratch + r * channels + static_cast<int64_t>(head) * dim;
  float* k = q + static_cast<int64_t>(a.key_heads) * dim;
  const float q_factor =
      1.0f / (numeric::sqrt(sum_squares(q, dim) + a.eps) * numeric::sqrt(static_cast<float>(dim)));
  const float k_factor = 1.0f / numeric::sqrt(sum_squares(k, dim) + a.eps);
  for (int i = 0; i < dim; ++i) q[i] *= q_factor;
  for (int i = 0; i < dim; ++i) k[i] *= k_factor;
}

// Columns of a head's state that one task takes through all rows: few enough for the first cache.
constexpr int kStateColumns = 32;

// The recurrence of `kParts` vectors of columns, from `begin` on, of one value head over all rows.
// Leaves the outputs before their norm in a.out.
template <int kParts>
void gdn_recur(const GdnArgs& a, int64_t channels, int head, int begin) {
  const int dim = a.head_dim;
  const int key_head = head % a.key_heads;
  float* state = a.state + static_cast<int64_t>(head) * dim * dim + begin;
  for (int r = 0; r < a.rows; ++r) {
    const float* q = a.scratch + r * channels + static_cast<int64_t>(key_head) * dim;
    const float* k = q + static_cast<int64_t>(a.key_heads) * dim;
    const float* v =
        a.scratch + r * channels + (2 * static_cast<int64_t>(a.key_heads) + head) * dim + begin;
    const int64_t at = static_cast<int64_t>(r) * a.value_heads + head;
    const FVec beta = f_set(numeric::sigmoid(a.beta[at]));
    const FVec decay = f_set(
        numeric::exp(a.a_log[head] * numeric::softplus(a.alpha[at] + a.dt_bias[head])));
    FVec d[kParts], o[kParts];
    for (int p = 0; p < kParts; ++p) d[p] = o[p] = f_zero();
    for (int i = 0; i < dim; ++i) {
      float* row = state + static_cast<int64_t>(i) * dim;
      const FVec key = f_set(k[i]);
      for (int p = 0; p < kParts; ++p) {
        const FVec decayed = f_mul(f_load(row + p * kVec), decay);
        f_store(row + p * kVec, decayed);
        d[p] = f_fma(decayed, key, d[p]);
      }
    }
    for (int p = 0; p < kParts; ++p) d[p] = f_mul(beta, f_sub(f_load(v + p * kVec), d[p]));
    for (int i = 0; i < dim; ++i) {
      float* row = state + static_cast<int64_t>(i) * dim;
      const FVec key = f_set(k[i]), query = f_set(q[i]);
      for (int p = 0; p < kParts; ++p) {
        const FVec updated = f_fma(key, d[p], f_load(row + p * kVec));
        f_store(row + p * kVec, updated);
        o[p] = f_fma(updated, query, o[p]);
      }
    }
    for (int p = 0; p < kParts; ++p) f_store(a.out + at * dim + begin + p * kVec, o[p]);
  }
}

// The same for one column.
inline void gdn_recur_column(const GdnArgs& a, int64_t channels, int head, int column) {
  const int dim = a.head_dim;
  const int key_head = head % a.key_heads;
  float* state = a.state + static_cast<int64_t>(head) * dim * dim + column;
  for (int r = 0; r < a.rows; ++r) {
    const float* q = a.scratch + r * channels + static_cast<int64_t>(key_head) * dim;
    const float* k = q + static_cast<int64_t>(a.key_heads) * dim;
    const float v =
        a.scratch[r * channels + (2 * static_cast<int64_t>(a.key_heads) + head) * dim + column];
    const int64_t at = static_cast<int64_t>(r) * a.value_heads + head;
    const float beta = numeric::sigmoid(a.beta[at]);
    const float decay =
        numeric::exp(a.a_log[head] * numeric::softplus(a.alpha[at] + a.dt_bias[head]));
    float d = 0.0f, o = 0.0f;
    for (int i = 0; i < dim; ++i) {
      state[i * dim] *= decay;
      d = numeric::fma(state[i * dim], k[i], d);
    }
    d = beta * (v - d);
    for (int i = 0; i < dim; ++i) {
      state[i * dim] = numeric::fma(k[i], d, state[i * dim]);
      o = numeric::fma(state[i * dim], q[i], o);
    }
    a.out[at * dim + column] = o;
  }
}

inline Status gdn(CpuStream& stream, const GdnArgs& a) {
  const int dim = a.head_dim;
  const int64_t channels = (2 * static_cast<int64_t>(a.key_heads) + a.value_heads) * dim;
  const size_t taps_bytes = ChannelTaps::bytes(a.conv_width);
  stream.reserve_scratch(taps_bytes);
  stream.pool().parallel_for(
      (channels + kChannelsPerTask - 1) / kChannelsPerTask, [&](int64_t task, int worker) {
        gdn_convolve(a, channels, task * kChannelsPerTask,
                     std::min<int64_t>(channels, (task + 1) * kChannelsPerTask),
                     stream.scratch(worker, taps_bytes));
      });
  stream.pool().parallel_for(static_cast<int64_t>(a.rows) * a.key_heads, [&](int64_t i, int) {
    gdn_normalise(a, channels, static_cast<int>(i / a.key_heads), static_cast<int>(i % a.key_heads));
  });
  const int blocks = (dim + kStateColumns - 1) / kStateColumns;
  stream.pool().parallel_for(
      static_cast<int64_t>(a.value_heads) * blocks, [&](int64_t task, int) {
        const auto head = static_cast<int>(task / blocks);
        int column = static_cast<int>(task % blocks) * kStateColumns;
        const int end = std::min(dim, column + kStateColumns);
        constexpr int kParts = kStateColumns / kVec;
        for (; column + kStateColumns <= end; column += kStateColumns) {
          gdn_recur<kParts>(a, channels, head, column);
        }
        for (; column + kVec <= end; column += kVec) gdn_recur<1>(a, channels, head, column);
        for (; column < end; ++column) gdn_recur_column(a, channels, head, column);
      });
  stream.pool().parallel_for(static_cast<int64_t>(a.rows) * a.value_heads, [&](int64_t at, int) {
    float* out = a.out + at * dim;
    const float* z = a.z + at * dim;
    const float factor = rms_factor(out, dim, a.eps);
    for (int j = 0; j < dim; ++j) out[j] = out[j] * factor * a.norm[j] * numeric::sigmoid(z[j]);
  });
  return {};
}
