#include "apps/model_source.h"

#include "apps/embedded_model.h"
#include "engine/loaded_model.h"

namespace strata::apps {

engine::EngineOptions engine_options(const Settings& settings) {
  engine::EngineOptions options = settings.engine;
  options.model_path = settings.model;
  options.table_path = settings.table_file;
  options.model_id = settings.alias;
  if (settings.model.empty()) {
    options.model_bytes = embedded_model();
    if (options.model_id.empty()) options.model_id = kEmbeddedModelId;
  }
  return options;
}

Result<GgufFile> open_model_file(const Settings& settings) {
  return engine::open_model_file(engine_options(settings));
}

}  // namespace strata::apps
