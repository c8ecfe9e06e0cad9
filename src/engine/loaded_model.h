// A model file made ready to compute: text side, weights on the device, one proved forward pass.
#pragma once

#include <functional>
#include <memory>

#include "backend/device.h"
#include "engine/engine.h"
#include "engine/model_text.h"
#include "engine/options.h"
#include "model/qwen4exp.h"

namespace strata::engine {

// Told what is being done and how far it is, 0..1.
using LoadProgress = std::function<void(double done, const std::string& what)>;

// The file that the options mean: model_path or, when that is empty, model_bytes.
Result<GgufFile> open_model_file(const EngineOptions& options);

struct LoadedModel {
  std::shared_ptr<const GgufFile> file;
  std::unique_ptr<backend::Device> device;  // declared before what lives on it
  std::unique_ptr<ModelText> text;
  std::unique_ptr<model::Qwen4Exp> model;
  ModelInfo info;

  // Opens, checks, reads and proves. Ready means proved: a prompt of two chunks and a decode step
  // have run through the real kernels with finite logits.
  static Result<std::unique_ptr<LoadedModel>> load(const EngineOptions& options,
                                                   const LoadProgress& progress);
};

}  // namespace strata::engine
