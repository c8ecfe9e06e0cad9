inline Status hc_read(CpuStream& stream, const HcReadArgs& a) {
  const int64_t wide = static_cast<int64_t>(a.streams) * a.width;
  float* normed = a.scratch;                 // [rows, wide]
  float* gates = normed + a.rows * wide;     // [rows, wide]
  float* low = gates + a.rows * wide;        // [rows, rank]
  const auto streams = static_cast<float>(a.streams);

  stream.pool().parallel_for(static_cast<int64_t>(a.rows) * a.streams, [&](int64_t i, int) {
    const float* in = a.residual + i * a.width;
    const float* g = a.norm + i % a.streams * a.width;
    float* out = normed + i * a.width;
    const float factor = rms_factor(in, a.width, a.eps);
    for (int j = 0; j < a.width; ++j) out[j] = in[j] * factor * g[j];
  });

  product(stream, a.down, activations_for(stream, a.down, normed, a.rows), a.rows, low);
  for (int64_t i = 0; i < static_cast<int64_t>(a.rows) * a.rank; ++i) {
    low[i] = numeric::silu(low[i] / streams);
  }
  product(stream, a.up, activations_for(stream, a.up, low, a.rows), a.rows, gates);
  stream.pool().parallel_for(a.rows, [&](int64_t r, int) {
    float* x = a.x + r * a.width;
    for (int j = 0; j < a.width; ++j) x[j] = 0.0f;
    for (int s = 0; s < a.streams; ++s) {
      const float* gate = gates + r * wide + s * a.width;
      const float* n = normed + r * wide + s * a.width;
      for (int j = 0; j < a.width; ++j) x[j] = numeric::fma(numeric::sigmoid(gate[j]), n[j], x[j]);
    }
    for (int j = 0; j < a.width; ++j) x[j] /= streams;
  });

  if (a.inject.present()) {
    product(stream, a.inject, activations_for(stream, a.inject, normed, a.rows), a.rows,
            a.inject_weight);
    for (int64_t i = 0; i < static_cast<int64_t>(a.rows) * a.streams; ++i) {
      a.inject_weight[i] = 2.0f * numeric::sigmoid(a.inject_weight[i] / streams);
    }
  }
  return {};
}
