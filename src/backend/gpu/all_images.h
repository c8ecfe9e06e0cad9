// Every image of the module that this is compiled into; the definition is generated.
#pragma once

#include "backend/gpu/image.h"

namespace strata::gpu {

void add_all_images(ImageList& list);

}  // namespace strata::gpu
