#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/gdn.h"

namespace strata::gpu {

// Variants of kGdnStep: 0 for any head size, 1 for heads of 128.
template <class A>
void add_gdn_images(ImageList& list) {
  add<A, GdnConv<A>>(list, image_key(Kernel::kGdnConv));
  add<A, GdnStep<A>>(list, image_key(Kernel::kGdnStep));
  add<A, GdnStepColumns<A, 128>>(list, image_key(Kernel::kGdnStep, 1));
  add<A, GdnNorm<A>>(list, image_key(Kernel::kGdnNorm));
}

}  // namespace strata::gpu
