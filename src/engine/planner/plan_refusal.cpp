#include "engine/planner/plan_refusal.h"

#include <algorithm>

#include "engine/planner/plan_text.h"

namespace strata::engine {

namespace {

const PlanDevice& device_at(const PlanRefusal& r, int index) {
  return r.devices[static_cast<size_t>(index)];
}

uint64_t cache_bytes(const PlanRefusal& r) {
  return r.model->cache_bytes(r.options->kv_type, r.options->context) *
         static_cast<uint64_t>(r.options->sequences);
}

// What must be in memory when every device of `r` runs a stage.
uint64_t needed_bytes(const PlanRefusal& r) {
  uint64_t bytes = 0, state = 0;
  for (const LayerCost& layer : r.model->layers) state += layer.state_bytes;
  bytes += r.model->weight_bytes() + cache_bytes(r) +
           state * static_cast<uint64_t>(r.options->sequences);
  const uint64_t workspace =
      r.model->step_bytes(r.costs->chunk(), r.options->window_rows, r.options->context) +
      (r.usable.size() > 1 ? r.model->handoff_bytes(r.costs->chunk()) : 0);
  return bytes + workspace * r.usable.size();
}

std::string remedies(const PlanRefusal& r, uint64_t missing) {
  std::vector<std::string> ways;
  for (const PlanDevice& device : r.devices) {
    if (device.is_cpu() && !device.may_be_stage) {
      ways.push_back(
          fmt::format("add cpu to --devices ({} of RAM are free)", gib_text(device.free_bytes)));
    }
  }
  const uint64_t cache = cache_bytes(r);
  if (r.options->kv_type == backend::KvType::kF32 && cache / 2 >= missing)
    ways.emplace_back("use --kv f16");
  if (cache > missing) {
    constexpr int kStep = 1024;
    const double share = 1 - static_cast<double>(missing) / static_cast<double>(cache);
    const int context = static_cast<int>(share * r.options->context) / kStep * kStep;
    if (context >= kStep) ways.push_back(fmt::format("use --context {}", context));
  }
  if (r.options->prompt_chunk > 64) ways.emplace_back("use a smaller --prompt-chunk");
  if (r.model->weight_bytes() > missing) {
    ways.push_back(fmt::format("use a model file that is {} smaller", gib_text(missing)));
  } else {
    // Without any weights it would not fit either.
    ways.push_back(fmt::format("lower --context, whose cache takes {}, or use a device with {} more free memory",
                               gib_text(cache), gib_text(missing)));
  }
  std::string out;
  for (size_t i = 0; i < ways.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == ways.size() ? ", or " : ", ", ways[i]);
  }
  return out;
}

Status out_of_memory(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}

Status refuse_forced(const PlanRefusal& r) {
  std::string faults;
  uint64_t missing = 0;
  int first = 0;
  for (size_t stage = 0; stage <= r.options->split.points.size(); ++stage) {
    const int end =
        stage < r.options->split.points.size() ? r.options->split.points[stage] : r.layers;
    const PlanDevice& device = device_at(r, r.usable[stage]);
    const StageCost cost = r.costs->stage(static_cast<size_t>(r.usable[stage]), first, end);
    if (!cost.fits) {
      missing += cost.missing_bytes;
      faults += fmt::format(
          "{}layers {}-{} need {} more than the {} that are free on {}", faults.empty() ? "" : ", ",
          first, end - 1, gib_text(cost.missing_bytes), gib_text(device.free_bytes), device.title);
    }
    first = end;
  }
  return out_of_memory(
      fmt::format("{}: layer split {} does not fit in any order: {}; use --layer-split auto, or {}",
                  r.model->name, r.options->split.text(), faults, remedies(r, missing)));
}

}  // namespace

Status refuse_plan(const PlanRefusal& r) {
  if (!r.options->split.automatic) return refuse_forced(r);
  std::string free;
  uint64_t total = 0;
  for (const int index : r.usable) {
    const PlanDevice& device = device_at(r, index);
    total += device.free_bytes;
    free += fmt::format("{}{} on {}", free.empty() ? "" : ", ", gib_text(device.free_bytes),
                        device.title);
  }
  if (r.usable.size() == 1 || !r.abilities->layer_split) {
    uint64_t missing = UINT64_MAX;
    for (const int index : r.usable) {
      missing =
          std::min(missing, r.costs->stage(static_cast<size_t>(index), 0, r.layers).missing_bytes);
    }
    return out_of_memory(fmt::format("{} does not fit: {} are missing (free: {}); {}",
                                     r.model->name, gib_text(missing), free, remedies(r, missing)));
  }
  const uint64_t needed = needed_bytes(r);
  if (needed > total) {
    const uint64_t missing = needed - total;
    return out_of_memory(
        fmt::format("{} does not fit: {} are missing ({} are needed; free: {}); {}", r.model->name,
                    gib_text(missing), gib_text(needed), free, remedies(r, missing)));
  }
  // Enough in all, but a layer lies on one device.
  uint64_t layer = 0;
  for (int il = 0; il < r.layers; ++il) {
    layer = std::max(layer, r.costs->expert_bytes(il, il + 1) + r.costs->base_bytes(il, il + 1));
  }
  return out_of_memory(fmt::format(
      "{} does not fit: {} are needed and {} are free ({}), but no division into whole "
      "layers of up to {} fits; {}",
      r.model->name, gib_text(needed), gib_text(total), free, gib_text(layer), remedies(r, layer)));
}

}  // namespace strata::engine
