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
  const size_t scratch = ChannelTaps::bytes(a.conv_width) + sizeof(float) * kChannelsPerTask;
  stream.reserve_scratch(scratch);
  stream.pool().parallel_for((wide + kChannelsPerTask - 1) / kChannelsPerTask, [&](int64_t task, int worker) {
    const int64_t begin = task * kChannelsPerTask;
    const int64_t count = std::min<int64_t>(wide - begin, kChannelsPerTask);
    auto* sum = static_cast<float*>(stream.scratch(worker, scratch));
    const ChannelTaps taps(a.conv, a.conv_width, begin, begin + count, sum + kChannelsPerTask);
    // Row `back` of this call; negative: the tail.
    const auto input = [&](int64_t back) {
      return (back >= 0 ? n + back * wide : a.conv_state + (back + tail) * wide) + begin;
    };
    for (int r = 0; r < a.rows; ++r) {
      convolve_channels(taps, a.conv_width, count,
                        [&](int k) { return input(r - (a.conv_width - 1 - k) * a.dilation); }, sum);
      float* residual = a.residual + r * wide + begin;
      const float* add = u + r * wide + begin;
      for (int64_t c = 0; c < count; ++c) residual[c] = residual[c] + add[c] + numeric::silu(sum[c]);
    }
    for (int t = 0; t < tail; ++t) {
      std::memmove(a.conv_state + t * wide + begin, input(a.rows - tail + t),
                   sizeof(float) * static_cast<size_t>(count));
    }
  });
  return {};
}
