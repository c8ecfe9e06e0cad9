#include "apps/device_listing.h"

#include "backend/module_loader.h"

namespace strata::apps {

using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kKinds[] = {"cuda", "hip", "emu"};

Json summary_json(const backend::DeviceSummary& device) {
  Json json = {{"id", device.id},
               {"architecture", device.arch},
               {"name", device.name},
               {"address", device.stable_id},
               {"memory_mib", device.memory_bytes >> 20},
               {"free_mib", device.free_bytes >> 20},
               {"integrated", device.integrated}};
  if (!device.problem.empty()) json["problem"] = device.problem;
  return json;
}

}  // namespace

Result<engine::EngineOptions> devices_to_look_at(const Settings& settings) {
  engine::EngineOptions options = settings.engine;
  if (!options.devices.empty()) return options;
  options.devices.push_back({.id = "cpu", .target = {}, .kernels = options.kernels});
  for (backend::DeviceRequest& card : engine::usable_cards(options)) {
    options.devices.push_back(std::move(card));
  }
  return options;
}

Json back_ends_json(const std::string& module_folder) {
  Json list = Json::array();
  for (const char* kind : kKinds) {
    const auto module = backend::load_module(kind, module_folder);
    if (!module.ok()) {
      list.push_back({{"kind", kind}, {"problem", module.status().message()}});
      continue;
    }
    backend::Module& loaded = *(*module)->module;
    Json json = {{"kind", kind},
                 {"path", (*module)->path},
                 {"version", (*module)->version},
                 {"architectures", (*module)->architectures},
                 {"groups", loaded.groups()},
                 {"driver", loaded.driver_version()},
                 {"libraries", Json::array()},
                 {"devices", Json::array()}};
    for (const backend::ModuleLibrary& library : loaded.libraries()) {
      json["libraries"].push_back(
          {{"name", library.name}, {"path", library.path}, {"version", library.version}});
    }
    if (const auto devices = loaded.devices(); devices.ok()) {
      for (const backend::DeviceSummary& device : *devices) {
        json["devices"].push_back(summary_json(device));
      }
    } else {
      json["problem"] = devices.status().message();
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json device_json(const backend::DeviceCaps& caps) {
  return {{"id", caps.id},
          {"architecture", caps.arch},
          {"name", caps.name},
          {"address", caps.stable_id},
          {"memory_mib", caps.memory_bytes >> 20},
          {"workers", caps.workers},
          {"graphs", caps.graphs}};
}

std::vector<QuantType> types_of(const backend::Device& device) {
  std::vector<QuantType> types;
  for (int i = 0; i < kQuantTypeCount; ++i) {
    const auto type = static_cast<QuantType>(i);
    if (device.kernels().find(backend::OpId::kMatmul, type) != nullptr) types.push_back(type);
  }
  return types;
}

}  // namespace strata::apps
