// Matrix products: weights stay in their blocks; a row is unpacked once and met with every
// activation row.

// Activations in the form the weight type calls for.
struct Activations {
  const float* f32 = nullptr;             // [rows, k]
  const ActivationGroup* int8 = nullptr;  // [rows, k / 32]
  int64_t k = 0;

  const float* row(int64_t r) const { return f32 + r * k; }
  const ActivationGroup* groups(int64_t r) const { return int8 + r * (k / quant::kGroupElems); }
};

inline size_t quantised_bytes(int64_t rows, int64_t k) {
  return static_cast<size_t>(rows * (k / quant::kGroupElems)) * sizeof(ActivationGroup);
}

// Unpacks weight rows of one matrix and multiplies them with activation rows.
class RowProduct {
 public:
  explicit RowProduct(const WeightRef& w)
      : w_(w), info_(quant_info(w.type)), row_bytes_(row_bytes(w.type, w.k)) {}

  bool int8() const { return info_.quantised; }

  // Scratch a worker needs for load().
  size_t scratch_bytes() const {
    return int8() ? static_cast<size_t>(w_.k / quant::kGroupElems) * sizeof(IntGroup)
                  : static_cast<size_t>(w_.k) * sizeof(float);
  }

  // Row `n` of expert `expert`, kept in `scratch` until the next load.
  void load(int64_t expert, int64_t n, void* scratch) {
    const auto* block = static_cast<const uint8_t*>(w_.data) +
                        static_cast<size_t>(expert * w_.n + n) * row_bytes_;
    factor_ = w_.scale == nullptr ? 1.0f : w_.scale[w_.scale_count > 1 ? expert : 0];
    if (int8()) {
      groups_ = static_cast<IntGroup*>(scratch);
      visit_quant(w_.type, [&](auto type) {
        using Type = decltype(type);
        if constexpr (Type::kQuantised) unpack<Type>(block);
      });
    } else if (w_.type == QuantType::kF32 && reinterpret_cast<uintptr_t>(block) % 4 == 0) {
      floats_ = reinterpret_cast<const float*>(block);
    } else {
      auto* out = static_cast<float*>(scratch);
      if (w_.type == QuantType::kBF16) {
        for (int64_t i = 0; i < w_.k; ++i) {
          uint16_t bits;
          std::memcpy(&bits, block + 2 * i, 2);
          out[i] = quant::bf16_to_float(bits);
        }
      } else {
        decode_row(w_.type, block, out, w_.k);
      }
      floats_ = out;
    }
  }

  // The loaded row times activation row r.
  float multiply(const Activations& x, int64_t r) const {
    return factor_ * (int8() ? multiply_int8(x.groups(r)) : dot_f32(floats_, x.row(r), w_.k));
  }

 private:
  template <class Type>
  void unpack(const uint8_t* block) {
    constexpr int kGroups = Type::kElems / quant::kGroupElems;
    IntGroup* out = groups_;
    for (int64_t k = 0; k < w_.k; k += Type::kElems, block += Type::kBytes) {
      for (int g = 0; g < kGroups; ++g) Type::unpack(block, g, *out++);
    }
  }

  float multiply_int8(const ActivationGroup* x) const {
    const int64_t groups = w_.k / quant::kGroupElems;
    if (w_.type == QuantType::kNVFP4) return dot_int8<TermForm::kWide>(groups_, x, groups);
    return info_.has_min ? dot_int8<TermForm::kMin>(groups_, x, groups)
                         : dot_int8<TermForm::kPlain>(groups_, x, groups);
  }

  const WeightRef& w_;
  const QuantInfo& info_;
  size_t row_bytes_;
  float factor_ = 1.0f;
  IntGroup* groups_ = nullptr;
  const float* floats_ = nullptr;
};

// Weight rows per task: enough to amortise claiming one, few enough to balance two cores.
constexpr int64_t kRowsPerTask = 16;

// y[r, n] = w[n] . x[r] for rows [0, rows) of the activations; y has `stride` floats per row.
inline void product(CpuStream& stream, const WeightRef& w, const Activations& x, int64_t rows,
                    float* y, int64_t stride) {
  const int64_t tasks = (w.n + kRowsPerTask - 1) / kRowsPerTask;
  stream.pool().parallel_for(tasks, [&](int64_t task, int worker) {
    RowProduct row(w);
    void* scratch = stream.scratch(worker, row.scratch_bytes());
    const int64_t end = std::min(w.n, (task + 1) * kRowsPerTask);
    for (int64_t n = task * kRowsPerTask; n < end; ++n) {
      row.load(0, n, scratch);
      for (int64_t r = 0; r < rows; ++r) y[r * stride + n] = row.multiply(x, r);
    }
  });
}

inline void quantise_rows(CpuStream& stream, const float* x, int64_t rows, int64_t k,
                          ActivationGroup* out) {
  stream.pool().parallel_for(rows, [&](int64_t r, int) {
    quantise_row(x + r * k, k, out + r * (k / quant::kGroupElems));
  });
}

// Activations for `w`, quantised into the stream's shared scratch when its type asks for it.
inline Activations activations_for(CpuStream& stream, const WeightRef& w, const float* x,
                                   int64_t rows) {
  Activations out{x, nullptr, w.k};
  if (quant_info(w.type).quantised) {
    auto* groups = static_cast<ActivationGroup*>(stream.shared_scratch(quantised_bytes(rows, w.k)));
    quantise_rows(stream, x, rows, w.k, groups);
    out.int8 = groups;
  }
  return out;
}

inline Status matmul(CpuStream& stream, const MatmulArgs& a) {
  const Activations x = activations_for(stream, a.w, a.x, a.rows);
  product(stream, a.w, x, a.rows, a.y, a.w.n);
  return {};
}
