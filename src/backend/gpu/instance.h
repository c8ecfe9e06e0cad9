// How a generated source turns kernel types into images of its module. Each such source holds the
// images of one family (and weight type) for one group:
//
//   #include "backend/gpu/instance.h"
//   #include "backend/gpu/kernels/hyper_connection.h"
//   STRATA_GPU_IMAGES(sm90_hyper_connection) {
//     using A = strata::gpu::arch::Sm90;
//     add<A, strata::gpu::HcWrite<A>>(list, image_key(Kernel::kHcWrite));
//   }
//
// What a family adds per group stands in kernels/<family>_images.h as
//   template <class A> void add_<family>_images(ImageList& list);
//   template <class A, class Q> void add_<family>_images(ImageList& list);   // families by weight type
// so that the generated sources contain no knowledge.
#pragma once

#include "backend/gpu/arch/arch.h"
#include "backend/gpu/image.h"
#include "backend/gpu/prim/prim.h"

namespace strata::gpu {

#if defined(__CUDACC__)
// Blocks that a multiprocessor must hold at once: what registers are limited for.
template <class K>
constexpr int least_blocks() {
  if constexpr (requires { K::kLeastBlocks; }) return K::kLeastBlocks;
  return 1;
}
template <class K>
__global__ void __launch_bounds__(K::kThreads, least_blocks<K>())
    kernel_entry(const typename K::Params params) {
  const Thread t;
  K::run(t, params);
}
#elif defined(__HIP__)
template <class K>
__global__ void __launch_bounds__(K::kThreads) kernel_entry(const typename K::Params params) {
  const Thread t;
  K::run(t, params);
}
#else
template <class K>
void kernel_entry(const Thread& t, const void* params) {
  K::run(t, *static_cast<const typename K::Params*>(params));
}
#endif

template <class Arch, class K>
void add(ImageList& list, ImageKey key) {
  static_assert(K::kThreads % Arch::kWave == 0 && K::kThreads <= 1024);
  static_assert(std::is_trivially_copyable_v<typename K::Params>);
  static_assert(launch_shape<K>().shared_bytes <= Arch::kSharedBytes);
  list.push_back({.key = key,
                  .group = Arch::kName,
                  .entry = reinterpret_cast<const void*>(&kernel_entry<K>),
                  .params_bytes = sizeof(typename K::Params),
                  .max_shared_bytes = Arch::kSharedBytes,
                  .shape = launch_shape<K>()});
}

}  // namespace strata::gpu
