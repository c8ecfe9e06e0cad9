// Steps 1 to 6 for one row and stream: u = gate * value, n = rms(u) * norm_conv.
inline void ple_gate(const PleInjectArgs& a, int64_t row, int s, float* buffer, float* u, float* n) {
  const int width = a.width;
  const float* key = a.key + (row * a.streams + s) * width;
  const float* residual = a.residual + (row * a.streams + s) * width;
  const float key_factor = rms_factor(key, width, a.eps);
  const float query_factor = rms_factor(residual, width, a.eps);
  float* k = buffer;
  float* q = buffer + width;
  for (int i = 0; i < width; ++i) k[i] = key[i] * key_factor * a.norm_key[s * width + i];
  for (int i = 0; i < width; ++i) q[i] = residual[i] * query_factor * a.norm_query[s * width + i];
  const float match = dot_f32(k, q, width) / numeric::sqrt(static_cast<float>(width));
  const float root = numeric::sqrt(numeric::max(std::fabs(match), 1e-6f));
  const float gate = numeric::sigmoid(match > 0.0f ? root : match < 0.0f ? -root : match);
  const float* value = a.value + row * width;
  for (int i = 0; i < width; ++i) u[i] = gate * value[i];
  const float factor = rms_factor(u, width, a.eps);
  for (int i = 0; i < width; ++i) n[i] = u[i] * factor * a.norm_conv[s * width + i];
}

inline Status ple_inject(CpuStream& stream, const PleInjectArgs& a) {
  const int64_t wide = static_cast<int64_t>(a.streams) * a.width;
  const int tail = (a.conv_width - 1) * a.dilation;
  float* u = a.scratch;               // [rows, wide]
  float* n = a.scratch + a.rows * wide;  // [rows, wide]
  stream.reserve_scratch(sizeof(float) * 2 * static_cast<size_t>(a.width));
  stream.pool().parallel_for(static_cast<int64_t>(a.rows) * a.streams, [&](int64_t i, int worker) {
    auto* buffer = static_cast<float*>(
        stream.scratch(worker, sizeof(float) * 2 * static_cast<size_t>(a.width)));
    ple_gate(a, i / a.streams, static_cast<int>(i % a.streams), buffer, u + i * a.width,
             n + i * a.width);
  });
  constexpr int64_t kChannelsPerTask = 256;
  stream.pool().parallel_for((wide + kChannelsPerTask - 1) / kChannelsPerTask, [&](int64_t task, int) {
    const int64_t begin = task * kChannelsPerTask;
    const int64_t end = std::min(wide, begin + kChannelsPerTask);
    for (int r = 0; r < a.rows; ++r) {
      for (int64_t c = begin; c < end; ++c) {
        float sum = 0.0f;
        for (int k = 0; k < a.conv_width; ++k) {
          const int64_t back = r - (a.conv_width - 1 - k) * a.dilation;
          const float in = back >= 0 ? n[back * wide + c] : a.conv_state[(back + tail) * wide + c];
          sum = numeric::fma(a.conv[c * a.conv_width + k], in, sum);
        }
        float* residual = a.residual + r * wide + c;
        *residual = *residual + u[r * wide + c] + numeric::silu(sum);
      }
    }
    for (int t = 0; t < tail; ++t) {
      const int64_t from = a.rows - tail + t;
      for (int64_t c = begin; c < end; ++c) {
        a.conv_state[t * wide + c] = from >= 0 ? n[from * wide + c] : a.conv_state[(from + tail) * wide + c];
      }
    }
  });
  return {};
}
