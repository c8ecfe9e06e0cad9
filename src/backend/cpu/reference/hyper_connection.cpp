#include "backend/cpu/reference/dense.h"
#include "backend/cpu/reference/launchers.h"

namespace strata::backend::reference {

Status hc_broadcast(Stream& stream, const void* args) {
  const auto& a = *static_cast<const HcBroadcastArgs*>(args);
  const int64_t width = a.width;
  cpu(stream).pool().parallel_for(a.rows, [&](int64_t r, int) {
    for (int s = 0; s < a.streams; ++s) {
      std::copy(a.e + r * width, a.e + (r + 1) * width, a.residual + (r * a.streams + s) * width);
    }
  });
  return {};
}

namespace {

void read_chunk(CpuStream& stream, const HcReadArgs& a, int64_t first, int64_t rows) {
  const int64_t width = a.width, wide = a.streams * width;
  const double streams = a.streams;
  auto* normed = static_cast<double*>(
      stream.shared_scratch(static_cast<size_t>(rows * (wide + a.rank)) * sizeof(double)));
  double* low = normed + rows * wide;

  stream.pool().parallel_for(rows * a.streams, [&](int64_t i, int) {
    const int64_t s = i % a.streams;
    const float* residual = a.residual + first * wide + i * width;
    const float* norm = a.norm + s * width;
    double* out = normed + i * width;
    const double factor = rms_factor(residual, width, a.eps);
    for (int64_t c = 0; c < width; ++c) out[c] = residual[c] * factor * norm[c];
  });
  const auto normed_row = [&](int64_t r) { return normed + r * wide; };
  product(stream, a.down, rows, normed_row,
          [&](int64_t r, int64_t n, double value) { low[r * a.rank + n] = silu(value / streams); });
  if (a.inject.present()) {
    product(stream, a.inject, rows, normed_row, [&](int64_t r, int64_t n, double value) {
      a.inject_weight[(first + r) * a.streams + n] =
          static_cast<float>(2.0 * sigmoid(value / streams));
    });
  }
  product(
      stream, a.up, rows, [&](int64_t r) { return low + r * a.rank; },
      [&](int64_t r, int64_t n, double value) { normed[r * wide + n] *= sigmoid(value); });
  stream.pool().parallel_for(rows, [&](int64_t r, int) {
    const double* gated = normed + r * wide;
    float* x = a.x + (first + r) * width;
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t s = 0; s < a.streams; ++s) sum += gated[s * width + c];
      x[c] = static_cast<float>(sum / streams);
    }
  });
}

}  // namespace

Status hc_read(Stream& stream, const void* args) {
  const auto& a = *static_cast<const HcReadArgs*>(args);
  for (int64_t first = 0; first < a.rows; first += kRowChunk) {
    read_chunk(cpu(stream), a, first, std::min<int64_t>(kRowChunk, a.rows - first));
  }
  return {};
}

Status hc_write(Stream& stream, const void* args) {
  const auto& a = *static_cast<const HcWriteArgs*>(args);
  const int64_t width = a.width;
  cpu(stream).pool().parallel_for(a.rows, [&](int64_t r, int) {
    const float* y = a.y + r * width;
    for (int64_t s = 0; s < a.streams; ++s) {
      const double weight = a.inject_weight[r * a.streams + s];
      float* residual = a.residual + (r * a.streams + s) * width;
      for (int64_t c = 0; c < width; ++c) {
        residual[c] = static_cast<float>(residual[c] + weight * y[c]);
      }
    }
  });
  return {};
}

}  // namespace strata::backend::reference
