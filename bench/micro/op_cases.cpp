#include "op_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "ops/support/random_operands.h"

namespace strata::bench {

using namespace backend;
using ops_test::fill_block;
using ops_test::Random;

namespace {

constexpr int kWidth = 2560, kStreams = 4, kRank = 320;
constexpr int kExperts = 512, kUsed = 10, kHidden = 640;
constexpr int kKeyHeads = 16, kValueHeads = 48, kGdnDim = 128, kConvWidth = 4;
constexpr int kHeads = 24, kKvHeads = 2, kHeadDim = 256;
constexpr int kIndexHeads = 4, kIndexDim = 128, kRatio = 4, kBudget = 2048;
constexpr int kMaxCells = kBudget + kRatio - 1;
constexpr size_t kBeyondCaches = size_t{160} << 20;

constexpr double kFloat = sizeof(float);
constexpr int kRowCounts[] = {1, 8, 64, 512};

// Copies of one matrix side by side. The rows repeat after a few: no kernel sees that.
class Weights {
 public:
  Weights(QuantType type, int64_t k, int64_t n, int64_t experts = 1)
      : type_(type), k_(k), n_(n), experts_(experts) {
    constexpr size_t kDistinctRows = 16;
    const size_t row = row_bytes(type, k);
    bytes_ = row * static_cast<size_t>(n * experts);
    copies_ = bytes_ >= kBeyondCaches ? 1 : kBeyondCaches / bytes_ + 1;
    data_.resize(bytes_ * copies_);
    Random random(1);
    const QuantInfo& info = quant_info(type);
    for (size_t at = 0; at < std::min(kDistinctRows * row, data_.size());
         at += static_cast<size_t>(info.bytes)) {
      fill(random, &data_[at]);
    }
    for (size_t at = kDistinctRows * row; at < data_.size(); at += row) {
      std::memcpy(&data_[at], &data_[at % (kDistinctRows * row)], row);
    }
  }

  // Another copy every time.
  WeightRef next() {
    turn_ = (turn_ + 1) % copies_;
    return {.data = data_.data() + turn_ * bytes_,
            .type = type_,
            .k = k_,
            .n = n_,
            .experts = experts_,
            .scale = nullptr,
            .scale_count = 0};
  }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  void fill(Random& random, uint8_t* block) const {
    const QuantInfo& info = quant_info(type_);
    if (info.quantised) {
      fill_block(random, type_, 0.01, 0.01, block);
      return;
    }
    // A random sign and fraction under the exponent of 1/64 in each format.
    for (int i = 0; i < info.bytes; ++i) block[i] = random.byte();
    const int value = info.bytes / info.elems;
    for (int last = value - 1; last < info.bytes; last += value) {
      block[last] =
          static_cast<uint8_t>((block[last] & 0x80) | (type_ == QuantType::kF16 ? 0x24 : 0x3c));
    }
  }

