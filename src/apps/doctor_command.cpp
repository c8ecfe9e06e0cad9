#include <algorithm>
#include <chrono>

#include <fmt/ranges.h>

#include "apps/build_info.h"
#include "apps/commands.h"
#include "apps/device_listing.h"
#include "apps/exit_code.h"
#include "apps/files.h"
#include "apps/progress_line.h"
#include "apps/report.h"
#include "engine/device_description.h"
#include "engine/device_rates.h"
#include "engine/handoff_routes.h"

namespace strata::apps {

namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& value) { return value.get<std::string>(); }

std::string describe_back_end(const Json& back_end) {
  std::string out = fmt::format("  {}\n", text(back_end["kind"]));
  if (back_end.contains("path")) {
    out += fmt::format("    {} (version {}), compiled for {}\n", text(back_end["path"]),
                       text(back_end["version"]), text(back_end["architectures"]));
    if (!text(back_end["driver"]).empty()) {
      out += fmt::format("    driver {}\n", text(back_end["driver"]));
    }
    for (const Json& library : back_end["libraries"]) {
      out += fmt::format("    {} {} {}\n", text(library["name"]), text(library["version"]),
                         text(library["path"]));
    }
    for (const Json& device : back_end["devices"]) {
      out +=
          fmt::format("    {} {} {} at {}: {} of {} MiB free{}\n", text(device["id"]),
                      text(device["architecture"]), text(device["name"]), text(device["address"]),
                      device["free_mib"].get<uint64_t>(), device["memory_mib"].get<uint64_t>(),
                      device.contains("problem") ? "; " + text(device["problem"]) : "");
    }
  }
  if (back_end.contains("problem")) out += fmt::format("    {}\n", text(back_end["problem"]));
  return out;
}

std::string describe_build(const Json& build) {
  std::string out = fmt::format("build\n  strata {}, {}, {}, sources {}\n", text(build["version"]),
                                text(build["compiler"]), text(build["build_type"]),
                                text(build["source_sha256"]).substr(0, 12));
  for (const Json& back_end : build["back_ends"]) {
    const auto list = [&](const char* key) {
      return fmt::format("{}", fmt::join(back_end[key].get<std::vector<std::string>>(), " "));
    };
    out += fmt::format("  {}: {}; weights {}\n", text(back_end["kind"]), list("architectures"),
                       list("quant_types"));
  }
  return out;
}

std::string describe(const Json& report) {
  std::string out = describe_build(report["build"]) + "\nback ends\n";
  for (const Json& back_end : report["back_ends"]) out += describe_back_end(back_end);
  out += "\ndevices\n";
  for (const Json& device : report["devices"]) {
    out += fmt::format("  {} {} {}\n", text(device["id"]), text(device["architecture"]),
                       text(device["name"]));
    out += fmt::format("    decode graphs {}\n", text(device["graphs"]));
    if (device.contains("rates")) {
      const Json& rates = device["rates"];
      out += fmt::format(
          "    memory {:.1f} GB/s, from the host {:.1f} GB/s, to the host {:.1f} GB/s, launch "
          "{:.1f} "
          "us, int8 products {:.3f} TOPS\n",
          rates["memory_gbs"].get<double>(), rates["to_device_gbs"].get<double>(),
          rates["to_host_gbs"].get<double>(), rates["launch_us"].get<double>(),
          rates["int8_tops"].get<double>());
    }
  }
  if (report.contains("hand_offs")) {
    out += "\nhand-offs\n";
    for (const Json& route : report["hand_offs"]) out += fmt::format("  {}\n", text(route["line"]));
  }
  out += "\nself-tests\n  " + text(report["self_tests"]) + "\n";
  if (report.contains("tested_types")) {
    const auto types = report["tested_types"].get<std::vector<std::string>>();
    out += fmt::format("  weights {}\n", fmt::join(types, " "));
  }
  return out;
}

}  // namespace

int doctor_command(const Settings& settings) {
  const auto options = devices_to_look_at(settings);
  if (!options.ok()) return report_failure(options.status());
  Json report;
  report["build"] = Json::parse(build_info());
  report["back_ends"] = back_ends_json(settings.engine.module_folder);
  report["devices"] = Json::array();
  auto set = engine::open_devices(*options);
  Status status = set.status();
  if (set.ok()) {
    // A back end may be compiled for fewer types than another; the CPU has all of them.
    std::vector<QuantType> types = types_of(*set->devices.front());
    for (const auto& device : set->devices) {
      const std::vector<QuantType> known = types_of(*device);
      std::erase_if(types, [&](QuantType type) {
        return std::find(known.begin(), known.end(), type) == known.end();
      });
    }
    for (const QuantType type : types) report["tested_types"].push_back(quant_info(type).name);
    ProgressLine progress(true);
    const auto start = std::chrono::steady_clock::now();
    status = engine::prove_devices(*set, types,
                                   [&](const std::string& what) { progress.show(0.0, what); });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const auto& device : set->devices) {
      Json json = device_json(device->caps());
      if (status.ok()) {
        progress.show(0.5, fmt::format("timing {}", engine::device_title(device->caps())));
        const auto rates = engine::measure_device(*device);
        if (rates.ok()) {
          json["rates"] = engine::rates_json(*rates);
        } else {
          status = rates.status();
        }
      }
      report["devices"].push_back(std::move(json));
    }
    for (size_t i = 1; status.ok() && i < set->devices.size(); ++i) {
      const auto proved = engine::prove_route(*set->devices[i - 1], *set->devices[i]);
      report["hand_offs"].push_back({{"from", proved.from},
                                     {"to", proved.to},
                                     {"prompts", proved.name()},
                                     {"why", proved.why},
                                     {"line", proved.line()}});
    }
    progress.clear();
    report["seconds"] = seconds;
  }
  report["self_tests"] =
      status.ok() ? "passed, in both orders of use and all devices at once" : status.message();
  report["ok"] = status.ok();
  const int printed = print_result(settings.json ? report.dump(2) + "\n" : describe(report));
  return status.ok() ? printed : kFailure;
}

}  // namespace strata::apps
