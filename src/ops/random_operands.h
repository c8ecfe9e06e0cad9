// Random operands of realistic size: float arrays and weight matrices of every type, made of valid
// blocks with the scale one expects of a trained matrix.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/op_args.h"
#include "format/quant/half.h"
#include "format/quant/quant.h"

namespace strata::ops {

// A splitmix64 generator: operands are made before every start, so they must be cheap, and the same
// with every standard library.
class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed) {}

  uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
  }
  // Both ends included.
  int integer(int low, int high) {
    const auto span = static_cast<uint64_t>(static_cast<int64_t>(high) - low + 1);
    return static_cast<int>(low + static_cast<int64_t>((bits() >> 32) * span >> 32));
  }
  uint8_t byte() { return static_cast<uint8_t>(bits() >> 56); }

  // Sums of four uniform values: bell-shaped, and never beyond 3.5 deviations.
  std::vector<float> normal(int64_t n, double deviation = 1, double mean = 0) {
    constexpr double kMean = 2 * 65535.0;
    constexpr double kDeviation = 37837.2268;  // sqrt(4 (2^32 - 1) / 12)
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) {
      const uint64_t four = bits();
      const auto sum = static_cast<double>((four & 0xFFFF) + (four >> 16 & 0xFFFF) +
                                           (four >> 32 & 0xFFFF) + (four >> 48));
      x = static_cast<float>(mean + (sum - kMean) * (deviation / kDeviation));
    }
    return out;
  }
  std::vector<float> whole(int64_t n, int low, int high) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = static_cast<float>(integer(low, high));
    return out;
  }

 private:
  uint64_t state_;
};

// Every weight type.
inline std::vector<QuantType> all_types() {
  std::vector<QuantType> types;
  for (int i = 0; i < kQuantTypeCount; ++i) types.push_back(static_cast<QuantType>(i));
  return types;
}

// Block offsets of the half-precision scales (docs/MODEL.md section 8); -1: none.
struct ScaleFields {
  int d = -1;
  int dmin = -1;
};
inline ScaleFields scale_fields(QuantType type) {
  switch (type) {
    case QuantType::kQ4_1:
    case QuantType::kQ5_1:
    case QuantType::kQ4_K:
    case QuantType::kQ5_K: return {0, 2};
    case QuantType::kQ2_K: return {80, 82};
    case QuantType::kQ3_K: return {108, -1};
    case QuantType::kQ6_K: return {208, -1};
    case QuantType::kMXFP4:
    case QuantType::kNVFP4:
    case QuantType::kIQ1_M:
    case QuantType::kF32:
    case QuantType::kF16:
    case QuantType::kBF16: return {};
    default: return {0, -1};
  }
}

inline void put_half(uint8_t* block, int offset, double value) {
  const uint16_t bits = quant::float_to_half(static_cast<float>(value));
  std::memcpy(block + offset, &bits, 2);
}

// One random block whose scale fields hold d and dmin.
inline void fill_block(Random& random, QuantType type, double d, double dmin, uint8_t* block) {
  const QuantInfo& info = quant_info(type);
  for (int i = 0; i < info.bytes; ++i) block[i] = random.byte();
  const ScaleFields fields = scale_fields(type);
  if (fields.d >= 0) put_half(block, fields.d, d);
  if (fields.dmin >= 0) put_half(block, fields.dmin, dmin);
  if (type == QuantType::kMXFP4) block[0] = static_cast<uint8_t>(128 + std::lround(std::log2(d)));
  if (type == QuantType::kNVFP4) {
    // E4M3, halved: exponent field 8 is one.
    const int exponent = std::clamp(8 + static_cast<int>(std::lround(std::log2(d))), 0, 14);
    for (int i = 0; i < 4; ++i)
      block[i] = static_cast<uint8_t>(8 * exponent + random.integer(0, 7));
  }
  if (type == QuantType::kIQ1_M) {
    const uint16_t bits = quant::float_to_half(static_cast<float>(d));
    for (int i = 0; i < 4; ++i) {
      uint8_t& high = block[49 + 2 * i];
      high = static_cast<uint8_t>((high & 0x0f) | ((bits >> (4 * i)) & 15) << 4);
    }
  }
}

// A weight matrix with entries of about 1 / sqrt(k).
struct Weight {
  QuantType type = QuantType::kF32;
  int64_t k = 0, n = 0, experts = 1;
  std::vector<uint8_t> bytes;
  std::vector<float> scale;

  backend::WeightRef ref() const {
    return {.data = bytes.data(),
            .type = type,
            .k = k,
            .n = n,
            .experts = experts,
            .scale = scale.empty() ? nullptr : scale.data(),
            .scale_count = static_cast<int64_t>(scale.size())};
  }
  const uint8_t* row(int64_t expert, int64_t r) const {
    return bytes.data() + static_cast<size_t>(expert * n + r) * row_bytes(type, k);
  }
  std::vector<float> decoded(int64_t expert, int64_t r) const {
    std::vector<float> out(static_cast<size_t>(k));
    decode_row(type, row(expert, r), out.data(), k);
    return out;
  }
  double factor(int64_t expert) const {
    return scale.empty() ? 1.0 : scale[scale.size() > 1 ? static_cast<size_t>(expert) : 0];
  }
};

// Root mean square of decoded elements when every scale field is one.
inline double unit_magnitude(Random& random, QuantType type) {
  const QuantInfo& info = quant_info(type);
  std::vector<uint8_t> block(static_cast<size_t>(info.bytes));
  std::vector<float> out(static_cast<size_t>(info.elems));
  double sum = 0;
  constexpr int kBlocks = 8;
  for (int b = 0; b < kBlocks; ++b) {
    fill_block(random, type, 1.0, 1.0, block.data());
    info.decode(block.data(), out.data());
    for (float x : out) sum += static_cast<double>(x) * x;
  }
  return std::sqrt(sum / (kBlocks * info.elems));
}

inline Weight random_weight(Random& random, QuantType type, int64_t k, int64_t n,
                            int64_t experts = 1) {
  Weight w{type, k, n, experts, {}, {}};
  const QuantInfo& info = quant_info(type);
  w.bytes.resize(static_cast<size_t>(n * experts) * row_bytes(type, k));
  const double target = 1.0 / std::sqrt(static_cast<double>(k));
  if (!info.quantised) {
    const std::vector<float> values = random.normal(k * n * experts, target);
    for (size_t i = 0; i < values.size(); ++i) {
      if (type == QuantType::kF32) {
        std::memcpy(&w.bytes[4 * i], &values[i], 4);
      } else {
        const uint16_t bits = type == QuantType::kF16 ? quant::float_to_half(values[i])
                                                      : quant::float_to_bf16(values[i]);
        std::memcpy(&w.bytes[2 * i], &bits, 2);
      }
    }
    return w;
  }
  const double unit = target / unit_magnitude(random, type);
  for (size_t at = 0; at < w.bytes.size(); at += static_cast<size_t>(info.bytes)) {
    const double d = unit * random.uniform(0.5, 1.5);
    fill_block(random, type, d, d * random.uniform(0.5, 1.0), &w.bytes[at]);
  }
  return w;
}

}  // namespace strata::ops
