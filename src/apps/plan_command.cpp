#include <optional>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/device_listing.h"
#include "apps/model_source.h"
#include "apps/progress_line.h"
#include "apps/report.h"
#include "engine/planner/measured_devices.h"
#include "engine/planner/plan_text.h"
#include "engine/planner/planner.h"

namespace strata::apps {

namespace {

Result<std::vector<engine::PlanDevice>> devices_to_plan(const Settings& settings) {
  if (!settings.assumed.empty()) {
    if (!settings.engine.devices.empty()) {
      return invalid_argument(
          "--assume describes devices and --devices opens them; give one of them");
    }
    return settings.assumed;
  }
  STRATA_ASSIGN_OR_RETURN(const engine::EngineOptions options, devices_to_look_at(settings));
  STRATA_ASSIGN_OR_RETURN(engine::DeviceSet set, engine::open_devices(options));
  ProgressLine progress(true);
  auto devices = engine::measure_plan_devices(
      set, options, [&](const std::string& what) { progress.show(0.5, what); });
  progress.clear();
  return devices;
}

Result<engine::Plan> plan(const Settings& settings) {
  STRATA_ASSIGN_OR_RETURN(const GgufFile file, open_model_file(settings));
  STRATA_ASSIGN_OR_RETURN(const model::Config config, model::Config::read(file));
  STRATA_ASSIGN_OR_RETURN(const engine::ModelCost cost, engine::ModelCost::read(file, config));
  const engine::EngineOptions& wanted = settings.engine;
  std::optional<engine::ExpertProfile> profile;
  if (!wanted.expert_profile.empty()) {
    STRATA_ASSIGN_OR_RETURN(profile, engine::ExpertProfile::read(wanted.expert_profile));
  }
  STRATA_ASSIGN_OR_RETURN(const std::vector<engine::PlanDevice> devices, devices_to_plan(settings));
  engine::PlanOptions options;
  options.context = wanted.context > 0 ? wanted.context : config.context;
  options.kv_type = wanted.kv_type;
  options.prompt_chunk = wanted.prompt_chunk;
  options.split = wanted.layer_split;
  options.order_as_given = wanted.order_as_given;
  options.skip_split_if_fits = wanted.skip_split_if_fits;
  options.profile = profile ? &*profile : nullptr;
  return engine::make_plan(cost, devices, options, {});
}

}  // namespace

int plan_command(const Settings& settings) {
  const Result<engine::Plan> made = plan(settings);
  if (!made.ok()) {
    return made.status().code() == StatusCode::kInvalidArgument
               ? report_usage(CommandId::kPlan, made.status())
               : report_failure(made.status());
  }
  return print_result(settings.json ? engine::plan_json(*made).dump(2) + "\n"
                                    : engine::plan_table(*made));
}

}  // namespace strata::apps
