#include "backend/cpu/reference/launchers.h"
#include "backend/cpu/reference/math.h"
#include "backend/op_args.h"

namespace strata::backend::reference {

namespace {

constexpr double kSmallestMatch = 1e-6;

// The gate of one stream: how well the n-gram's key matches the normalised residual.
double stream_gate(const PleInjectArgs& a, const float* key, const float* residual,
                   int64_t stream) {
  const int64_t width = a.width;
  const float* norm_key = a.norm_key + stream * width;
  const float* norm_query = a.norm_query + stream * width;
  double match = 0;
  for (int64_t i = 0; i < width; ++i) {
    match += static_cast<double>(key[i]) * norm_key[i] *
             (static_cast<double>(residual[i]) * norm_query[i]);
  }
  match *= rms_factor(key, width, a.eps) * rms_factor(residual, width, a.eps);
  match /= std::sqrt(static_cast<double>(width));
  const double sign = match > 0 ? 1.0 : match < 0 ? -1.0 : 0.0;
  return sigmoid(sign * std::sqrt(std::max(std::abs(match), kSmallestMatch)));
}

}  // namespace

Status ple_inject(Stream& stream, const void* args) {
  const auto& a = *static_cast<const PleInjectArgs*>(args);
  CpuStream& s = cpu(stream);
  const int64_t width = a.width, wide = a.streams * width;
  const int64_t taps = a.conv_width, history = (taps - 1) * a.dilation;
  float* normed = a.scratch;  // [rows, wide], what the convolution sees
  auto* gates = static_cast<double*>(
      s.shared_scratch(static_cast<size_t>(a.rows) * a.streams * sizeof(double)));

  s.pool().parallel_for(static_cast<int64_t>(a.rows) * a.streams, [&](int64_t i, int) {
    const int64_t r = i / a.streams, stream_index = i % a.streams;
    const double gate = stream_gate(a, a.key + i * width, a.residual + i * width, stream_index);
    gates[i] = gate;
    const float* value = a.value + r * width;
    const float* norm = a.norm_conv + stream_index * width;
    const double mean_square = gate * gate * dot(value, value, width) / width;
    const double factor = gate / std::sqrt(mean_square + a.eps);
    for (int64_t c = 0; c < width; ++c) {
      normed[i * width + c] = static_cast<float>(value[c] * factor * norm[c]);
    }
  });
  s.pool().parallel_for(static_cast<int64_t>(a.rows) * a.streams, [&](int64_t i, int) {
    const int64_t r = i / a.streams, stream_index = i % a.streams;
    const float* value = a.value + r * width;
    float* residual = a.residual + i * width;
    for (int64_t c = 0; c < width; ++c) {
      const int64_t channel = stream_index * width + c;
      double sum = 0;
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t from = r - (taps - 1 - tap) * a.dilation;
        const float n = from >= 0 ? normed[from * wide + channel]
                                  : a.conv_state[(history + from) * wide + channel];
        sum += static_cast<double>(a.conv[channel * taps + tap]) * n;
      }
      residual[c] = static_cast<float>(residual[c] + gates[i] * value[c] + silu(sum));
    }
  });
  shift_history(a.conv_state, history, normed, a.rows, wide);
  return {};
}

}  // namespace strata::backend::reference
