// A model as bench needs it: weights and kernels, no text. Files made for measuring speed hold
// weights of the right shape and no vocabulary that could tokenize anything.
#pragma once

#include <functional>
#include <memory>

#include "backend/device.h"
#include "base/status.h"
#include "engine/loaded_model.h"
#include "engine/options.h"
#include "format/gguf.h"
#include "model/qwen4exp.h"

namespace strata::apps {

struct BenchModel {
  std::shared_ptr<const GgufFile> file;
  std::unique_ptr<engine::LoadedModel> engine;  // placed on its devices; without a text side
  model::Qwen4Exp* model = nullptr;
  backend::Device* device = nullptr;            // of the first layers

  // Opens and checks the file and reads its weights once, but for the n-gram table, so that no
  // measurement waits for the disk. Fails when memory cannot hold them: that would measure the
  // disk. Devices and layers are placed and proved as for serving.
  static Result<BenchModel> load(const engine::EngineOptions& options,
                                 const std::function<void(double done)>& progress);
};

}  // namespace strata::apps
