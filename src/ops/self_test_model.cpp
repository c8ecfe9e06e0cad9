// Self-tests of the ops that are not products. Shapes are those of the model where a kernel is built
// for them, else as small as shows every path: chunks that do not fill a tile, state carried in, a
// budget that binds, ties, more than one segment of cells.
#include <algorithm>
#include <cmath>

#include "ops/random_operands.h"
#include "ops/self_test.h"

namespace strata::ops {

using namespace backend;

namespace {

constexpr double kFloatTolerance = 2e-5;
constexpr double kHalfTolerance = 2e-3;   // a rounding that falls to the other side
constexpr double kCodeTolerance = 1e-2;   // the same of an int8 code
constexpr double kInt8Tolerance = 5e-2;   // activations in int8 against floats
constexpr float kEps = 1e-6f;

std::vector<float> zeros(int64_t n) { return std::vector<float>(static_cast<size_t>(n)); }

// Cosines, then sines, of small angles.
std::vector<float> rope_rows(Random& random, int rows, int rot) {
  std::vector<float> out;
  for (int r = 0; r < rows; ++r) {
    std::vector<float> angle;
    for (int i = 0; i < rot / 2; ++i) angle.push_back(static_cast<float>(random.uniform(-3, 3)));
    for (float a : angle) out.push_back(std::cos(a));
    for (float a : angle) out.push_back(std::sin(a));
  }
  return out;
}

void add_embed(QuantType type, std::vector<SelfTestCase>& cases) {
  Random random(101);
  Weight table = random_weight(random, type, 256, 5);
  table.scale = {1.5f};
  const std::vector<int32_t> ids = {4, 0, 2};
  std::vector<float> out = zeros(3 * 256);
  cases.push_back(self_test_case(
      fmt::format("embed, {}", quant_info(type).name),
      EmbedArgs{.table = table.ref(), .ids = ids.data(), .out = out.data(), .rows = 3},
      kFloatTolerance, type));
}

void add_streams(std::vector<SelfTestCase>& cases) {
  constexpr int kRows = 3, kStreams = 4, kWidth = 300;
  Random random(102);
  const std::vector<float> e = random.normal(kRows * kWidth);
  std::vector<float> residual = random.normal(kRows * kStreams * kWidth);
  const std::vector<float> weight = random.normal(kRows * kStreams);
  cases.push_back(self_test_case("hc_broadcast",
                                 HcBroadcastArgs{.e = e.data(),
                                                 .residual = residual.data(),
                                                 .rows = kRows,
                                                 .streams = kStreams,
                                                 .width = kWidth},
                                 0));
  cases.push_back(self_test_case("hc_write",
                                 HcWriteArgs{.residual = residual.data(),
                                             .y = e.data(),
                                             .inject_weight = weight.data(),
                                             .rows = kRows,
                                             .streams = kStreams,
                                             .width = kWidth},
                                 kFloatTolerance));
}

void add_hc_read(QuantType type, int rows, std::vector<SelfTestCase>& cases) {
  constexpr int kStreams = 2, kWidth = 256, kRank = 256, kWide = kStreams * kWidth;
  Random random(103);
  const std::vector<float> residual = random.normal(rows * kWide);
  const std::vector<float> norm = random.normal(kWide, 0.1, 1);
  const Weight down = random_weight(random, type, kWide, kRank);
  const Weight up = random_weight(random, type, kRank, kWide);
  const Weight inject = random_weight(random, type, kWide, kStreams);
  std::vector<float> x = zeros(rows * kWidth), weight = zeros(rows * kStreams),
                     scratch = zeros(rows * (2 * kWide + kRank));
  cases.push_back(self_test_case(
      fmt::format("hc_read, {}, {} row{}", quant_info(type).name, rows, rows == 1 ? "" : "s"),
      HcReadArgs{.residual = residual.data(),
                 .norm = norm.data(),
                 .down = down.ref(),
                 .up = up.ref(),
                 .inject = inject.ref(),
                 .eps = kEps,
                 .x = x.data(),
                 .inject_weight = weight.data(),
                 .scratch = scratch.data(),
                 .rows = rows,
                 .streams = kStreams,
                 .width = kWidth,
                 .rank = kRank},
      quant_info(type).quantised ? kInt8Tolerance : kFloatTolerance, type));
}

void add_gdn(int rows, int head_dim, std::vector<SelfTestCase>& cases) {
  constexpr int kKeyHeads = 2, kValueHeads = 4, kTaps = 4;
  const int64_t channels = (2 * kKeyHeads + kValueHeads) * head_dim;
  const int64_t values = static_cast<int64_t>(rows) * kValueHeads * head_dim;
  Random random(104);
  const std::vector<float> qkv = random.normal(rows * channels), z = random.normal(values),
                           alpha = random.normal(rows * kValueHeads),
                           beta = random.normal(rows * kValueHeads),
                           conv = random.normal(channels * kTaps, 0.5),
                           dt_bias = random.normal(kValueHeads),
                           norm = random.normal(head_dim, 0.1, 1);
  const std::vector<float> a_log = {-0.01f, -0.2f, -1.0f, -4.0f};
  std::vector<float> tail = random.normal((kTaps - 1) * channels),
                     state = random.normal(int64_t{kValueHeads} * head_dim * head_dim, 0.3),
                     out = zeros(values), scratch = zeros(rows * channels);
  cases.push_back(self_test_case(
      fmt::format("gdn, {} row{}, heads of {}", rows, rows == 1 ? "" : "s", head_dim),
      GdnArgs{.qkv = qkv.data(),
              .z = z.data(),
              .alpha = alpha.data(),
              .beta = beta.data(),
              .conv = conv.data(),
              .dt_bias = dt_bias.data(),
              .a_log = a_log.data(),
              .norm = norm.data(),
              .conv_state = tail.data(),
              .state = state.data(),
              .out = out.data(),
              .scratch = scratch.data(),
              .eps = kEps,
              .rows = rows,
              .key_heads = kKeyHeads,
              .value_heads = kValueHeads,
              .head_dim = head_dim,
              .conv_width = kTaps},
      kFloatTolerance));
}

void add_qsa_prepare(KvType type, const char* name, std::vector<SelfTestCase>& cases) {
  constexpr int kStart = 6, kRows = 9, kHeads = 3, kKvHeads = 1, kDim = 256, kRot = 64, kRatio = 4,
                kIndexHeads = 2, kIndexDim = 128, kCapacity = 16;
  Random random(105);
  std::vector<float> q = random.normal(kRows * kHeads * 2 * kDim),
                     index_q = random.normal(kRows * kIndexHeads * kIndexDim),
                     tail_rope = rope_rows(random, kRatio, kRot),
                     tail_keys = random.normal(kRatio * kIndexDim),
                     block_keys = random.normal(kCapacity / kRatio * kIndexDim),
                     cached_k = zeros(kCapacity * kKvHeads * kDim), cached_v = cached_k,
                     k_scales = zeros(kCapacity * kKvHeads * kDim / kKvGroup), v_scales = k_scales;
  const std::vector<float> k = random.normal(kRows * kKvHeads * kDim),
                           v = random.normal(kRows * kKvHeads * kDim),
                           index_k = random.normal(kRows * kIndexDim),
                           q_norm = random.normal(kDim, 0.1, 1), k_norm = random.normal(kDim, 0.1, 1),
                           index_q_norm = random.normal(kIndexDim, 0.1, 1),
                           index_k_norm = random.normal(kIndexDim, 0.1, 1),
                           rope = rope_rows(random, kRows, kRot);
  // A place of the tail that holds no token afterwards is nobody's: some tiers leave it, some fill
  // it with the token before, which it holds here from the start.
  constexpr int kFree = kRatio - 1;
  static_assert((kStart + kRows) % kRatio == kFree && kRows > kRatio && kStart % kRatio <= kFree);
  constexpr int kToken = kRows - kRatio;
  std::copy_n(&index_k[kToken * kIndexDim], kIndexDim, &tail_keys[kFree * kIndexDim]);
  std::copy_n(&rope[kToken * kRot], kRot, &tail_rope[kFree * kRot]);
  cases.push_back(self_test_case(fmt::format("qsa_prepare, {} cache", name),
                                 QsaPrepareArgs{.q = q.data(),
                                                .k = k.data(),
                                                .v = v.data(),
                                                .index_q = index_q.data(),
                                                .index_k = index_k.data(),
                                                .q_norm = q_norm.data(),
                                                .k_norm = k_norm.data(),
                                                .index_q_norm = index_q_norm.data(),
                                                .index_k_norm = index_k_norm.data(),
                                                .rope = rope.data(),
                                                .tail_rope = tail_rope.data(),
                                                .cache = {.k = cached_k.data(),
                                                          .v = cached_v.data(),
                                                          .block_keys = block_keys.data(),
                                                          .tail_keys = tail_keys.data(),
                                                          .k_scales = k_scales.data(),
                                                          .v_scales = v_scales.data(),
                                                          .type = type,
                                                          .capacity = kCapacity},
                                                .eps = kEps,
                                                .start = kStart,
                                                .rows = kRows,
                                                .heads = kHeads,
                                                .kv_heads = kKvHeads,
                                                .head_dim = kDim,
                                                .rot_dim = kRot,
                                                .ratio = kRatio,
                                                .index_heads = kIndexHeads,
                                                .index_dim = kIndexDim},
                                 type == KvType::kF32   ? kFloatTolerance
                                 : type == KvType::kF16 ? kHalfTolerance
                                                        : kCodeTolerance));
}

// Whole numbers: every tier gets the same scores, many of them equal.
void add_qsa_select(QsaForm form, std::vector<SelfTestCase>& cases) {
  constexpr int kStart = 60, kRows = 40, kHeads = 4, kDim = 128, kRatio = 4, kBudget = 64,
                kStride = (kStart + kRows) / kRatio + 1, kMaxCells = kBudget + kRatio;
  Random random(106);
  const std::vector<float> index_q = random.whole(kRows * kHeads * kDim, -1, 1),
                           block_keys = random.whole(kStride * kDim, -1, 1);
  std::vector<int32_t> cells(kRows * kMaxCells), counts(kRows);
  std::vector<float> scratch = zeros(kRows * kStride);
  cases.push_back(
      self_test_case(form == QsaForm::kHf ? "qsa_select" : "qsa_select, by cells",
                     QsaSelectArgs{.index_q = index_q.data(),
                                   .block_keys = block_keys.data(),
                                   .cells = cells.data(),
                                   .counts = counts.data(),
                                   .scratch = scratch.data(),
                                   .scratch_stride = kStride,
                                   .start = kStart,
                                   .form = form,
                                   .total = kStart + kRows,
                                   .rows = kRows,
                                   .index_heads = kHeads,
                                   .index_dim = kDim,
                                   .ratio = kRatio,
                                   .budget = kBudget,
                                   .max_cells = kMaxCells},
                     0));
}

struct AttentionShape {
  int start, rows, heads, head_dim;
  int listed;  // cells of a row, if fewer than it sees
};

void add_attention(KvType type, const char* name, const AttentionShape& s,
                   std::vector<SelfTestCase>& cases) {
  constexpr int kKvHeads = 1;
  const int64_t capacity = s.start + s.rows;
  const int64_t cached = capacity * kKvHeads * s.head_dim;
  Random random(107);
  const std::vector<float> q = random.normal(int64_t{2} * s.rows * s.heads * s.head_dim);
  std::vector<float> k = random.normal(cached), v = random.normal(cached);
  std::vector<uint16_t> half_k, half_v;
  std::vector<int8_t> code_k, code_v;
  for (size_t i = 0; i < k.size(); ++i) {
    half_k.push_back(quant::float_to_half(k[i]));
    half_v.push_back(quant::float_to_half(v[i]));
    code_k.push_back(static_cast<int8_t>(random.integer(-127, 127)));
    code_v.push_back(static_cast<int8_t>(random.integer(-127, 127)));
  }
  std::vector<float> k_scales = random.normal(cached / kKvGroup, 0.01), v_scales = k_scales;
  std::vector<int32_t> cells(static_cast<size_t>(s.rows) * static_cast<size_t>(s.listed), -1),
      counts;
  for (int r = 0; r < s.rows; ++r) {
    const int seen = s.start + r + 1;
    counts.push_back(std::min(seen, s.listed));
    if (seen <= s.listed) continue;
    for (int i = 0; i < s.listed; ++i) {
      cells[static_cast<size_t>(r * s.listed + i)] = i + i * (seen - s.listed) / s.listed;
    }
  }
  std::vector<float> out = zeros(int64_t{1} * s.rows * s.heads * s.head_dim);
  void* keys = k.data();
  void* values = v.data();
  if (type == KvType::kF16) {
    keys = half_k.data();
    values = half_v.data();
  } else if (type == KvType::kI8) {
    keys = code_k.data();
    values = code_v.data();
  }
  cases.push_back(self_test_case(
      fmt::format("attention, {} cache, {} rows, {} heads of {}, from {}", name, s.rows, s.heads,
                  s.head_dim, s.start),
      AttentionArgs{.q = q.data(),
                    .cache = {.k = keys,
                              .v = values,
                              .k_scales = k_scales.data(),
                              .v_scales = v_scales.data(),
                              .type = type,
                              .capacity = capacity},
                    .cells = cells.data(),
                    .counts = counts.data(),
                    .out = out.data(),
                    .scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim)),
                    .start = s.start,
                    .rows = s.rows,
                    .heads = s.heads,
                    .kv_heads = kKvHeads,
                    .head_dim = s.head_dim,
                    .max_cells = s.listed},
      kFloatTolerance));
}

