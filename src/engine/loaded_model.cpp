#include "engine/loaded_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "backend/cpu/cpu_device.h"
#include "base/log.h"

namespace strata::engine {

namespace {

constexpr std::string_view kPleTable = "per_layer_token_embd.weight";

// Reads the weights once, so that the first request does not wait for the disk. The n-gram table
// stays on disk, and so does everything when the file is larger than memory could hold.
void read_ahead(const GgufFile& file, uint64_t memory_bytes, const LoadProgress& progress) {
  uint64_t total = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name != kPleTable) total += tensor.bytes;
  }
  if (total > memory_bytes / 10 * 9) {
    log::warn("weights of {:.1f} GiB exceed memory; pages are read from the file as needed",
              static_cast<double>(total) / (1u << 30));
    return;
  }
  constexpr size_t kPage = 4096;
  constexpr uint64_t kReport = uint64_t{64} << 20;
  uint64_t done = 0, reported = 0;
  unsigned sink = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == kPleTable) continue;
    const auto bytes = file.data(tensor);
    if (const MappedFile* mapping = file.mapping(tensor.shard)) {
      mapping->prefetch(tensor.offset, tensor.bytes);
    }
    for (size_t i = 0; i < bytes.size(); i += kPage) {
      sink += static_cast<unsigned>(*static_cast<const volatile std::byte*>(&bytes[i]));
    }
    done += tensor.bytes;
    if (done - reported >= kReport || done == total) {
      reported = done;
      progress(static_cast<double>(done) / static_cast<double>(total), "reading weights");
    }
  }
  (void)sink;
}

std::string default_id(const GgufFile& file) {
  const auto name = file.find<std::string_view>("general.name");
  if (name.ok() && name.value()) {
    std::string id(*name.value());
    std::replace(id.begin(), id.end(), ' ', '-');
    return id;
  }
  return std::filesystem::path(file.path()).stem().string();
}

Status prove(LoadedModel& loaded, backend::KvType kv_type) {
  // Longer than any convolution tail, and cut where no tail, block or window ends.
  constexpr int kTokens = 23;
  const int cuts[] = {9, 13, 1};
  STRATA_ASSIGN_OR_RETURN(memory::SequenceState sequence,
                          loaded.model->new_sequence(kv_type, kTokens));
  std::vector<TokenId> tokens(kTokens);
  for (int i = 0; i < kTokens; ++i) tokens[static_cast<size_t>(i)] = i % loaded.info.vocabulary;
  std::vector<float> logits;
  size_t begin = 0;
  for (const int count : cuts) {
    const model::BatchItem item{
        .sequence = &sequence,
        .tokens = std::span(tokens).subspan(begin, static_cast<size_t>(count)),
        .logits = model::LogitsOf::kLastToken,
        .positions = {},
        .next_position = 0,
        .embeddings = {}};
    STRATA_RETURN_IF_ERROR(loaded.model->forward({&item, 1}, logits));
    for (const float logit : logits) {
      if (!std::isfinite(logit)) {
        return failed_precondition(
            "{}: the first forward pass gave a logit that is not finite; the file is damaged or "
            "the kernels of {} are wrong",
            loaded.info.path, loaded.device->caps().id);
      }
    }
    begin += static_cast<size_t>(count);
  }
  return {};
}

}  // namespace

Result<GgufFile> open_model_file(const EngineOptions& options) {
  if (!options.model_path.empty()) return GgufFile::open(options.model_path);
  if (options.model_bytes.empty()) {
    return Status(StatusCode::kInvalidArgument, "no model was named; give the path of a GGUF file",
                  "model_path");
  }
  const std::string name = options.model_id.empty()
                               ? "the embedded model"
                               : fmt::format("the embedded model {}", options.model_id);
  return GgufFile::from_bytes({{name, options.model_bytes}});
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const EngineOptions& options,
                                                       const LoadProgress& progress) {
  auto loaded = std::make_unique<LoadedModel>();
  progress(0.0, "opening");
  STRATA_ASSIGN_OR_RETURN(GgufFile file, open_model_file(options));
  loaded->file = std::make_shared<const GgufFile>(std::move(file));
  STRATA_ASSIGN_OR_RETURN(
      loaded->device,
      backend::open_cpu_device(
          {.workers = options.workers, .kernels = options.kernels, .disabled_features = 0}));
  STRATA_ASSIGN_OR_RETURN(loaded->model, model::Qwen4Exp::load(loaded->file, *loaded->device));
  progress(0.0, "reading the vocabulary");
  STRATA_ASSIGN_OR_RETURN(ModelText text, ModelText::read(*loaded->file));
  loaded->text = std::make_unique<ModelText>(std::move(text));
  loaded->model->set_qsa_form(options.qsa_form);

  const model::Config& config = loaded->model->config();
  ModelInfo& info = loaded->info;
  info.id = options.model_id.empty() ? default_id(*loaded->file) : options.model_id;
  info.path = loaded->file->path();
  info.architecture = "qwen4exp";
  for (const TensorInfo& tensor : loaded->file->tensors()) {
    info.parameters += static_cast<uint64_t>(tensor.elems());
  }
  for (const GgufShard& shard : loaded->file->shards()) info.file_bytes += shard.bytes;
  info.trained_context = config.context;
  info.context_length = options.context > 0 ? options.context : config.context;
  info.vocabulary = config.vocabulary;
  info.has_chat_template = loaded->text->has_chat_template();
  if (info.context_length > config.context) {
    log::warn("a context of {} tokens is longer than the {} the model was trained for",
              info.context_length, config.context);
  }
  if (loaded->text->valid_tokens() > config.vocabulary) {
    return failed_precondition("{}: the tokenizer has {} tokens but the head only {} rows",
                               info.path, loaded->text->valid_tokens(), config.vocabulary);
  }

  read_ahead(*loaded->file, loaded->device->caps().memory_bytes, progress);
  progress(1.0, "proving the kernels");
  STRATA_RETURN_IF_ERROR(prove(*loaded, options.kv_type));
  return loaded;
}

}  // namespace strata::engine
