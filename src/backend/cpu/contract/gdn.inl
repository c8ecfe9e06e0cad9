// The convolution of one channel range, over all rows; the new tail replaces the old one.
inline void gdn_convolve(const GdnArgs& a, int64_t channels, int64_t begin, int64_t end) {
  const int taps = a.conv_width;
  const int tail = taps - 1;
  for (int r = 0; r < a.rows; ++r) {
    float* out = a.scratch + r * channels;
    for (int64_t c = begin; c < end; ++c) {
      float sum = 0.0f;
      for (int k = 0; k < taps; ++k) {
        const int back = r - tail + k;  // row of this call the tap reads; negative: the tail
        const float in =
            back >= 0 ? a.qkv[back * channels + c] : a.conv_state[(back + tail) * channels + c];
        sum = numeric::fma(a.conv[c * taps + k], in, sum);
      }
      out[c] = numeric::silu(sum);
    }
  }
  for (int t = 0; t < tail; ++t) {
    const int from = a.rows - tail + t;
    for (int64_t c = begin; c < end; ++c) {
      a.conv_state[t * channels + c] =
          from >= 0 ? a.qkv[from * channels + c] : a.conv_state[(from + tail) * channels + c];
    }
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

// The recurrence of one value head over all rows. `d` and `o` hold head_dim floats each.
inline void gdn_recur(const GdnArgs& a, int64_t channels, int head, float* d, float* o) {
  const int dim = a.head_dim;
  const int key_head = head % a.key_heads;
  float* state = a.state + static_cast<int64_t>(head) * dim * dim;
  for (int r = 0; r < a.rows; ++r) {
    const float* q = a.scratch + r * channels + static_cast<int64_t>(key_head) * dim;
    const float* k = q + static_cast<int64_t>(a.key_heads) * dim;
    const float* v =
        a.scratch + r * channels + (2 * static_cast<int64_t>(a.key_heads) + head) * dim;
    const int64_t at = static_cast<int64_t>(r) * a.value_heads + head;
    const float beta = numeric::sigmoid(a.beta[at]);
    const float decay =
        numeric::exp(a.a_log[head] * numeric::softplus(a.alpha[at] + a.dt_bias[head]));
    for (int j = 0; j < dim; ++j) d[j] = 0.0f;
    for (int i = 0; i < dim; ++i) {
      float* row = state + static_cast<int64_t>(i) * dim;
      for (int j = 0; j < dim; ++j) {
        row[j] *= decay;
        d[j] = numeric::fma(row[j], k[i], d[j]);
      }
    }
    for (int j = 0; j < dim; ++j) {
      d[j] = beta * (v[j] - d[j]);
      o[j] = 0.0f;
    }
    for (int i = 0; i < dim; ++i) {
      float* row = state + static_cast<int64_t>(i) * dim;
      for (int j = 0; j < dim; ++j) {
        row[j] = numeric::fma(k[i], d[j], row[j]);
        o[j] = numeric::fma(row[j], q[i], o[j]);
      }
    }
    const float factor = rms_factor(o, dim, a.eps);
    const float* z = a.z + at * dim;
    float* out = a.out + at * dim;
    for (int j = 0; j < dim; ++j) out[j] = o[j] * factor * a.norm[j] * numeric::sigmoid(z[j]);
  }
}

inline Status gdn(CpuStream& stream, const GdnArgs& a) {
  const int64_t channels =
      (2 * static_cast<int64_t>(a.key_heads) + a.value_heads) * a.head_dim;
  constexpr int64_t kChannelsPerTask = 256;
  stream.pool().parallel_for((channels + kChannelsPerTask - 1) / kChannelsPerTask,
                             [&](int64_t task, int) {
                               gdn_convolve(a, channels, task * kChannelsPerTask,
                                            std::min(channels, (task + 1) * kChannelsPerTask));
                             });
  stream.pool().parallel_for(static_cast<int64_t>(a.rows) * a.key_heads, [&](int64_t i, int) {
    gdn_normalise(a, channels, static_cast<int>(i / a.key_heads), static_cast<int>(i % a.key_heads));
  });
  stream.reserve_scratch(sizeof(float) * 2 * static_cast<size_t>(a.head_dim));
  stream.pool().parallel_for(a.value_heads, [&](int64_t head, int worker) {
    auto* d = static_cast<float*>(stream.scratch(worker, sizeof(float) * 2 * a.head_dim));
    gdn_recur(a, channels, static_cast<int>(head), d, d + a.head_dim);
  });
  return {};
}
