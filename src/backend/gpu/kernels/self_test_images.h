#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/self_test.h"

namespace strata::gpu {

template <class A>
void add_self_test_images(ImageList& list) {
  add<A, Bandwidth<A>>(list, image_key(Kernel::kBandwidth));
  add<A, Checksum<A>>(list, image_key(Kernel::kChecksum));
}

}  // namespace strata::gpu
