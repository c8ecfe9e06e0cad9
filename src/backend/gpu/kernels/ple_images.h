#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/ple.h"

namespace strata::gpu {

template <class A>
void add_ple_images(ImageList& list) {
  add<A, PleGate<A>>(list, image_key(Kernel::kPleGate));
  add<A, PleInject<A>>(list, image_key(Kernel::kPleInject));
}

}  // namespace strata::gpu
