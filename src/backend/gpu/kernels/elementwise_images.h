#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/elementwise.h"
#include "backend/gpu/kernels/type_of.h"

namespace strata::gpu {

template <class A>
void add_elementwise_images(ImageList& list) {
  add<A, HcBroadcast<A>>(list, image_key(Kernel::kHcBroadcast));
  add<A, HcWrite<A>>(list, image_key(Kernel::kHcWrite));
}

template <class A, class Q>
void add_elementwise_images(ImageList& list) {
  add<A, Embed<A, Q>>(list, image_key(Kernel::kEmbed, type_of<Q>()));
}

}  // namespace strata::gpu
