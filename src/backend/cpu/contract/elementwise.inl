// Ops without a matrix.

inline Status embed(CpuStream& stream, const EmbedArgs& a) {
  const size_t bytes = row_bytes(a.table.type, a.table.k);
  stream.pool().parallel_for(a.rows, [&](int64_t r, int) {
    decode_row(a.table.type, static_cast<const std::byte*>(a.table.data) + bytes * a.ids[r],
               a.out + r * a.table.k, a.table.k);
    if (a.table.scale != nullptr) {
      for (int64_t i = 0; i < a.table.k; ++i) a.out[r * a.table.k + i] *= a.table.scale[0];
    }
  });
  return {};
}

inline Status hc_broadcast(CpuStream& stream, const HcBroadcastArgs& a) {
  stream.pool().parallel_for(a.rows, [&](int64_t r, int) {
    for (int s = 0; s < a.streams; ++s) {
      std::memcpy(a.residual + (r * a.streams + s) * a.width, a.e + r * a.width,
                  sizeof(float) * static_cast<size_t>(a.width));
    }
  });
  return {};
}

inline Status hc_write(CpuStream& stream, const HcWriteArgs& a) {
  stream.pool().parallel_for(a.rows, [&](int64_t r, int) {
    const float* y = a.y + r * a.width;
    for (int s = 0; s < a.streams; ++s) {
      const float w = a.inject_weight[r * a.streams + s];
      float* residual = a.residual + (r * a.streams + s) * a.width;
      for (int i = 0; i < a.width; ++i) residual[i] = numeric::fma(w, y[i], residual[i]);
    }
  });
  return {};
}

inline void swiglu_row(const float* gate, const float* up, float* out, int64_t width) {
  for (int64_t i = 0; i < width; ++i) out[i] = numeric::silu(gate[i]) * up[i];
}

inline Status swiglu(CpuStream& stream, const SwiGluArgs& a) {
  stream.pool().parallel_for(a.rows, [&](int64_t r, int) {
    swiglu_row(a.gate + r * a.width, a.up + r * a.width, a.out + r * a.width, a.width);
  });
  return {};
}
