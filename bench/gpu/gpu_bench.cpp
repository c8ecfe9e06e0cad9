// Measures the matrix products and experts of one GPU at the model's real shapes:
//   gpu_bench cuda:0 [--only=<part of a line>] [--kernels=reference]
// Weights are larger than the card's caches together, and every launch reads another copy. A time is
// the wall time of many launches between two waits, so it contains what launching costs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/module_loader.h"
#include "ops/ops.h"
#include "ops/support/random_operands.h"

namespace strata::bench {
namespace {

using namespace backend;
using ops_test::Random;

constexpr int kWidth = 2560, kHidden = 640, kExperts = 512, kUsed = 10;
constexpr size_t kBeyondCaches = size_t{512} << 20;
constexpr double kGiga = 1e9, kTera = 1e12;

// Ends the program: nothing can be measured after a failure.
void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpu_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}
template <class T>
T check(Result<T> result) {
  if (!result.ok()) check(result.status());
  return std::move(result).value();
}

class Bench {
 public:
  Bench(Device& device, std::string only) : device_(device), only_(std::move(only)) {}

  Device& device() { return device_; }
  bool wanted(const std::string& name) const { return name.find(only_) != std::string::npos; }

  // Seconds of one launch.
  double time(const std::function<Status()>& launch) {
    for (int i = 0; i < 3; ++i) check(launch());
    check(device_.stream().synchronize());
    int count = 4;
    double best = 1e30;
    for (int round = 0; round < 5;) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < count; ++i) check(launch());
      check(device_.stream().synchronize());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (took.count() < 0.02 && count < 4096) {
        count *= 2;
        continue;
      }
      best = std::min(best, took.count() / count);
      ++round;
    }
    return best;
  }

  Buffer floats(int64_t count) {
    Random random(2);
    const std::vector<float> some = random.normal(std::min<int64_t>(count, 65536));
    return tiled(some.data(), some.size() * 4, static_cast<size_t>(count) * 4);
  }
  // `bytes` of device memory filled with repetitions of `data`.
  Buffer tiled(const void* data, size_t size, size_t bytes) {
    Buffer out = check(device_.allocate(bytes));
    size_t filled = std::min(size, bytes);
    check(device_.copy_to_device(out.data(), data, filled));
    while (filled < bytes) {
      const size_t more = std::min(filled, bytes - filled);
      check(device_.copy_on_device(out.as<std::byte>() + filled, out.data(), more));
      filled += more;
    }
    return out;
  }

 private:
  Device& device_;
  std::string only_;
};

// Copies of a matrix side by side.
class Weights {
 public:
  Weights(Bench& bench, QuantType type, int64_t k, int64_t n, int64_t experts = 1)
      : type_(type), k_(k), n_(n), experts_(experts) {
    bytes_ = row_bytes(type, k) * static_cast<size_t>(n * experts);
    bytes_ = (bytes_ + 255) / 256 * 256;
    copies_ = std::max<size_t>(1, (kBeyondCaches + bytes_ - 1) / bytes_);
    Random random(1);
    // A whole number of blocks and of 256 bytes.
    const QuantInfo& info = quant_info(type);
    std::vector<uint8_t> some(static_cast<size_t>(info.bytes) * 4096);
    for (size_t at = 0; at < some.size(); at += static_cast<size_t>(info.bytes)) {
      if (info.quantised) {
        ops_test::fill_block(random, type, 0.01, 0.01, &some[at]);
      } else {
        const uint32_t bits = quant::bits_from_float(static_cast<float>(random.uniform(-1, 1)));
        const uint32_t stored = type == QuantType::kF32 ? bits : bits >> 16;  // or BF16
        std::memcpy(&some[at], &stored, static_cast<size_t>(info.bytes));
      }
    }
    data_ = bench.tiled(some.data(), some.size(), bytes_ * copies_);
  }

  WeightRef next() {
    turn_ = (turn_ + 1) % copies_;
    return {.data = data_.as<uint8_t>() + turn_ * bytes_,
            .type = type_,
            .k = k_,
            .n = n_,
            .experts = experts_,
            .scale = nullptr,
            .scale_count = 0};
  }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  QuantType type_;
  int64_t k_, n_, experts_;
  size_t bytes_ = 0, copies_ = 1, turn_ = 0;
  Buffer data_;
};

