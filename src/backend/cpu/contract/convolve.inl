// Causal convolutions, channel by channel.

constexpr int kChannelsPerTask = 256;

// Taps of kChannelsPerTask channels, tap after tap.
struct ChannelTaps {
  static size_t bytes(int taps) {
    return sizeof(float) * static_cast<size_t>(taps) * kChannelsPerTask;
  }
  ChannelTaps(const float* conv, int taps, int64_t begin, int64_t end, void* memory)
      : w(static_cast<float*>(memory)) {
    for (int64_t c = begin; c < end; ++c) {
      for (int k = 0; k < taps; ++k) w[k * kChannelsPerTask + (c - begin)] = conv[c * taps + k];
    }
  }
  const float* tap(int k) const { return w + k * kChannelsPerTask; }
  float* w;
};

// sum[c] = the taps' products with rows in(0), in(1), ..., each `count` channels.
template <class In>
inline void convolve_channels(const ChannelTaps& taps, int count_taps, int64_t count, const In& in,
                              float* sum) {
  const float* first = in(0);
  const float* w = taps.tap(0);
  for (int64_t c = 0; c < count; ++c) sum[c] = numeric::fma(w[c], first[c], 0.0f);
  for (int k = 1; k < count_taps; ++k) {
    const float* row = in(k);
    w = taps.tap(k);
    for (int64_t c = 0; c < count; ++c) sum[c] = numeric::fma(w[c], row[c], sum[c]);
  }
}
