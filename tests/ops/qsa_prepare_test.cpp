#include "ops/support/harness.h"
#include "ops/support/random_operands.h"

namespace strata::ops_test {
namespace {

using backend::KvType;

struct Shape {
  int start, rows, heads, kv_heads, head_dim, rot_dim, ratio, index_heads, index_dim;
};

// Cache arrays of any type, read back as floats.
struct CacheArray {
  KvType type;
  std::vector<float> f32;
  std::vector<uint16_t> f16;
  std::vector<int8_t> i8;
  std::vector<float> scales;

  CacheArray(KvType type, int64_t n) : type(type) {
    if (type == KvType::kF32) {
      f32.assign(static_cast<size_t>(n), 0.25f);
    } else if (type == KvType::kI8) {
      i8.assign(static_cast<size_t>(n), 1);
      scales.assign(static_cast<size_t>(n / 32), 0.25f);
    } else {
      f16.assign(static_cast<size_t>(n), quant::float_to_half(0.25f));
    }
  }
  void* data() {
    if (type == KvType::kI8) return i8.data();
    return type == KvType::kF32 ? static_cast<void*>(f32.data()) : f16.data();
  }
  std::vector<float> floats() const {
    if (type == KvType::kF32) return f32;
    std::vector<float> out;
    for (uint16_t half : f16) out.push_back(quant::half_to_float(half));
    for (size_t i = 0; i < i8.size(); ++i) {
      out.push_back(scales[i / 32] * static_cast<float>(i8[i]));
    }
    return out;
  }
};

struct PrepareCase {
  using Args = backend::QsaPrepareArgs;
  static constexpr float kEps = 1e-6f;
  Shape s;
  KvType type;
  std::vector<float> q, k, v, index_q, index_k, q_norm, k_norm, index_q_norm, index_k_norm;
  std::vector<float> rope;       // of every token from the incomplete block on
  std::vector<float> tail_keys;  // raw keys of the incomplete block

  PrepareCase(Random& random, const Shape& shape, KvType type)
      : s(shape),
        type(type),
        q(random.normal(s.rows * s.heads * 2 * s.head_dim)),
        k(random.normal(s.rows * s.kv_heads * s.head_dim)),
        v(random.normal(s.rows * s.kv_heads * s.head_dim)),
        index_q(random.normal(s.rows * s.index_heads * s.index_dim)),
        index_k(random.normal(s.rows * s.index_dim)),
        q_norm(random.normal(s.head_dim, 0.2, 1)),
        k_norm(random.normal(s.head_dim, 0.2, 1)),
        index_q_norm(random.normal(s.index_dim, 0.2, 1)),
        index_k_norm(random.normal(s.index_dim, 0.2, 1)),
        tail_keys(random.normal(tail_tokens() * s.index_dim)) {
    for (int t = s.start - tail_tokens(); t < s.start + s.rows; ++t) {
      for (bool sine : {false, true}) {
        for (int i = 0; i < s.rot_dim / 2; ++i) {
          const double angle = t * std::pow(1e4, -2.0 * i / s.rot_dim);
          rope.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
        }
      }
    }
  }

  int tail_tokens() const { return s.ratio == 0 ? 0 : s.start % s.ratio; }
  int end() const { return s.start + s.rows; }
  int capacity() const { return end() + 5; }
  int rows() const { return s.rows; }
  std::optional<QuantType> weight_type() const { return std::nullopt; }
  // Row of token t, counted from the first token of the incomplete block.
  const float* rope_of(int t) const { return &rope[(t - s.start + tail_tokens()) * s.rot_dim]; }

  // Floats: queries with their gates, K, V, index queries, block keys, live tail.
  Outputs run(const KernelSpec& spec, backend::Device& device,
              const std::vector<int>& calls) const {
    const bool indexed = s.ratio > 0;
    std::vector<float> q_out = q, index_q_out = index_q;
    CacheArray keys(type, capacity() * s.kv_heads * s.head_dim);
    CacheArray values(type, capacity() * s.kv_heads * s.head_dim);
    std::vector<float> blocks(indexed ? capacity() / s.ratio * s.index_dim : 0, 0.25f);
    std::vector<float> tail = tail_keys,
                       tail_rope(rope.begin(), rope.begin() + tail_size(s.rot_dim));
    tail.resize(static_cast<size_t>(s.ratio * s.index_dim));
    tail_rope.resize(static_cast<size_t>(s.ratio * s.rot_dim));
    int64_t at = 0;
    for (int rows : calls) {
      Args a{};
      a.q = &q_out[at * s.heads * 2 * s.head_dim];
      a.k = &k[at * s.kv_heads * s.head_dim];
      a.v = &v[at * s.kv_heads * s.head_dim];
      a.q_norm = q_norm.data();
      a.k_norm = k_norm.data();
      a.rope = rope_of(static_cast<int>(s.start + at));
      a.cache.k = keys.data();
      a.cache.v = values.data();
      a.cache.k_scales = keys.scales.data();
      a.cache.v_scales = values.scales.data();
      a.cache.type = type;
      a.cache.capacity = capacity();
      if (indexed) {
        a.index_q = &index_q_out[at * s.index_heads * s.index_dim];
        a.index_k = &index_k[at * s.index_dim];
        a.index_q_norm = index_q_norm.data();
        a.index_k_norm = index_k_norm.data();
        a.tail_rope = tail_rope.data();
        a.cache.block_keys = blocks.data();
        a.cache.tail_keys = tail.data();
      }
      a.eps = kEps;
      a.start = s.start + at;
      a.rows = rows;
      a.heads = s.heads;
      a.kv_heads = s.kv_heads;
      a.head_dim = s.head_dim;
      a.rot_dim = s.rot_dim;
      a.ratio = s.ratio;
      a.index_heads = s.index_heads;
      a.index_dim = s.index_dim;
      launch(spec, device, &a);
      at += rows;
    }
    Outputs out;
    out.add(q_out);
    out.add(keys.floats());
    out.add(values.floats());
    if (!indexed) return out;
    out.add(index_q_out);
    out.add(blocks);
    const int live = end() % s.ratio;
    tail.resize(static_cast<size_t>(live * s.index_dim));
    tail_rope.resize(static_cast<size_t>(live * s.rot_dim));
    out.add(tail);
    out.add(tail_rope);
    return out;
  }

