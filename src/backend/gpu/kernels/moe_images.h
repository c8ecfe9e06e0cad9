#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/moe.h"

namespace strata::gpu {

template <class A>
void add_moe_images(ImageList& list) {
  add<A, RouterTopK<A>>(list, image_key(Kernel::kRouterTopK));
  add<A, ExpertGroups<A>>(list, image_key(Kernel::kExpertGroups));
  add<A, ExpertCombine<A>>(list, image_key(Kernel::kExpertCombine));
  add<A, SwiGlu<A>>(list, image_key(Kernel::kSwiGlu));
  add<A, SharedExpertAdd<A>>(list, image_key(Kernel::kSharedExpertAdd));
}

// The products of experts are those of products_images.h, on rows sorted by expert.
template <class A, class Q>
void add_moe_images(ImageList&) {}

}  // namespace strata::gpu
