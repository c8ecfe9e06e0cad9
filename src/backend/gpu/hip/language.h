// The few words of the HIP language that kernels use, for compilers whose version does not match the
// HIP headers of the system. Included before everything else (-include).
#pragma once

#include <stddef.h>
#include <stdlib.h>

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __launch_bounds__(threads) \
  __attribute__((amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(1)))

// What the compiler's host-side stub of a kernel calls.
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
typedef enum hipError { hipSuccess = 0 } hipError_t;
typedef struct ihipStream_t* hipStream_t;
extern "C" hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                      size_t shared_bytes, hipStream_t stream);