  int64_t tail_size(int width) const { return static_cast<int64_t>(tail_tokens()) * width; }

  template <class N>
  std::vector<N> normed_and_rotated(const std::vector<N>& x, const std::vector<float>& norm,
                                    int token) const {
    std::vector<N> y = rms_norm<N>(x.data(), static_cast<int64_t>(x.size()), kEps, norm.data());
    const float* table = rope_of(token);
    const int half = s.rot_dim / 2;
    for (int i = 0; i < half; ++i) {
      const N c(table[i]), d(table[half + i]), a = y[i], b = y[half + i];
      y[i] = a * c - b * d;
      y[half + i] = a * d + b * c;
    }
    return y;
  }

  // A half keeps 11 bits, and no step finer than 2^-24.
  template <class N>
  N cached(N x) const {
    return type == KvType::kF32 ? x : N(x.v, x.e + std::abs(x.v) * 0x1p-11 + 0x1p-25);
  }

  template <class N>
  std::vector<N> expected() const {
    std::vector<N> out;
    const auto part = [](const std::vector<float>& from, int64_t index, int64_t n) {
      return std::vector<N>(from.begin() + index * n, from.begin() + (index + 1) * n);
    };
    const auto add = [&](const std::vector<N>& values) {
      out.insert(out.end(), values.begin(), values.end());
    };
    for (int64_t i = 0; i < static_cast<int64_t>(s.rows) * s.heads; ++i) {
      const int token = s.start + static_cast<int>(i / s.heads);
      add(normed_and_rotated(part(q, 2 * i, s.head_dim), q_norm, token));
      add(part(q, 2 * i + 1, s.head_dim));
    }
    for (bool is_key : {true, false}) {
      for (int t = 0; t < capacity(); ++t) {
        for (int h = 0; h < s.kv_heads; ++h) {
          const int64_t at = static_cast<int64_t>(t - s.start) * s.kv_heads + h;
          if (t < s.start || t >= end()) {
            add(std::vector<N>(static_cast<size_t>(s.head_dim), N(0.25)));
            continue;
          }
          std::vector<N> cell = part(is_key ? k : v, at, s.head_dim);
          if (is_key) cell = normed_and_rotated(cell, k_norm, t);
          for (N& x : cell) x = cached(x);
          add(cell);
        }
      }
    }
    if (s.ratio == 0) return out;
    for (int64_t i = 0; i < static_cast<int64_t>(s.rows) * s.index_heads; ++i) {
      const int token = s.start + static_cast<int>(i / s.index_heads);
      add(normed_and_rotated(part(index_q, i, s.index_dim), index_q_norm, token));
    }
    std::vector<float> raw = tail_keys;
    raw.insert(raw.end(), index_k.begin(), index_k.end());
    const int first = s.start - tail_tokens();
    for (int block = 0; block < capacity() / s.ratio; ++block) {
      if (block * s.ratio < first || (block + 1) * s.ratio > end()) {
        add(std::vector<N>(static_cast<size_t>(s.index_dim), N(0.25)));
        continue;
      }
      std::vector<N> mean(static_cast<size_t>(s.index_dim), N(0));
      for (int t = block * s.ratio; t < (block + 1) * s.ratio; ++t) {
        for (int i = 0; i < s.index_dim; ++i) {
          mean[i] = mean[i] + N(raw[(t - first) * s.index_dim + i]) / N(s.ratio);
        }
      }
      add(normed_and_rotated(mean, index_k_norm, block * s.ratio));
    }
    const int live_first = end() / s.ratio * s.ratio;
    for (int t = live_first; t < end(); ++t) add(part(raw, t - first, s.index_dim));
    for (int t = live_first; t < end(); ++t)
      add(std::vector<N>(rope_of(t), rope_of(t) + s.rot_dim));
    return out;
  }
};

class QsaPrepare : public OpTest {};

TEST_F(QsaPrepare, NormsRotatesAndCachesInFloatAndHalf) {
  Random random(1);
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (int rows : {1, 2, 3, 7, 8, 9, 64, 65}) {
      SCOPED_TRACE(testing::Message() << rows << " rows");
      check(PrepareCase(random, {0, rows, 4, 2, 16, 8, 4, 2, 12}, type));
    }
  }
}

TEST_F(QsaPrepare, CompletesBlocksThatEarlierCallsBegan) {
  Random random(2);
  for (int start = 0; start < 9; ++start) {
    for (int rows : {1, 2, 3, 4, 5, 13}) {
      SCOPED_TRACE(testing::Message() << rows << " rows from " << start);
      check(PrepareCase(random, {start, rows, 2, 1, 8, 4, 4, 1, 8}, KvType::kF32));
    }
  }
}

TEST_F(QsaPrepare, TakesOtherBlockLengthsAndFullRotation) {
  Random random(3);
  for (int ratio : {1, 2, 3, 8}) {
    SCOPED_TRACE(testing::Message() << "ratio " << ratio);
    check(PrepareCase(random, {5, 17, 3, 1, 10, 10, ratio, 2, 10}, KvType::kF16));
  }
}

TEST_F(QsaPrepare, LeavesTheIndexerAloneInDenseLayers) {
  Random random(4);
  check(PrepareCase(random, {3, 6, 4, 2, 16, 8, 0, 0, 0}, KvType::kF32));
}

TEST_F(QsaPrepare, RotatesABlockKeyAtItsFirstToken) {
  Random random(5);
  PrepareCase c(random, {6, 2, 1, 1, 4, 2, 4, 1, 4}, KvType::kF32);
  c.tail_keys = {1, 0, 0, 0, 1, 0, 0, 0};
  c.index_k = c.tail_keys;
  c.index_k_norm = {0.5f, 0.5f, 0.5f, 0.5f};  // the mean key has rms 1/2, so the result is unit
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {2}).floats;
    const size_t block_1 = got.size() - 2 * 4;  // blocks 1 and 2 of capacity 13 / 4, no live tail
    EXPECT_NEAR(got[block_1], std::cos(4.0), 1e-5);
    EXPECT_NEAR(got[block_1 + 1], std::sin(4.0), 1e-5);
  }
}

