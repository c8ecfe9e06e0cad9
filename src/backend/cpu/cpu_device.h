// The CPU as a device: host memory, a thread pool, and two families of kernel rows (reference/:
// double precision, the oracle; contract/: the product path).
#pragma once

#include <memory>
#include <vector>

#include "backend/device.h"
#include "base/thread_pool.h"

namespace strata::backend {

// Instruction sets as device features.
inline constexpr FeatureSet kCpuAvx2 = 1u << 0;    // AVX2, FMA, F16C, BMI2
inline constexpr FeatureSet kCpuAvx512 = 1u << 1;  // AVX-512 F, BW, DQ, VL
inline constexpr FeatureSet kCpuAvxVnni = 1u << 2;
inline constexpr FeatureSet kCpuAvx512Vnni = 1u << 3;
inline constexpr FeatureSet kCpuAvx512Vbmi = 1u << 4;  // AVX-512 VBMI and GFNI
inline constexpr FeatureSet kCpuNeonDot = 1u << 5;     // 64-bit ARM with int8 dot products
inline constexpr FeatureSet kCpuNeonI8mm = 1u << 6;    // and with products of int8 matrices

// Those of the machine that this runs on.
FeatureSet detected_cpu_features();

struct CpuDeviceOptions {
  int workers = 0;  // 0: measured, base/worker_count.h
  KernelPolicy kernels;
  FeatureSet disabled_features = 0;  // treated as absent, to run lower rows on a higher machine
};

class CpuStream final : public Stream {
 public:
  CpuStream(Device& device, int workers);

  Device& device() override { return device_; }
  Status synchronize() override { return {}; }  // work has run when a launch returns

  ThreadPool& pool() { return pool_; }

  // Memory of one worker for the duration of a loop body; grows to the largest request and is
  // reused, so a steady state allocates nothing. Aligned to 64 bytes.
  void* scratch(int worker, size_t bytes);
  // Grows every worker's scratch now, so that which worker runs first does not decide when memory
  // is allocated. Call before the loop.
  void reserve_scratch(size_t bytes);
  // The same for memory that all workers of one launch share. Call before the loop.
  void* shared_scratch(size_t bytes);

 private:
  struct Scratch {
    std::unique_ptr<std::byte[]> data;
    size_t size = 0;
  };
  static void* grow(Scratch& scratch, size_t bytes);

  Device& device_;
  ThreadPool pool_;
  std::vector<Scratch> scratch_;  // one per worker, then the shared one
};

Result<std::unique_ptr<Device>> open_cpu_device(const CpuDeviceOptions& options);

// The rows of each family; const data. The contract tier has one set per instruction set.
std::span<const KernelSpec> cpu_reference_rows();
std::vector<std::span<const KernelSpec>> cpu_contract_rows();

}  // namespace strata::backend
