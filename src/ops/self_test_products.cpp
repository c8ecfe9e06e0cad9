// Self-tests of the matrix products, the router and the experts: for every weight type, rows for the
// kernels of a few rows and for those of many, with tiles that are not full.
#include <cstring>
#include <memory>

#include "ops/random_operands.h"
#include "ops/self_test.h"

namespace strata::ops {

using namespace backend;

namespace {

constexpr double kFloatTolerance = 2e-5;
constexpr double kInt8Tolerance = 5e-2;  // activations in int8 against floats

double tolerance_of(QuantType type) {
  return quant_info(type).quantised ? kInt8Tolerance : kFloatTolerance;
}

std::vector<float> zeros(int64_t n) { return std::vector<float>(static_cast<size_t>(n)); }

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * sizeof(float));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Two matrices that one input meets.
struct MatmulCall {
  Weight first, second;
  std::vector<float> x;
  int rows;

  Result<OpOutputs> run(Device& device, const KernelSpec& row) const {
    std::vector<float> a = zeros(rows * first.n), b = zeros(rows * second.n);
    const Product products[] = {{first.ref(), a.data()}, {second.ref(), b.data()}};
    STRATA_RETURN_IF_ERROR(
        run_in_place(device, row, MatmulArgs{.x = x.data(), .rows = rows, .products = products}));
    return OpOutputs{bytes_of(a), bytes_of(b)};
  }
};

void add_matmul(QuantType type, int rows, std::vector<SelfTestCase>& cases) {
  constexpr int64_t kInputs = 512;
  Random random(201);
  auto call = std::make_shared<MatmulCall>();
  call->first = random_weight(random, type, kInputs, 72);
  call->second = random_weight(random, type, kInputs, 9);
  call->second.scale = {0.5f};
  call->x = random.normal(rows * kInputs);
  call->rows = rows;
  cases.push_back({.description = fmt::format("matmul, {}, {} row{}", quant_info(type).name, rows,
                                              rows == 1 ? "" : "s"),
                   .op = OpId::kMatmul,
                   .type = type,
                   .run = [call = std::shared_ptr<const MatmulCall>(call)](
                              Device& device, const KernelSpec& row) {
                     return call->run(device, row);
                   },
                   .outputs = {ValueKind::kFloat, ValueKind::kFloat},
                   .tolerance = tolerance_of(type)});
}

// An identity with large entries: the choice of experts is the same in every tier, ties included.
void add_router(QuantType type, std::vector<SelfTestCase>& cases) {
  constexpr int kRows = 3, kExperts = 256, kUsed = 4;
  Random random(202);
  Weight w = random_weight(random, type, kExperts, kExperts);
  const bool quantised = quant_info(type).quantised;
  std::vector<float> x = zeros(kRows * kExperts);
  for (int r = 0; r < kRows; ++r) x[static_cast<size_t>(r * kExperts + 7 * r)] = 40.0f;
  std::vector<int32_t> ids(kRows * kUsed);
  std::vector<float> weights = zeros(kRows * kUsed), scratch = zeros(kRows * kExperts);
  cases.push_back(self_test_case(fmt::format("router, {}", quant_info(type).name),
                                 RouterArgs{.w = w.ref(),
                                            .x = x.data(),
                                            .ids = ids.data(),
                                            .weights = weights.data(),
                                            .scratch = scratch.data(),
                                            .rows = kRows,
                                            .used = kUsed},
                                 quantised ? kInt8Tolerance : kFloatTolerance, type));
}

void add_experts(QuantType type, int rows, std::vector<SelfTestCase>& cases) {
  constexpr int kExperts = 4, kUsed = 2, kWidth = 256, kHidden = 256;
  Random random(203);
  const Weight gate = random_weight(random, type, kWidth, kHidden, kExperts),
               up = random_weight(random, type, kWidth, kHidden, kExperts),
               down = random_weight(random, type, kHidden, kWidth, kExperts);
  const std::vector<float> x = random.normal(rows * kWidth);
  std::vector<int32_t> ids;
  std::vector<float> weights;
  for (int r = 0; r < rows; ++r) {
    ids.push_back((r + 1) % kExperts);
    ids.push_back(r % 3 == 0 ? 0 : 3 - (r + 1) % 2);
    if (ids.back() == ids[ids.size() - 2]) ids.back() = (ids.back() + 1) % kExperts;
    weights.push_back(0.75f);
    weights.push_back(0.25f);
  }
  std::vector<float> y = zeros(rows * kWidth),
                     scratch = zeros(int64_t{1} * rows * kUsed * (2 * kHidden + kWidth));
  cases.push_back(self_test_case(
      fmt::format("experts, {}, {} row{}", quant_info(type).name, rows, rows == 1 ? "" : "s"),
      ExpertsArgs{.gate = gate.ref(),
                  .up = up.ref(),
                  .down = down.ref(),
                  .x = x.data(),
                  .ids = ids.data(),
                  .weights = weights.data(),
                  .y = y.data(),
                  .scratch = scratch.data(),
                  .rows = rows,
                  .used = kUsed,
                  .width = kWidth,
                  .hidden = kHidden},
      tolerance_of(type), type));
}

void add_shared_expert(QuantType type, std::vector<SelfTestCase>& cases) {
  constexpr int kRows = 3, kWidth = 512;
  Random random(204);
  const Weight gate = random_weight(random, type, kWidth, 1);
  const std::vector<float> x = random.normal(kRows * kWidth), d = random.normal(kRows * kWidth);
  std::vector<float> y = random.normal(kRows * kWidth);
  cases.push_back(self_test_case(fmt::format("shared_expert_add, {}", quant_info(type).name),
                                 SharedExpertAddArgs{.gate = gate.ref(),
                                                     .x = x.data(),
                                                     .d = d.data(),
                                                     .y = y.data(),
                                                     .rows = kRows,
                                                     .width = kWidth},
                                 tolerance_of(type), type));
}

void add_swiglu(std::vector<SelfTestCase>& cases) {
  constexpr int kRows = 3, kWidth = 300;
  Random random(205);
  const std::vector<float> gate = random.normal(kRows * kWidth, 3),
                           up = random.normal(kRows * kWidth);
  std::vector<float> out = zeros(kRows * kWidth);
  cases.push_back(self_test_case("swiglu",
                                 SwiGluArgs{.gate = gate.data(),
                                            .up = up.data(),
                                            .out = out.data(),
                                            .rows = kRows,
                                            .width = kWidth},
                                 kFloatTolerance));
}

}  // namespace

void add_product_cases(std::span<const QuantType> types, std::vector<SelfTestCase>& cases) {
  for (const QuantType type : types) {
    for (const int rows : {1, 5, 35}) add_matmul(type, rows, cases);
    for (const int rows : {1, 21}) add_experts(type, rows, cases);
    add_shared_expert(type, cases);
    add_router(type, cases);
  }
  add_swiglu(cases);
}

}  // namespace strata::ops
