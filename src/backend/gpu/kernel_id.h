// The names of all GPU kernels.
#pragma once

#include <cstdint>

#include "format/quant/quant.h"

namespace strata::gpu {

enum class Kernel : uint8_t {
#define STRATA_GPU_KERNEL(Name) k##Name,
#include "backend/gpu/kernels.def"
#undef STRATA_GPU_KERNEL
};

inline constexpr int kKernelCount = 0
#define STRATA_GPU_KERNEL(Name) +1
#include "backend/gpu/kernels.def"
#undef STRATA_GPU_KERNEL
    ;

// "MatmulVec", as in kernels.def.
const char* kernel_name(Kernel kernel);

// Weight type of a key that serves any.
inline constexpr uint8_t kAnyType = 0xff;

// Which compiled form of which kernel. `variant` is the kernel's own numbering (rows per block, a
// cache type); 0 where it has one form.
struct ImageKey {
  Kernel kernel{};
  uint8_t type = kAnyType;  // QuantType or kAnyType
  uint8_t variant = 0;

  friend bool operator==(const ImageKey&, const ImageKey&) = default;
};

constexpr ImageKey image_key(Kernel kernel, int variant = 0) {
  return {kernel, kAnyType, static_cast<uint8_t>(variant)};
}
constexpr ImageKey image_key(Kernel kernel, QuantType type, int variant = 0) {
  return {kernel, static_cast<uint8_t>(type), static_cast<uint8_t>(variant)};
}

// Keys as a KernelSpec lists them. kRowType stands for the weight type of the row.
inline constexpr uint8_t kRowType = 0xfe;
constexpr uint32_t pack_key(ImageKey key) {
  return static_cast<uint32_t>(key.kernel) | static_cast<uint32_t>(key.type) << 8 |
         static_cast<uint32_t>(key.variant) << 16;
}
constexpr ImageKey unpack_key(uint32_t packed) {
  return {static_cast<Kernel>(packed & 0xff), static_cast<uint8_t>(packed >> 8),
          static_cast<uint8_t>(packed >> 16)};
}

}  // namespace strata::gpu
