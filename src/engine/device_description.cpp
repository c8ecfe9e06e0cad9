#include "engine/device_description.h"

namespace strata::engine {

using Json = nlohmann::ordered_json;

// Consecutive types that share a row are one line.
Json kernel_table_json(const backend::Device& device) {
  Json ops = Json::array();
  for (int i = 0; i < static_cast<int>(backend::OpId::kCount); ++i) {
    const auto op = static_cast<backend::OpId>(i);
    const backend::KernelSpec* last = nullptr;
    for (int t = 0; t < kQuantTypeCount; ++t) {
      const auto type = static_cast<QuantType>(t);
      const backend::KernelSpec* row = device.kernels().find(op, type);
      if (row != nullptr && row->weight_type) {
        ops.push_back({{"op", backend::op_name(op)},
                       {"type", quant_info(type).name},
                       {"kernel", row->name},
                       {"reference", row->reference}});
      } else if (row != nullptr && row != last) {
        ops.push_back({{"op", backend::op_name(op)},
                       {"type", ""},
                       {"kernel", row->name},
                       {"reference", row->reference}});
      }
      last = row;
    }
  }
  return ops;
}

Json images_json(const backend::LoadedModule* module, backend::Device& device) {
  Json images = Json::array();
  if (module == nullptr) return images;
  for (const backend::ImageReport& image : module->module->images(device)) {
    images.push_back({{"kernel", image.kernel},
                      {"type", image.type},
                      {"form", image.variant},
                      {"threads", image.threads},
                      {"registers", image.registers},
                      {"spill_bytes", image.local_bytes},
                      {"shared_bytes", image.shared_bytes}});
  }
  return images;
}

Json rates_json(const DeviceRates& rates) {
  return {{"memory_gbs", rates.memory_gbs},
          {"to_device_gbs", rates.to_device_gbs},
          {"to_host_gbs", rates.to_host_gbs},
          {"launch_us", rates.launch_us},
          {"int8_tops", rates.int8_tops}};
}

}  // namespace strata::engine
