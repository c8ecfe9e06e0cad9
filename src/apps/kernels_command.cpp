#include "apps/commands.h"
#include "apps/device_listing.h"
#include "apps/report.h"
#include "engine/device_description.h"

namespace strata::apps {

namespace {

using Json = nlohmann::ordered_json;

std::string describe(const Json& device) {
  std::string out =
      fmt::format("{} {} {}\n", device["id"].get<std::string>(),
                  device["architecture"].get<std::string>(), device["name"].get<std::string>());
  out += fmt::format("  decode graphs: {}\n", device["graphs"].get<std::string>());
  out += fmt::format("  {:<20} {:<9} {}\n", "operation", "weights", "kernel");
  for (const Json& row : device["table"]) {
    out += fmt::format("  {:<20} {:<9} {}\n", row["op"].get<std::string>(),
                       row["type"].get<std::string>(), row["kernel"].get<std::string>());
  }
  if (!device["images"].empty()) {
    out += fmt::format("  {:<20} {:<9} {:>4} {:>7} {:>9} {:>6} {:>7}\n", "image", "weights", "form",
                       "threads", "registers", "spill", "shared");
  }
  for (const Json& image : device["images"]) {
    out += fmt::format("  {:<20} {:<9} {:>4} {:>7} {:>9} {:>6} {:>7}\n",
                       image["kernel"].get<std::string>(), image["type"].get<std::string>(),
                       image["form"].get<int>(), image["threads"].get<int>(),
                       image["registers"].get<int>(), image["spill_bytes"].get<int>(),
                       image["shared_bytes"].get<int>());
  }
  return out;
}

}  // namespace

int kernels_command(const Settings& settings) {
  const auto options = devices_to_look_at(settings);
  if (!options.ok()) return report_failure(options.status());
  auto set = engine::open_devices(*options);
  if (!set.ok()) return report_failure(set.status());
  Json devices = Json::array();
  for (size_t i = 0; i < set->devices.size(); ++i) {
    backend::Device& device = *set->devices[i];
    Json json = device_json(device.caps());
    json["table"] = engine::kernel_table_json(device);
    json["images"] = engine::images_json(set->module_of(i), device);
    devices.push_back(std::move(json));
  }
  if (settings.json) return print_result(devices.dump(2) + "\n");
  std::string out;
  for (const Json& device : devices) out += (out.empty() ? "" : "\n") + describe(device);
  return print_result(out);
}

}  // namespace strata::apps
