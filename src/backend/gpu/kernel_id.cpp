#include "backend/gpu/kernel_id.h"

namespace strata::gpu {

const char* kernel_name(Kernel kernel) {
  switch (kernel) {
#define STRATA_GPU_KERNEL(Name) \
  case Kernel::k##Name:         \
    return #Name;
#include "backend/gpu/kernels.def"
#undef STRATA_GPU_KERNEL
  }
  return "?";
}

}  // namespace strata::gpu
