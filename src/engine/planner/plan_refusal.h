// Why no plan holds a model, in a sentence: how much memory is missing where, and what helps.
#pragma once

#include <span>
#include <vector>

#include "engine/planner/planner.h"
#include "engine/planner/stage_cost.h"

namespace strata::engine {

struct PlanRefusal {
  const ModelCost* model = nullptr;
  std::span<const PlanDevice> devices;
  std::vector<int> usable;  // devices that may be stages
  const PlanOptions* options = nullptr;
  const EngineAbilities* abilities = nullptr;
  const StageCosts* costs = nullptr;  // with the smallest chunk
  int layers = 0;
};

Status refuse_plan(const PlanRefusal& refusal);

}  // namespace strata::engine
