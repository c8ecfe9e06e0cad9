#include "backend/gpu/emu/addresses.h"

#include <cstring>

#include "backend/gpu/emu/faults.h"

namespace strata::gpu::emu {

const DeviceState* owner_of(Devices devices, const void* p, size_t bytes) {
  for (const auto& device : devices) {
    if (device->memory.touches(p, bytes)) return device.get();
  }
  return nullptr;
}

RuntimeResult check_params(Devices devices, const DeviceState& device, const KernelImage& image,
                           const void* params) {
  const auto* bytes = static_cast<const std::byte*>(params);
  for (size_t at = 0; at + sizeof(void*) <= static_cast<size_t>(image.params_bytes);
       at += sizeof(void*)) {
    const void* word = nullptr;
    std::memcpy(&word, bytes + at, sizeof word);
    if (word == nullptr) continue;
    const DeviceState* owner = owner_of(devices, word, 1);
    std::string wrong;
    if (owner != nullptr && owner != &device) {
      wrong = fmt::format("an address of device {}", owner->ordinal);
    } else if (owner == nullptr && device.memory.was_released(word)) {
      wrong = "an address of released memory";
    }
    if (wrong.empty()) continue;
    return invalid(fmt::format("the parameters of {} hold, at byte {}, {}",
                               kernel_name(image.key.kernel), at, wrong));
  }
  return {};
}

}  // namespace strata::gpu::emu