void add_ple_inject(int rows, std::vector<SelfTestCase>& cases) {
  constexpr int kStreams = 2, kWidth = 96, kTaps = 4, kDilation = 3, kWide = kStreams * kWidth;
  Random random(108);
  const std::vector<float> key = random.normal(rows * kWide), value = random.normal(rows * kWidth),
                           norm_key = random.normal(kWide, 0.1, 1),
                           norm_query = random.normal(kWide, 0.1, 1),
                           norm_conv = random.normal(kWide, 0.1, 1),
                           conv = random.normal(kWide * kTaps, 0.5);
  std::vector<float> state = random.normal((kTaps - 1) * kDilation * kWide),
                     residual = random.normal(rows * kWide), scratch = zeros(2 * rows * kWide);
  cases.push_back(self_test_case(fmt::format("ple_inject, {} row{}", rows, rows == 1 ? "" : "s"),
                                 PleInjectArgs{.key = key.data(),
                                               .value = value.data(),
                                               .norm_key = norm_key.data(),
                                               .norm_query = norm_query.data(),
                                               .norm_conv = norm_conv.data(),
                                               .conv = conv.data(),
                                               .conv_state = state.data(),
                                               .residual = residual.data(),
                                               .scratch = scratch.data(),
                                               .eps = kEps,
                                               .rows = rows,
                                               .streams = kStreams,
                                               .width = kWidth,
                                               .conv_width = kTaps,
                                               .dilation = kDilation},
                                 kFloatTolerance));
}