TEST_F(QsaPrepare, ClampsValuesBeyondTheRangeOfAHalf) {
  Random random(6);
  PrepareCase c(random, {0, 1, 1, 1, 4, 2, 0, 0, 0}, KvType::kF16);
  c.v = {1e6f, -1e6f, 65519.0f, 65504.0f};
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {1}).floats;
    const auto values = got.end() - c.capacity() * 4;
    EXPECT_EQ(std::vector<float>(values, values + 4),
              (std::vector<float>{65504.0f, -65504.0f, 65504.0f, 65504.0f}));
  }
}

// What 32 floats become in an int8 cache.
std::vector<float> coded(const float* x) {
  float amax = 0;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    amax = std::max(amax, std::abs(x[i]));
    finite = finite && std::isfinite(x[i]);
  }
  std::vector<float> out(32, finite ? 0.0f : NAN);
  const float scale = amax / 127;
  for (int i = 0; i < 32 && finite && scale > 0; ++i) {
    out[i] = scale * std::clamp(std::nearbyint(x[i] / scale), -127.0f, 127.0f);
  }
  return out;
}

TEST_F(QsaPrepare, KeepsInt8CodesOfTheFloatsItWouldKeep) {
  Random random(7);
  PrepareCase c(random, {3, 5, 2, 2, 64, 16, 4, 1, 16}, KvType::kI8);
  std::fill_n(c.v.begin(), 32, 0.0f);
  c.v[40] = INFINITY;
  for (int i = 64; i < 96; ++i) c.v[i] = 1e-30f * static_cast<float>(i - 80);
  expect_one_result(c);
  PrepareCase floats = c;
  floats.type = KvType::kF32;
  for (const KernelSpec* spec : kernels_for(c)) {
    SCOPED_TRACE(spec->name);
    const std::vector<float> got = c.run(*spec, device(), {5}).floats;
    const std::vector<float> kept = floats.run(*spec, device(), {5}).floats;
    ASSERT_EQ(got.size(), kept.size());
    const size_t cell = 2 * 64, keys = 5 * 2 * 2 * 64, values = keys + c.capacity() * cell;
    for (const size_t array : {keys, values}) {
      for (size_t at = array + 3 * cell; at < array + 8 * cell; at += 32) {
        const std::vector<float> want = coded(&kept[at]);
        for (size_t i = 0; i < 32; ++i) {
          if (std::isnan(want[i])) {
            EXPECT_TRUE(std::isnan(got[at + i])) << at + i;
          } else {
            EXPECT_EQ(got[at + i], want[i]) << at + i;
          }
        }
      }
    }
  }
}

TEST_F(QsaPrepare, TakesTheModelsSizes) {
  Random random(6);
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kI8}) {
    expect_one_result(PrepareCase(random, {6, 11, 24, 2, 256, 64, 4, 4, 128}, type));
  }
}

}  // namespace
}  // namespace strata::ops_test
