#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/hyper_connection.h"

namespace strata::gpu {

template <class A>
void add_hyper_connection_images(ImageList& list) {
  add<A, HcNorm<A>>(list, image_key(Kernel::kHcNorm));
  add<A, HcLowRank<A>>(list, image_key(Kernel::kHcLowRank));
  add<A, HcMix<A>>(list, image_key(Kernel::kHcMix));
  add<A, HcDown<A>>(list, image_key(Kernel::kHcDown));
  add<A, HcUpMix<A>>(list, image_key(Kernel::kHcUpMix));
}

}  // namespace strata::gpu
