#include "apps/bench_model.h"

#include <algorithm>

#include "backend/cpu/cpu_device.h"
#include "engine/loaded_model.h"

namespace strata::apps {

namespace {

constexpr std::string_view kPleTable = "per_layer_token_embd.weight";
constexpr size_t kPage = 4096;

Status read_weights(const GgufFile& file, uint64_t memory_bytes,
                    const std::function<void(double)>& progress) {
  uint64_t total = 0, done = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name != kPleTable) total += tensor.bytes;
  }
  if (memory_bytes > 0 && total > memory_bytes / 10 * 9) {
    return resource_exhausted(
        "{}: weights of {:.1f} GiB do not fit the {:.1f} GiB of memory, so the disk would be "
        "measured; use a smaller file",
        file.path(), static_cast<double>(total) / (1 << 30),
        static_cast<double>(memory_bytes) / (1 << 30));
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == kPleTable) continue;
    const auto bytes = file.data(tensor);
    if (const MappedFile* mapping = file.mapping(tensor.shard)) {
      mapping->prefetch(tensor.offset, tensor.bytes);
    }
    for (size_t i = 0; i < bytes.size(); i += kPage) {
      (void)*static_cast<const volatile std::byte*>(&bytes[i]);
    }
    done += tensor.bytes;
    progress(static_cast<double>(done) / static_cast<double>(total));
  }
  return {};
}

}  // namespace

Result<BenchModel> BenchModel::load(const engine::EngineOptions& options,
                                    const std::function<void(double)>& progress) {
  BenchModel out;
  STRATA_ASSIGN_OR_RETURN(GgufFile file, engine::open_model_file(options));
  out.file = std::make_shared<const GgufFile>(std::move(file));
  STRATA_ASSIGN_OR_RETURN(out.device, backend::open_cpu_device({.workers = options.workers,
                                                                .kernels = options.kernels,
                                                                .disabled_features = 0}));
  STRATA_ASSIGN_OR_RETURN(out.model, model::Qwen4Exp::load(out.file, *out.device));
  STRATA_RETURN_IF_ERROR(read_weights(*out.file, out.device->caps().memory_bytes, progress));
  return out;
}

}  // namespace strata::apps
