#include "engine/device_rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "ops/ops.h"

namespace strata::engine {

namespace {

using backend::Buffer;
using backend::Device;
using Clock = std::chrono::steady_clock;

// The best of several timings: disturbances only ever add time.
template <class Work>
Result<double> best_seconds(Device& device, int repeats, Work&& work) {
  double best = 1e9;
  for (int i = 0; i <= repeats; ++i) {
    STRATA_RETURN_IF_ERROR(device.stream().synchronize());
    const auto start = Clock::now();
    STRATA_RETURN_IF_ERROR(work());
    STRATA_RETURN_IF_ERROR(device.stream().synchronize());
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 0) best = std::min(best, seconds);  // the first run warms up
  }
  return std::max(best, 1e-9);
}

}  // namespace

Result<DeviceRates> measure_device(Device& device) {
  const bool emulated = device.caps().id.starts_with("emu");
  const size_t bytes = size_t{emulated ? 1u : 64u} << 20;
  const int repeats = emulated ? 1 : 4;
  DeviceRates rates;
  {
    STRATA_ASSIGN_OR_RETURN(const Buffer a, device.allocate(bytes));
    STRATA_ASSIGN_OR_RETURN(const Buffer b, device.allocate(bytes));
    const std::vector<std::byte> host(bytes, std::byte{1});
    std::vector<std::byte> back(bytes);
    const double size = static_cast<double>(bytes);
    STRATA_ASSIGN_OR_RETURN(const double copying, best_seconds(device, repeats, [&] {
                              return device.copy_on_device(b.data(), a.data(), bytes);
                            }));
    STRATA_ASSIGN_OR_RETURN(const double up, best_seconds(device, repeats, [&] {
                              return device.copy_to_device(a.data(), host.data(), bytes);
                            }));
    STRATA_ASSIGN_OR_RETURN(const double down, best_seconds(device, repeats, [&] {
                              return device.copy_to_host(back.data(), a.data(), bytes);
                            }));
    rates.memory_gbs = 2 * size / copying / 1e9;
    rates.to_device_gbs = size / up / 1e9;
    rates.to_host_gbs = size / down / 1e9;
  }
  {
    constexpr int kLaunches = 100;
    STRATA_ASSIGN_OR_RETURN(const Buffer e, device.allocate(64 * sizeof(float)));
    STRATA_ASSIGN_OR_RETURN(const Buffer residual, device.allocate(4 * 64 * sizeof(float)));
    STRATA_ASSIGN_OR_RETURN(const double launching, best_seconds(device, repeats, [&]() -> Status {
                              for (int i = 0; i < kLaunches; ++i) {
                                STRATA_RETURN_IF_ERROR(ops::hc_broadcast(
                                    device.stream(), {.e = e.as<float>(),
                                                      .residual = residual.as<float>(),
                                                      .rows = 1,
                                                      .streams = 4,
                                                      .width = 64}));
                              }
                              return {};
                            }));
    rates.launch_us = launching / kLaunches * 1e6;
  }
  {
    const int64_t k = emulated ? 256 : 2048, n = emulated ? 64 : 4096;
    const int rows = emulated ? 8 : 512;
    STRATA_ASSIGN_OR_RETURN(
        const Buffer w, device.allocate(row_bytes(QuantType::kQ8_0, k) * static_cast<size_t>(n)));
    STRATA_ASSIGN_OR_RETURN(const Buffer x, device.allocate(static_cast<size_t>(k * rows) * 4));
    STRATA_ASSIGN_OR_RETURN(const Buffer y, device.allocate(static_cast<size_t>(n * rows) * 4));
    const backend::Product product{
        .w = {.data = w.data(), .type = QuantType::kQ8_0, .k = k, .n = n}, .y = y.as<float>()};
    STRATA_ASSIGN_OR_RETURN(const double multiplying, best_seconds(device, repeats, [&] {
                              return ops::matmul(
                                  device.stream(),
                                  {.x = x.as<float>(), .rows = rows, .products = {&product, 1}});
                            }));
    rates.int8_tops =
        2.0 * static_cast<double>(k) * static_cast<double>(n) * rows / multiplying / 1e12;
  }
  return rates;
}

}  // namespace strata::engine