  QuantType type_;
  int64_t k_, n_, experts_;
  size_t bytes_ = 0, copies_ = 1, turn_ = 0;
  std::vector<uint8_t> data_;
};

std::vector<float> normal(int64_t n, double deviation = 1) {
  Random random(2);
  std::vector<float> some = random.normal(std::min<int64_t>(n, 65537), deviation);
  std::vector<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = some[i % some.size()];
  return out;
}

template <class T = float>
std::vector<T> room(int64_t n) {
  return std::vector<T>(static_cast<size_t>(n));
}

OpCall matmul_call(QuantType type, int64_t k, int64_t n, int rows) {
  struct State {
    Weights w;
    std::vector<float> x, y;
  };
  auto s = std::make_shared<State>(State{Weights(type, k, n), normal(rows * k), room(rows * n)});
  return {.run =
              [s, rows](const KernelSpec& kernel, Stream& stream) {
                const Product one{s->w.next(), s->y.data()};
                const MatmulArgs args{.x = s->x.data(), .rows = rows, .products = {&one, 1}};
                return kernel.launch(stream, &args);
              },
          .bytes = s->w.bytes() + kFloat * rows * static_cast<double>(k + n),
          .flops = 2.0 * rows * static_cast<double>(k) * static_cast<double>(n)};
}

OpCall experts_call(QuantType in, QuantType out, int rows) {
  struct State {
    Weights gate, up, down;
    std::vector<float> x, weights, y, scratch;
    std::vector<int32_t> ids;
  };
  Random random(3);
  std::vector<int32_t> ids;
  for (int row = 0; row < rows; ++row) {
    std::set<int32_t> chosen;
    while (chosen.size() < kUsed) chosen.insert(random.integer(0, kExperts - 1));
    ids.insert(ids.end(), chosen.begin(), chosen.end());
  }
  const auto distinct = static_cast<double>(std::set<int32_t>(ids.begin(), ids.end()).size());
  auto s = std::make_shared<State>(State{
      Weights(in, kWidth, kHidden, kExperts), Weights(in, kWidth, kHidden, kExperts),
      Weights(out, kHidden, kWidth, kExperts), normal(int64_t{rows} * kWidth),
      std::vector<float>(static_cast<size_t>(rows) * kUsed, 1.0f / kUsed),
      room(int64_t{rows} * kWidth), room(int64_t{rows} * kUsed * (2 * kHidden + kWidth)), ids});
  const double expert = (s->gate.bytes() + s->up.bytes() + s->down.bytes()) / kExperts;
  return {.run =
              [s, rows](const KernelSpec& kernel, Stream& stream) {
                const ExpertsArgs args{.gate = s->gate.next(),
                                       .up = s->up.next(),
                                       .down = s->down.next(),
                                       .x = s->x.data(),
                                       .ids = s->ids.data(),
                                       .weights = s->weights.data(),
                                       .y = s->y.data(),
                                       .scratch = s->scratch.data(),
                                       .rows = rows,
                                       .used = kUsed,
                                       .width = kWidth,
                                       .hidden = kHidden};
                return kernel.launch(stream, &args);
              },
          .bytes = distinct * expert + 2 * kFloat * rows * kWidth,
          .flops = 6.0 * rows * kUsed * kWidth * kHidden};
}

OpCall hc_read_call(QuantType type, int rows) {
  constexpr int kWide = kStreams * kWidth;
  struct State {
    Weights down, up, inject;
    std::vector<float> residual, norm, x, inject_weight, scratch;
  };
  auto s = std::make_shared<State>(
      State{Weights(type, kWide, kRank), Weights(type, kRank, kWide),
            Weights(QuantType::kF32, kWide, kStreams), normal(int64_t{rows} * kWide), normal(kWide),
            room(int64_t{rows} * kWidth), room(int64_t{rows} * kStreams),
            room(int64_t{rows} * (2 * kWide + kRank))});
  return {.run =
              [s, rows](const KernelSpec& kernel, Stream& stream) {
                const HcReadArgs args{.residual = s->residual.data(),
                                      .norm = s->norm.data(),
                                      .down = s->down.next(),
                                      .up = s->up.next(),
                                      .inject = s->inject.next(),
                                      .eps = 1e-6f,
                                      .x = s->x.data(),
                                      .inject_weight = s->inject_weight.data(),
                                      .scratch = s->scratch.data(),
                                      .rows = rows,
                                      .streams = kStreams,
                                      .width = kWidth,
                                      .rank = kRank};
                return kernel.launch(stream, &args);
              },
          .bytes = s->down.bytes() + s->up.bytes() + s->inject.bytes() +
                   kFloat * rows * (kWide + kWidth),
          .flops = 2.0 * rows * kWide * (2 * kRank + kStreams)};
}

OpCall gdn_call(int rows) {
  constexpr int kChannels = (2 * kKeyHeads + kValueHeads) * kGdnDim;
  constexpr int kOut = kValueHeads * kGdnDim;
  constexpr int64_t kState = int64_t{kValueHeads} * kGdnDim * kGdnDim;
  struct State {
    std::vector<float> qkv, z, alpha, beta, conv, dt_bias, a_log, norm, conv_state, state, out,
        scratch;
  };
  auto s = std::make_shared<State>(
      State{normal(int64_t{rows} * kChannels), normal(int64_t{rows} * kOut),
            normal(int64_t{rows} * kValueHeads), normal(int64_t{rows} * kValueHeads),
            normal(int64_t{kChannels} * kConvWidth, 0.5), normal(kValueHeads),
            std::vector<float>(kValueHeads, -1.0f), normal(kGdnDim),
            normal(int64_t{kChannels} * (kConvWidth - 1)), normal(kState, 0.1),
            room(int64_t{rows} * kOut), room(int64_t{rows} * kChannels)});
  return {
      .run =
          [s, rows](const KernelSpec& kernel, Stream& stream) {
            const GdnArgs args{.qkv = s->qkv.data(),
                               .z = s->z.data(),
                               .alpha = s->alpha.data(),
                               .beta = s->beta.data(),
                               .conv = s->conv.data(),
                               .dt_bias = s->dt_bias.data(),
                               .a_log = s->a_log.data(),
                               .norm = s->norm.data(),
                               .conv_state = s->conv_state.data(),
                               .state = s->state.data(),
                               .out = s->out.data(),
                               .scratch = s->scratch.data(),
                               .eps = 1e-6f,
                               .rows = rows,
                               .key_heads = kKeyHeads,
                               .value_heads = kValueHeads,
                               .head_dim = kGdnDim,
                               .conv_width = kConvWidth};
            return kernel.launch(stream, &args);
          },
      .bytes = 2 * kFloat * static_cast<double>(kState) + kFloat * rows * (kChannels + 2.0 * kOut),
      // Per head and token: decay, read by key, write, read by query.
      .flops = rows * (7.0 * static_cast<double>(kState) + 2.0 * kChannels * kConvWidth)};
}

OpCall qsa_select_call(int64_t start, int rows) {
  const int64_t blocks = (start + rows) / kRatio;
  struct State {
    std::vector<float> index_q, block_keys, scratch;
    std::vector<int32_t> cells, counts;
  };
  auto s = std::make_shared<State>(State{
      normal(int64_t{rows} * kIndexHeads * kIndexDim), normal(blocks * kIndexDim),
      room(rows * (blocks + 1)), room<int32_t>(int64_t{rows} * kMaxCells), room<int32_t>(rows)});
  return {.run =
              [s, rows, start, blocks](const KernelSpec& kernel, Stream& stream) {
                const QsaSelectArgs args{.index_q = s->index_q.data(),
                                         .block_keys = s->block_keys.data(),
                                         .cells = s->cells.data(),
                                         .counts = s->counts.data(),
                                         .scratch = s->scratch.data(),
                                         .scratch_stride = blocks + 1,
                                         .start = start,
                                         .form = QsaForm::kHf,
                                         .total = start + rows,
                                         .rows = rows,
                                         .index_heads = kIndexHeads,
                                         .index_dim = kIndexDim,
                                         .ratio = kRatio,
                                         .budget = kBudget,
                                         .max_cells = kMaxCells};
                return kernel.launch(stream, &args);
              },
          .bytes = kFloat * static_cast<double>(blocks) * kIndexDim + kFloat * rows * kMaxCells,
          .flops = 2.0 * rows * kIndexHeads * kIndexDim * static_cast<double>(blocks)};
}

// Every row attends the full budget, every other cell of a cache twice that long.
OpCall attention_call(int rows) {
  constexpr int64_t kKvWidth = int64_t{kKvHeads} * kHeadDim;
  const int64_t start = 2 * kMaxCells;
  const int64_t capacity = start + rows;
  struct State {
    std::vector<float> q, out;
    std::vector<uint16_t> k, v;
    std::vector<int32_t> cells, counts;
  };
  const auto halves = [](const std::vector<float>& values) {
    std::vector<uint16_t> out(values.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = quant::float_to_half(values[i]);
    return out;
  };
  std::vector<int32_t> cells;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < kMaxCells; ++i) cells.push_back(2 * i);
  }
  auto s = std::make_shared<State>(
      State{normal(int64_t{rows} * kHeads * 2 * kHeadDim), room(int64_t{rows} * kHeads * kHeadDim),
            halves(normal(capacity * kKvWidth)), halves(normal(capacity * kKvWidth)), cells,
            std::vector<int32_t>(static_cast<size_t>(rows), kMaxCells)});
  return {.run =
              [s, rows, start, capacity](const KernelSpec& kernel, Stream& stream) {
                const AttentionArgs args{.q = s->q.data(),
                                         .cache = {.k = s->k.data(),
                                                   .v = s->v.data(),
                                                   .block_keys = nullptr,
                                                   .tail_keys = nullptr,
                                                   .type = KvType::kF16,
                                                   .capacity = capacity},
                                         .cells = s->cells.data(),
                                         .counts = s->counts.data(),
                                         .out = s->out.data(),
                                         .scale = 1.0f / 16,
                                         .start = start,
                                         .rows = rows,
                                         .heads = kHeads,
                                         .kv_heads = kKvHeads,
                                         .head_dim = kHeadDim,
                                         .max_cells = kMaxCells};
                return kernel.launch(stream, &args);
              },
          .bytes =
              2.0 * kMaxCells * kKvWidth * sizeof(uint16_t) + kFloat * rows * kHeads * 3 * kHeadDim,
          .flops = 4.0 * rows * kHeads * kHeadDim * kMaxCells};
}

OpCall router_call(int rows) {
  struct State {
    Weights w;
    std::vector<float> x, weights, scratch;
    std::vector<int32_t> ids;
  };
  auto s = std::make_shared<State>(
      State{Weights(QuantType::kF32, kWidth, kExperts), normal(int64_t{rows} * kWidth),
            room(int64_t{rows} * kUsed), room(int64_t{rows} * kExperts),
            room<int32_t>(int64_t{rows} * kUsed)});
  return {.run =
              [s, rows](const KernelSpec& kernel, Stream& stream) {
                const RouterArgs args{.w = s->w.next(),
                                      .x = s->x.data(),
                                      .ids = s->ids.data(),
                                      .weights = s->weights.data(),
                                      .scratch = s->scratch.data(),
                                      .rows = rows,
                                      .used = kUsed};
                return kernel.launch(stream, &args);
              },
          .bytes = s->w.bytes() + kFloat * rows * kWidth,
          .flops = 2.0 * rows * kWidth * kExperts};
}

}  // namespace

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  const struct {
    QuantType type;
    int64_t k, n;
    int most_rows;
  } kMatrices[] = {
      {QuantType::kQ8_0, 2560, 10240, 512},  // delta-net projection
      {QuantType::kQ8_0, 6144, 2560, 512},   // output projections
      {QuantType::kQ6_K, 2560, 248320, 8},   // head
      {QuantType::kQ6_K, 2560, 10240, 512},  {QuantType::kQ5_K, 2560, 10240, 512},
      {QuantType::kQ4_K, 2560, 10240, 512},  {QuantType::kIQ4_XS, 2560, 10240, 512},
      {QuantType::kBF16, 2560, 2560, 512},    // n-gram value projection
      {QuantType::kIQ3_XXS, 2560, 640, 512},  // one expert: gate or up
      {QuantType::kIQ2_XS, 2560, 640, 512},  {QuantType::kIQ2_XXS, 2560, 640, 512},
      {QuantType::kIQ4_NL, 640, 2560, 512},  // one expert: down
      {QuantType::kQ2_0, 640, 2560, 512},    {QuantType::kMXFP4, 640, 2560, 512},
  };
  for (const auto& m : kMatrices) {
    for (const int rows : kRowCounts) {
      if (rows > m.most_rows) continue;
      cases.push_back({OpId::kMatmul, m.type,
                       fmt::format("{}/{}x{}/rows:{}", quant_info(m.type).name, m.k, m.n, rows),
                       [m, rows] { return matmul_call(m.type, m.k, m.n, rows); }});
    }
  }
  constexpr std::pair<QuantType, QuantType> kExpertTypes[] = {
      {QuantType::kIQ3_XXS, QuantType::kIQ4_NL}, {QuantType::kIQ2_XS, QuantType::kQ2_0}};
  for (const int rows : kRowCounts) {
    for (const auto& [in, out] : kExpertTypes) {
      cases.push_back(
          {OpId::kExperts, in,
           fmt::format("{}+{}/rows:{}", quant_info(in).name, quant_info(out).name, rows),
           [in = in, out = out, rows] { return experts_call(in, out, rows); }});
    }
    for (const QuantType type : {QuantType::kBF16, QuantType::kQ8_0}) {
      cases.push_back({OpId::kHcRead, type, fmt::format("{}/rows:{}", quant_info(type).name, rows),
                       [type, rows] { return hc_read_call(type, rows); }});
    }
    const std::string suffix = fmt::format("rows:{}", rows);
    cases.push_back({OpId::kGdn, std::nullopt, suffix, [rows] { return gdn_call(rows); }});
    for (const int64_t start : {4096, 32768}) {
      cases.push_back({OpId::kQsaSelect, std::nullopt, fmt::format("start:{}/{}", start, suffix),
                       [start, rows] { return qsa_select_call(start, rows); }});
    }
    cases.push_back({OpId::kAttention, std::nullopt, fmt::format("cells:{}/{}", kMaxCells, suffix),
                     [rows] { return attention_call(rows); }});
    cases.push_back({OpId::kRouter, QuantType::kF32, suffix, [rows] { return router_call(rows); }});
  }
  return cases;
}

}  // namespace strata::bench