void copy_bandwidth(Bench& bench) {
  if (!bench.wanted("copy")) return;
  const size_t bytes = size_t{1} << 30;
  const Buffer from = check(bench.device().allocate(bytes)), to = check(bench.device().allocate(bytes));
  const double seconds =
      bench.time([&] { return bench.device().copy_on_device(to.data(), from.data(), bytes); });
  fmt::print("{:<48} {:>9.1f} us {:>8.0f} GB/s read and written\n", "copy 1 GiB", seconds * 1e6,
             2.0 * static_cast<double>(bytes) / seconds / kGiga);
}

void matmul(Bench& bench, QuantType type, int64_t k, int64_t n, int rows) {
  const std::string name = fmt::format("matmul {} k={} n={} rows={}", quant_info(type).name, k, n, rows);
  if (!bench.wanted(name)) return;
  Weights w(bench, type, k, n);
  const Buffer x = bench.floats(rows * k), y = bench.floats(rows * n);
  const double seconds = bench.time([&] {
    const Product one{w.next(), y.as<float>()};
    return ops::matmul(bench.device().stream(),
                       {.x = x.as<float>(), .rows = rows, .products = {&one, 1}});
  });
  const double flops = 2.0 * rows * static_cast<double>(k) * static_cast<double>(n);
  fmt::print("{:<48} {:>9.1f} us {:>8.0f} GB/s {:>8.1f} TFLOP/s\n", name, seconds * 1e6,
             w.bytes() / seconds / kGiga, flops / seconds / kTera);
  std::fflush(stdout);
}

void experts(Bench& bench, QuantType in, QuantType out, int rows) {
  const std::string name = fmt::format("experts {}+{} rows={}", quant_info(in).name,
                                       quant_info(out).name, rows);
  if (!bench.wanted(name)) return;
  Weights gate(bench, in, kWidth, kHidden, kExperts), up(bench, in, kWidth, kHidden, kExperts),
      down(bench, out, kHidden, kWidth, kExperts);
  Random random(3);
  std::vector<int32_t> ids;
  std::vector<bool> met(kExperts);
  for (int r = 0; r < rows; ++r) {
    std::vector<bool> chosen(kExperts);
    for (int j = 0; j < kUsed;) {
      const int e = random.integer(0, kExperts - 1);
      if (chosen[static_cast<size_t>(e)]) continue;
      chosen[static_cast<size_t>(e)] = met[static_cast<size_t>(e)] = true;
      ids.push_back(e);
      ++j;
    }
  }
  const auto distinct = static_cast<double>(std::count(met.begin(), met.end(), true));
  const Buffer device_ids = bench.tiled(ids.data(), ids.size() * 4, ids.size() * 4);
  const Buffer x = bench.floats(int64_t{rows} * kWidth), y = bench.floats(int64_t{rows} * kWidth),
               weights = bench.floats(int64_t{rows} * kUsed),
               scratch = bench.floats(int64_t{rows} * kUsed * (2 * kHidden + kWidth));
  const double seconds = bench.time([&] {
    return ops::experts(bench.device().stream(), {.gate = gate.next(),
                                                  .up = up.next(),
                                                  .down = down.next(),
                                                  .x = x.as<float>(),
                                                  .ids = device_ids.as<int32_t>(),
                                                  .weights = weights.as<float>(),
                                                  .y = y.as<float>(),
                                                  .scratch = scratch.as<float>(),
                                                  .rows = rows,
                                                  .used = kUsed,
                                                  .width = kWidth,
                                                  .hidden = kHidden});
  });
  const double bytes = (gate.bytes() + up.bytes() + down.bytes()) / kExperts * distinct;
  const double flops = 6.0 * rows * kUsed * kWidth * kHidden;
  fmt::print("{:<48} {:>9.1f} us {:>8.0f} GB/s {:>8.1f} TFLOP/s\n", name, seconds * 1e6,
             bytes / seconds / kGiga, flops / seconds / kTera);
  std::fflush(stdout);
}

