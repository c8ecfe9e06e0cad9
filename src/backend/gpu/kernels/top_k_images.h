#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/top_k.h"

namespace strata::gpu {

template <class A>
void add_top_k_images(ImageList& list) {
  add<A, LogitMaxima<A>>(list, image_key(Kernel::kLogitMaxima));
  add<A, TopKLogits<A>>(list, image_key(Kernel::kTopKLogits));
}

}  // namespace strata::gpu
