// A model file made ready to compute: text side, weights on their devices, one proved forward pass.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "engine/devices.h"
#include "engine/engine.h"
#include "engine/handoff_routes.h"
#include "engine/model_text.h"
#include "engine/options.h"
#include "engine/planner/planner.h"
#include "model/qwen4exp.h"

namespace strata::engine {

// Told what is being done and how far it is, 0..1.
using LoadProgress = std::function<void(double done, const std::string& what)>;

// The file that the options mean: model_path or, when that is empty, model_bytes.
Result<GgufFile> open_model_file(const EngineOptions& options);

struct LoadedModel {
  std::shared_ptr<GgufFile> file;
  std::unique_ptr<ModelText> text;
  ModelInfo info;

  std::vector<backend::DeviceRequest> placed;  // what `set` was opened from
  DeviceSet set;             // declared before what lives on it
  std::optional<Plan> plan;  // where the layers lie and why; absent for the CPU alone
  std::vector<PlanDevice> measured;  // what the plan was made from, one per device of `set`
  std::vector<ProvedRoute> routes;  // between the stages, one fewer than these
  std::unique_ptr<model::Qwen4Exp> model;

  // Opens, checks, reads and proves. Ready means proved: the kernels of every device have passed
  // their self-tests, and a prompt of two chunks and decode steps, launched and replayed, have run
  // through the real placement with finite logits.
  static Result<std::unique_ptr<LoadedModel>> load(const EngineOptions& options,
                                                   const LoadProgress& progress);

  // Tokens per step for a prompt of this length: `most`, or fewer where several stages share it.
  int prompt_chunk(int tokens, int most) const;

  // Opens the devices of `options` (or finds some), divides the layers among them, reads and proves,
  // in place of the devices and the model there were. Text and info stay. After a failure there is
  // no model.
  Status place(const EngineOptions& options, const LoadProgress& progress);

 private:
  Status place_on(const EngineOptions& options, const LoadProgress& progress);
};

}  // namespace strata::engine
