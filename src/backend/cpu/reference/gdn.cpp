#include "backend/cpu/reference/launchers.h"
#include "backend/cpu/reference/math.h"
#include "backend/op_args.h"

namespace strata::backend::reference {

namespace {

// The convolved channels [first, first + head_dim) of token t.
void convolve(const GdnArgs& a, int64_t channels, int64_t t, int64_t first, double* out) {
  const int taps = a.conv_width;
  for (int64_t c = first; c < first + a.head_dim; ++c) {
    double sum = 0;
    for (int tap = 0; tap < taps; ++tap) {
      const int64_t from = t - (taps - 1 - tap);
      const float p =
          from >= 0 ? a.qkv[from * channels + c] : a.conv_state[(from + taps - 1) * channels + c];
      sum += static_cast<double>(a.conv[c * taps + tap]) * p;
    }
    out[c - first] = silu(sum);
  }
}

void normalise(double* x, int n, double eps, double factor) {
  const double scale = factor / std::sqrt(dot(x, x, n) + eps);
  for (int i = 0; i < n; ++i) x[i] *= scale;
}

void run_head(const GdnArgs& a, int64_t channels, int64_t head, double* scratch) {
  const int dim = a.head_dim;
  const int64_t key_head = head % a.key_heads;
  double* q = scratch;
  double* k = q + dim;
  double* v = k + dim;
  double* predicted = v + dim;
  double* out = predicted + dim;
  float* state = a.state + head * dim * dim;

  for (int64_t t = 0; t < a.rows; ++t) {
    convolve(a, channels, t, key_head * dim, q);
    convolve(a, channels, t, (a.key_heads + key_head) * dim, k);
    convolve(a, channels, t, (2 * a.key_heads + head) * dim, v);
    normalise(q, dim, a.eps, 1.0 / std::sqrt(static_cast<double>(dim)));
    normalise(k, dim, a.eps, 1.0);
    const int64_t scalar = t * a.value_heads + head;
    const double beta = sigmoid(a.beta[scalar]);
    const double step = softplus(static_cast<double>(a.alpha[scalar]) + a.dt_bias[head]);
    const double decay = std::exp(a.a_log[head] * step);

    std::fill(predicted, predicted + dim, 0.0);
    std::fill(out, out + dim, 0.0);
    for (int i = 0; i < dim; ++i) {
      const float* row = state + i * dim;
      for (int j = 0; j < dim; ++j) predicted[j] += k[i] * (decay * row[j]);
    }
    for (int j = 0; j < dim; ++j) v[j] = beta * (v[j] - predicted[j]);
    for (int i = 0; i < dim; ++i) {
      float* row = state + i * dim;
      for (int j = 0; j < dim; ++j) {
        const double updated = decay * row[j] + k[i] * v[j];
        row[j] = static_cast<float>(updated);
        out[j] += updated * q[i];
      }
    }
    const double factor = rms_factor(out, dim, a.eps);
    const int64_t offset = (t * a.value_heads + head) * dim;
    for (int j = 0; j < dim; ++j) {
      a.out[offset + j] =
          static_cast<float>(out[j] * factor * a.norm[j] * sigmoid(a.z[offset + j]));
    }
  }
}

}  // namespace

Status gdn(Stream& stream, const void* args) {
  const auto& a = *static_cast<const GdnArgs*>(args);
  CpuStream& s = cpu(stream);
  const int64_t channels = static_cast<int64_t>(2 * a.key_heads + a.value_heads) * a.head_dim;
  s.pool().parallel_for(a.value_heads, [&](int64_t head, int worker) {
    run_head(a, channels, head,
             static_cast<double*>(s.scratch(worker, 5 * sizeof(double) * a.head_dim)));
  });
  shift_history(a.conv_state, a.conv_width - 1, a.qkv, a.rows, channels);
  return {};
}

}  // namespace strata::backend::reference
