// What users read of a plan: the lines at start, which tools know by their shape, the table of
// `strata plan`, and the JSON form for /v1/status.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/planner/planner.h"

namespace strata::engine {

// "12.3 GiB", "340 MiB"
std::string gib_text(uint64_t bytes);

// "layer split auto: K=34 predicted 32.4 ms per decode window; the caches hold 19023 of 24576
// profiled pairs (~99.3% of the routed mass)". "given" stands for "auto" where the user chose the
// split, "K=none" where one device runs everything, and "pairs" for "profiled pairs" without a
// profile.
std::string split_line(const Plan& plan);

// "layers 0-33 (hip:0 gfx1100 ...), 34-47 (hip:1 gfx1030 ...), one hand-off per window"
std::string layers_line(const Plan& plan);

// "hip:0 0-33, hip:1 34-47"
std::string brief_layers(const Plan& plan);

// The plan as a table, then order, rejected alternatives and warnings; many lines.
std::string plan_table(const Plan& plan);

nlohmann::ordered_json plan_json(const Plan& plan);

struct MeasuredSpeed {
  std::optional<double> decode_ms;  // per window, about kDecodeDepth tokens into a sequence or less
  std::optional<double> prompt_tok_s;  // of a prompt of about Plan::prompt_tokens
};

// A sentence when a measurement is off its prediction by more than a quarter, slower or faster;
// empty otherwise. Ratios, so that twice as fast is as far off as half as fast.
std::optional<std::string> compare_prediction(const Plan& plan, const MeasuredSpeed& measured);

}  // namespace strata::engine
