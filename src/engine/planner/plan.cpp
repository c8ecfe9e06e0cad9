#include <algorithm>
#include <cmath>

#include "engine/planner/planner.h"

namespace strata::engine {

uint64_t PlanStage::used_bytes() const {
  return dense_bytes + expert_bytes + embedding_bytes + head_bytes + draft_bytes + cache_bytes +
         state_bytes + workspace_bytes - (cpu ? disk_bytes : 0);
}

std::vector<int> Plan::split_points() const {
  std::vector<int> points;
  for (size_t i = 1; i < stages.size(); ++i) points.push_back(stages[i].first);
  return points;
}

int64_t Plan::pairs() const {
  int64_t sum = 0;
  for (const PlanStage& stage : stages) sum += stage.pairs;
  return sum;
}

int64_t Plan::resident_pairs() const {
  int64_t sum = 0;
  for (const PlanStage& stage : stages) sum += stage.resident_pairs;
  return sum;
}

double Plan::resident_mass() const {
  double sum = 0;
  for (const PlanStage& stage : stages) sum += stage.resident_mass * (stage.last - stage.first + 1);
  return layers > 0 ? sum / layers : 1;
}

PromptCut cut_prompt(const Plan& plan, int prompt_tokens, bool pipeline) {
  const auto chunk_ms = [&](const PlanStage& stage, double rows) {
    // Between the points of the curve times grow as a line does.
    double left = 1;
    for (size_t i = 0; i < stage.chunk_curve.size(); ++i, left *= 2) {
      const bool last = i + 1 == stage.chunk_curve.size();
      const double right = last ? plan.chunk : left * 2;
      const double high = last ? stage.chunk_ms : stage.chunk_curve[i + 1];
      if (rows <= right) {
        return stage.chunk_curve[i] +
               (high - stage.chunk_curve[i]) * (rows - left) / (right - left);
      }
    }
    return stage.chunk_ms;
  };
  const int most = std::min(plan.chunk, prompt_tokens);
  PromptCut best;
  const auto consider = [&](int rows) {
    const double pieces = std::ceil(static_cast<double>(prompt_tokens) / rows);
    double sum = 0, peak = 0;
    for (const PlanStage& stage : plan.stages) {
      const double ms = chunk_ms(stage, rows);
      const double travelling = stage.handoff_ms * rows / plan.chunk;
      sum += ms;
      peak = std::max({peak, ms - travelling, travelling});
    }
    const double ms = pipeline ? sum + (pieces - 1) * peak : pieces * sum;
    if (best.tokens == 0 || ms < best.ms) best = {rows, ms};
  };
  if (most < 1) return best;
  consider(most);
  for (int rows = 1; rows < most; rows *= 2) consider(rows);
  return best;
}

}  // namespace strata::engine
