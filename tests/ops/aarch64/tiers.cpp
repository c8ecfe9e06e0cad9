// Runs every kernel row of the contract tier that this CPU admits on the cases of the self-tests,
// and on products whose shapes leave tiles and segments unfilled; all must give the scalar tier's
// bits.
//   tiers all|some TIER...   how many of the cases; the tiers besides `scalar` that the CPU must be
//                            found to admit, and no others
// Prints each difference; exits with 1 when there is any.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "backend/cpu/cpu_device.h"
#include "ops/random_operands.h"
#include "ops/self_test.h"

namespace strata {
namespace {

using namespace backend;

// Host memory, one stream, and the rows that the machine can run.
class HostDevice final : public Device {
 public:
  explicit HostDevice(KernelTable kernels) : kernels_(std::move(kernels)), stream_(*this, 2) {}

  const DeviceCaps& caps() const override { return caps_; }
  const KernelTable& kernels() const override { return kernels_; }
  Stream& stream() override { return stream_; }
  bool shares_host_memory() const override { return true; }
  Result<Buffer> allocate(size_t bytes) override {
    return Buffer(this, std::calloc(1, std::max<size_t>(bytes, 1)), bytes);
  }
  Status copy_to_device(void* dst, const void* src, size_t bytes) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return {};
  }
  Status copy_to_host(void* dst, const void* src, size_t bytes) override {
    return copy_to_device(dst, src, bytes);
  }
  Status copy_on_device(void* dst, const void* src, size_t bytes) override {
    return copy_to_device(dst, src, bytes);
  }
  Status zero(void* dst, size_t bytes) override {
    std::memset(dst, 0, bytes);
    return {};
  }

 private:
  void release(void* data, size_t) override { std::free(data); }

  DeviceCaps caps_;
  KernelTable kernels_;
  CpuStream stream_;
};

// Row lengths with whole and short last segments, row counts that fill tiles and that do not.
void add_odd_shapes(QuantType type, std::vector<ops::SelfTestCase>& cases) {
  struct Call {
    ops::Weight w;
    std::vector<float> x;
    int rows;
  };
  const int64_t block = quant_info(type).elems;
  for (const auto& [k, n, rows] : {std::tuple{int64_t{160}, int64_t{5}, 7},
                                   {int64_t{320}, int64_t{13}, 2},
                                   {int64_t{512}, int64_t{7}, 1},
                                   {int64_t{640}, int64_t{9}, 10},
                                   {int64_t{256}, int64_t{3}, 70}}) {
    if (k % block != 0) continue;
    ops::Random random(static_cast<uint32_t>(k));
    auto call = std::make_shared<Call>(
        Call{ops::random_weight(random, type, k, n), random.normal(rows * k), rows});
    call->w.scale = {0.37f};
    cases.push_back(
        {.description =
             fmt::format("matmul, {}, {} rows of {} by {}", quant_info(type).name, rows, k, n),
         .op = OpId::kMatmul,
         .type = type,
         .run = [call](Device& device, const KernelSpec& row) -> Result<ops::OpOutputs> {
           const auto values = static_cast<size_t>(call->rows * call->w.n);
           std::vector<float> y(values, -1.0f);
           const Product product{call->w.ref(), y.data()};
           STRATA_RETURN_IF_ERROR(ops::run_in_place(
               device, row,
               MatmulArgs{.x = call->x.data(), .rows = call->rows, .products = {&product, 1}}));
           std::vector<std::byte> out(y.size() * sizeof(float));
           std::memcpy(out.data(), y.data(), out.size());
           return ops::OpOutputs{std::move(out)};
         },
         .outputs = {},
         .tolerance = 0});
  }
}

std::string tier_of(const KernelSpec& row) {
  const std::string name = row.name;
  return name.substr(name.find('/') + 1);
}

int run(bool all, const std::set<std::string>& wanted) {
  const auto rows = cpu_contract_rows();
  auto kernels = KernelTable::build("cpu", rows, detected_cpu_features(), {});
  if (!kernels.ok()) {
    std::printf("%s\n", kernels.status().message().c_str());
    return 1;
  }
  HostDevice device(std::move(kernels).value());
  std::vector<ops::SelfTestCase> cases;
  for (const QuantType type : ops::all_types()) add_odd_shapes(type, cases);
  if (all) {
    ops::add_product_cases(std::array{QuantType::kF16, QuantType::kQ4_K}, cases);
    ops::add_model_cases(std::array{QuantType::kBF16, QuantType::kQ8_0}, cases);
    // Attention of very many rows takes most of the time and no path that few rows do not.
    std::erase_if(cases, [](const ops::SelfTestCase& c) {
      return c.description.find("192 rows") != std::string::npos;
    });
  }

  std::set<std::string> tiers;
  int runs = 0, differences = 0;
  for (const ops::SelfTestCase& c : cases) {
    std::optional<ops::OpOutputs> scalar;
    for (const KernelSpec* row : device.kernels().admitted()) {  // the scalar tier comes first
      if (row->op != c.op) continue;
      const auto got = c.run(device, *row);
      if (!got.ok()) {
        std::printf("%s, %s: %s\n", row->name, c.description.c_str(),
                    got.status().message().c_str());
        return 1;
      }
      if (!scalar) {
        if (tier_of(*row) != "scalar") {
          std::printf("%s comes before the scalar tier\n", row->name);
          return 1;
        }
        scalar = *got;
        continue;
      }
      tiers.insert(tier_of(*row));
      ++runs;
      if (*got != *scalar) {
        ++differences;
        std::printf("%s, %s: not the scalar tier's bits\n", row->name, c.description.c_str());
      }
    }
  }
  if (tiers != wanted) {
    std::printf("this CPU admits:");
    for (const std::string& tier : tiers) std::printf(" %s", tier.c_str());
    std::printf(", which is not what was asked for\n");
    return 1;
  }
  std::printf("%d runs compared, %d differ\n", runs, differences);
  return differences == 0 && runs > 0 ? 0 : 1;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return strata::run(std::strcmp(argv[1], "all") == 0, {argv + 2, argv + argc});
}