// Whole numbers up to `largest` either way: the fewer there are, the more logits are equal. `fault`: a
// NaN and an infinity among them.
void add_top_k(int valid, int k, int largest, bool fault, std::vector<SelfTestCase>& cases) {
  constexpr int kRows = 2, kPadding = 5;
  const int64_t stride = valid + kPadding;
  Random random(109);
  std::vector<float> logits = random.whole(kRows * stride, -largest, largest);
  for (int r = 0; r < kRows; ++r) {
    float* row = &logits[static_cast<size_t>(r * stride)];
    row[valid] = 1e30f;  // padding
    if (fault) row[valid / 2] = NAN, row[valid / 3] = INFINITY;
    row[valid / 4] = -INFINITY;
  }
  std::vector<float> values = zeros(kRows * k);
  std::vector<int32_t> ids(static_cast<size_t>(kRows * k));
  std::vector<uint32_t> scratch(static_cast<size_t>(kRows * TopKLogitsArgs::groups(valid)));
  cases.push_back(self_test_case(fmt::format("top_k_logits, {} of {}, up to {}{}", k, valid, largest,
                                             fault ? ", not all finite" : ""),
                                 TopKLogitsArgs{.logits = logits.data(),
                                                .stride = stride,
                                                .values = values.data(),
                                                .ids = ids.data(),
                                                .scratch = scratch.data(),
                                                .rows = kRows,
                                                .valid = valid,
                                                .k = k},
                                 0));
}

}  // namespace

