#include "apps/bench_model.h"

namespace strata::apps {

namespace {

constexpr std::string_view kPleTable = "per_layer_token_embd.weight";

// Weights beyond memory would have the disk measured.
Status check_memory(const GgufFile& file, const backend::Device& device) {
  if (!device.shares_host_memory()) return {};
  const uint64_t memory = device.caps().memory_bytes;
  uint64_t total = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name != kPleTable) total += tensor.bytes;
  }
  if (memory == 0 || total <= memory / 10 * 9) return {};
  return resource_exhausted(
      "{}: weights of {:.1f} GiB do not fit the {:.1f} GiB of memory, so the disk would be measured; "
      "use a smaller file",
      file.path(), static_cast<double>(total) / (1 << 30), static_cast<double>(memory) / (1 << 30));
}

}  // namespace

Result<BenchModel> BenchModel::load(const engine::EngineOptions& options,
                                    const std::function<void(double)>& progress) {
  BenchModel out;
  STRATA_ASSIGN_OR_RETURN(GgufFile file, engine::open_model_file(options));
  const auto shared = std::make_shared<GgufFile>(std::move(file));
  out.file = shared;
  STRATA_ASSIGN_OR_RETURN(const model::Config config, model::Config::read(*out.file));
  out.engine = std::make_unique<engine::LoadedModel>();
  out.engine->file = shared;
  out.engine->info.path = out.file->path();
  out.engine->info.vocabulary = config.vocabulary;
  out.engine->info.context_length = options.context > 0 ? options.context : config.context;
  STRATA_RETURN_IF_ERROR(
      out.engine->place(options, [&](double done, const std::string&) { progress(done); }));
  out.model = out.engine->model.get();
  out.device = out.model->places().front().device;
  STRATA_RETURN_IF_ERROR(check_memory(*out.file, *out.device));
  return out;
}

}  // namespace strata::apps