void router(Bench& bench, int rows) {
  const std::string name = fmt::format("router F32 rows={}", rows);
  if (!bench.wanted(name)) return;
  Weights w(bench, QuantType::kF32, kWidth, kExperts);
  const Buffer x = bench.floats(int64_t{rows} * kWidth), weights = bench.floats(int64_t{rows} * kUsed),
               scratch = bench.floats(int64_t{rows} * kExperts),
               ids = bench.floats(int64_t{rows} * kUsed);
  const double seconds = bench.time([&] {
    return ops::router(bench.device().stream(), {.w = w.next(),
                                                 .x = x.as<float>(),
                                                 .ids = ids.as<int32_t>(),
                                                 .weights = weights.as<float>(),
                                                 .scratch = scratch.as<float>(),
                                                 .rows = rows,
                                                 .used = kUsed});
  });
  fmt::print("{:<48} {:>9.1f} us {:>8.0f} GB/s {:>8.1f} TFLOP/s\n", name, seconds * 1e6,
             w.bytes() / seconds / kGiga, 2.0 * rows * kWidth * kExperts / seconds / kTera);
  std::fflush(stdout);
}

void run(Device& device, const std::string& only) {
  Bench bench(device, only);
  const auto built = [&](QuantType type) {
    return device.kernels().find(OpId::kMatmul, type) != nullptr;
  };
  fmt::print("{} {} {}\n", device.caps().id, device.caps().arch, device.caps().name);
  copy_bandwidth(bench);
  for (QuantType type : {QuantType::kQ8_0, QuantType::kIQ4_NL, QuantType::kQ4_0, QuantType::kQ4_K,
                         QuantType::kQ5_K, QuantType::kQ6_K, QuantType::kIQ4_XS,
                         QuantType::kIQ3_XXS, QuantType::kIQ2_XS}) {
    if (!built(type)) continue;
    for (int rows : {1, 2, 4, 8}) {
      if (rows == 1 || type == QuantType::kQ8_0 || type == QuantType::kQ4_K) {
        matmul(bench, type, 2560, 16384, rows);
      }
    }
    matmul(bench, type, 2560, 2560, 1);
    matmul(bench, type, 6144, 2560, 1);
    matmul(bench, type, 2560, 248320, 1);
  }
  for (QuantType type : {QuantType::kBF16, QuantType::kF32}) {
    if (built(type)) matmul(bench, type, 2560, 2560, 1);
    if (built(type)) matmul(bench, type, 2560, 2560, 512);
  }
  for (QuantType type : {QuantType::kQ8_0, QuantType::kIQ4_NL, QuantType::kQ4_K, QuantType::kQ6_K,
                         QuantType::kIQ4_XS, QuantType::kIQ3_XXS}) {
    if (!built(type)) continue;
    for (int64_t n : {6144, 16384}) matmul(bench, type, 2560, n, 4096);
    matmul(bench, type, 6144, 2560, 4096);
    for (int rows : {16, 64, 512}) matmul(bench, type, 2560, 10240, rows);
  }
  for (const auto& [in, out] : {std::pair{QuantType::kIQ3_XXS, QuantType::kIQ4_NL},
                                std::pair{QuantType::kIQ2_XS, QuantType::kQ2_0},
                                std::pair{QuantType::kQ8_0, QuantType::kQ8_0}}) {
    if (!built(in) || !built(out)) continue;
    for (int rows : {1, 8, 64, 512, 4096}) experts(bench, in, out, rows);
  }
  for (int rows : {1, 512, 4096}) router(bench, rows);
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  using namespace strata;
  std::string name, only;
  backend::KernelPolicy kernels;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, 7) == "--only=") {
      only = argument.substr(7);
    } else if (argument == "--kernels=reference") {
      kernels.all_reference = true;
    } else {
      name = argument;
    }
  }
  const size_t colon = name.find(':');
  if (colon == std::string::npos) {
    std::fprintf(stderr, "usage: gpu_bench <device, as cuda:0> [--only=TEXT] [--kernels=reference]\n");
    return 2;
  }
  const auto module = bench::check(backend::load_module(name.substr(0, colon)));
  const backend::DeviceRequest request{
      .id = name, .target = name.substr(colon + 1), .kernels = kernels};
  auto opened = module->module->open({&request, 1});
  const std::unique_ptr<backend::Device> device = bench::check(std::move(opened.at(0)));
  bench::run(*device, only);
  return 0;
}