void add_model_cases(std::span<const QuantType> types, std::vector<SelfTestCase>& cases) {
  for (const QuantType type : types) {
    add_embed(type, cases);
    add_hc_read(type, 1, cases);
    add_hc_read(type, 3, cases);
  }
  add_streams(cases);
  add_gdn(1, 128, cases);
  add_gdn(35, 128, cases);
  add_gdn(3, 40, cases);
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kI8}) {
    const char* name = kKvTypeNames[static_cast<size_t>(type)];
    add_qsa_prepare(type, name, cases);
    // One segment, twelve heads; segments spread over the device; a block that takes several.
    add_attention(type, name, {.start = 20, .rows = 2, .heads = 12, .head_dim = 256, .listed = 64},
                  cases);
    add_attention(type, name, {.start = 700, .rows = 1, .heads = 6, .head_dim = 256, .listed = 520},
                  cases);
    add_attention(type, name, {.start = 250, .rows = 192, .heads = 6, .head_dim = 32, .listed = 300},
                  cases);
  }
  add_qsa_select(QsaForm::kHf, cases);
  add_qsa_select(QsaForm::kLc050, cases);
  add_ple_inject(1, cases);
  add_ple_inject(20, cases);
  add_top_k(5000, 1, 1000000, false, cases);
  add_top_k(5000, 40, 1000000, false, cases);
  // More equal logits than the list of a block holds.
  add_top_k(9000, 1000, 1, true, cases);
}

}  // namespace strata::ops
