#include "engine/loaded_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/log.h"
#include "engine/planner/host_memory.h"
#include "engine/planner/measured_devices.h"
#include "engine/planner/plan_text.h"

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

// Shards are found beside the first one; a table named apart must be one of them.
Status check_table_path(const std::string& path, const GgufFile& file) {
  if (path.empty()) return {};
  std::error_code error;
  for (const GgufShard& shard : file.shards()) {
    if (std::filesystem::equivalent(shard.path, path, error)) return {};
  }
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{} is not a shard of {}; the n-gram table must lie in the model's own "
                            "files, side by side",
                            path, file.path()),
                "ple-gguf");
}

// What the matrix products of the file are stored as. The n-gram table is read on the host.
std::vector<QuantType> weight_types(const GgufFile& file) {
  std::vector<QuantType> types;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.shape.size() < 2 || tensor.name == kPleTable) continue;
    if (std::find(types.begin(), types.end(), tensor.type) == types.end()) {
      types.push_back(tensor.type);
    }
  }
  return types;
}

Result<Plan> divide(const EngineOptions& options, const model::Config& config, LoadedModel& loaded,
                    const std::function<void(const std::string&)>& doing) {
  STRATA_ASSIGN_OR_RETURN(const ModelCost cost, ModelCost::read(*loaded.file, config));
  std::optional<ExpertProfile> profile;
  if (!options.expert_profile.empty()) {
    STRATA_ASSIGN_OR_RETURN(profile, ExpertProfile::read(options.expert_profile));
  }
  STRATA_ASSIGN_OR_RETURN(loaded.measured, measure_plan_devices(loaded.set, options, doing));
  PlanOptions wanted;
  wanted.context = loaded.info.context_length;
  wanted.kv_type = options.kv_type;
  wanted.prompt_chunk = options.prompt_chunk;
  wanted.split = options.layer_split;
  wanted.order_as_given = options.order_as_given;
  wanted.skip_split_if_fits = options.skip_split_if_fits;
  wanted.profile = profile ? &*profile : nullptr;
  return make_plan(cost, loaded.measured, wanted, {});
}

Status check_finite(const LoadedModel& loaded, const std::vector<float>& logits) {
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
    return {};
  return failed_precondition(
      "{}: the first forward pass gave a logit that is not finite; the file is damaged or the "
      "kernels "
      "of {} are wrong",
      loaded.info.path,
      loaded.plan ? brief_layers(*loaded.plan) : loaded.set.devices.front()->caps().id);
}

Status prove(LoadedModel& loaded, const EngineOptions& options) {
  // Longer than any convolution tail, and cut where no tail, block or window ends. On real cards
  // more than two whole chunks of a prompt, since that many are under way at a time: what the first
  // long prompt will run has run here, in the memory that it needs.
  const bool cards = std::all_of(loaded.set.devices.begin(), loaded.set.devices.end(), [](auto& d) {
    return !d->shares_host_memory() && !d->caps().id.starts_with("emu");
  });
  constexpr int kFew = 23, kFewChunk = 9;
  constexpr int kTokens = 3;  // launched, then recorded and replayed, then replayed
  const int count = std::max(1, std::min(cards ? 2 * options.prompt_chunk + kFew : kFew,
                                         loaded.info.context_length - kTokens));
  STRATA_ASSIGN_OR_RETURN(memory::SequenceState sequence,
                          loaded.model->new_sequence(options.kv_type, count + kTokens));
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = i % loaded.info.vocabulary;
  std::vector<float> logits;
  STRATA_RETURN_IF_ERROR(loaded.model->read_prompt(
      sequence, tokens, cards ? options.prompt_chunk : kFewChunk, [](int) { return Status(); },
      logits));
  STRATA_RETURN_IF_ERROR(check_finite(loaded, logits));
  const model::BatchItem item{.sequence = &sequence,
                              .tokens = {tokens.data(), 1},
                              .logits = model::LogitsOf::kLastToken,
                              .positions = {},
                              .next_position = 0,
                              .embeddings = {}};
  model::TopLogits top;
  top.k = 1;
  // A model that is loaded to be timed has no text.
  const int known = loaded.text ? loaded.text->valid_tokens() : loaded.info.vocabulary;
  top.valid = std::min(known, backend::TopKLogitsArgs::kMostTokens);
  for (int i = 0; i < kTokens; ++i) {
    if (i + 1 < kTokens) {
      STRATA_RETURN_IF_ERROR(loaded.model->forward({&item, 1}, logits));
    } else {
      STRATA_RETURN_IF_ERROR(loaded.model->forward({&item, 1}, top));
      STRATA_RETURN_IF_ERROR(loaded.model->fetch_logits(logits));
    }
    STRATA_RETURN_IF_ERROR(check_finite(loaded, logits));
  }
  const auto best = std::max_element(logits.begin(), logits.begin() + top.valid) - logits.begin();
  if (top.tokens[0] == best) return {};
  return failed_precondition(
      "{}: token {} has the largest logit of a step, but {} says token {}; its kernels are wrong, run "
      "with kernels=reference for it and report this with what `strata doctor` prints",
      loaded.info.path, best, loaded.model->places().back().device->caps().id, top.tokens[0]);
}

// The layer that a tensor belongs to ("blk.7.attn_q.weight"); -1: to none.
int layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int layer = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer;
}

// Brings what the CPU's stages read into memory of this process.
Status copy_weights(GgufFile& file, std::span<const memory::LayerPlace> places,
                    const LoadProgress& progress) {
  std::vector<const TensorInfo*> wanted;
  uint64_t total = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == kPleTable) continue;
    const int layer = layer_of(tensor.name);
    const bool used = std::any_of(places.begin(), places.end(), [&](const memory::LayerPlace& p) {
      return p.device->shares_host_memory() && (layer < 0 || (layer >= p.first && layer < p.end));
    });
    if (!used) continue;
    wanted.push_back(&tensor);
    total += tensor.bytes;
  }
  const uint64_t available = available_ram();
  if (available > 0 && total > available) {
    return resource_exhausted(
        "{}: --load ram copies {:.1f} GiB of weights, but only {:.1f} GiB of memory are available; use "
        "--load mmap, which reads them where the file is mapped",
        file.path(), static_cast<double>(total) / (1u << 30),
        static_cast<double>(available) / (1u << 30));
  }
  log::info("copying {:.2f} GiB of weights into memory (--load ram)",
            static_cast<double>(total) / (1u << 30));
  return file.copy_to_memory(wanted, [&](uint64_t done) {
    progress(static_cast<double>(done) / static_cast<double>(total), "copying weights");
  });
}

}  // namespace

Result<GgufFile> open_model_file(const EngineOptions& options) {
  if (!options.model_path.empty()) {
    STRATA_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(options.model_path));
    STRATA_RETURN_IF_ERROR(check_table_path(options.table_path, file));
    return file;
  }
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
  loaded->file = std::make_shared<GgufFile>(std::move(file));
  STRATA_ASSIGN_OR_RETURN(const model::Config config, model::Config::read(*loaded->file));
  progress(0.0, "reading the vocabulary");
  STRATA_ASSIGN_OR_RETURN(ModelText text, ModelText::read(*loaded->file));
  loaded->text = std::make_unique<ModelText>(std::move(text));
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
  STRATA_ASSIGN_OR_RETURN(const auto chat_template,
                          loaded->file->find<std::string_view>("tokenizer.chat_template"));
  info.chat_template = chat_template.value_or("");
  const text::Tokenizer& tokenizer = loaded->text->tokenizer();
  if (const auto bos = tokenizer.bos()) info.bos_token = tokenizer.token_bytes(*bos);
  if (const auto eos = tokenizer.eos()) info.eos_token = tokenizer.token_bytes(*eos);
  info.sampling_defaults = loaded->text->sampling_defaults();
  if (info.context_length > config.context) {
    log::warn("a context of {} tokens is longer than the {} the model was trained for",
              info.context_length, config.context);
  }
  if (loaded->text->valid_tokens() > config.vocabulary) {
    return failed_precondition("{}: the tokenizer has {} tokens but the head only {} rows",
                               info.path, loaded->text->valid_tokens(), config.vocabulary);
  }

  STRATA_RETURN_IF_ERROR(loaded->place(options, progress));
  return loaded;
}

int LoadedModel::prompt_chunk(int tokens, int most) const {
  if (!plan || plan->stages.size() == 1) return most;
  return std::clamp(cut_prompt(*plan, tokens).tokens, 1, most);
}

Status LoadedModel::place(const EngineOptions& options, const LoadProgress& progress) {
  if (!options.devices.empty()) return place_on(options, progress);
  EngineOptions found = options;
  found.devices = usable_cards(options);
  if (!found.devices.empty()) {
    const Status status = place_on(found, progress);
    if (status.code() != StatusCode::kResourceExhausted) return status;
    log::warn("{}; the CPU computes instead", status.message());
  }
  found.devices = {{.id = "cpu", .target = {}, .kernels = options.kernels}};
  return place_on(found, progress);
}

Status LoadedModel::place_on(const EngineOptions& options, const LoadProgress& progress) {
  model.reset();
  plan.reset();
  measured.clear();
  set = {};
  placed = options.devices;
  STRATA_ASSIGN_OR_RETURN(set, open_devices(options));
  const auto doing = [&](const std::string& what) { progress(0.0, what); };
  STRATA_RETURN_IF_ERROR(prove_devices(set, weight_types(*file), doing));
  STRATA_ASSIGN_OR_RETURN(const model::Config config, model::Config::read(*file));
  std::vector<memory::LayerPlace> places;
  if (set.devices.size() == 1 && set.devices.front()->shares_host_memory()) {
    places.push_back({set.devices.front().get(), 0, config.layers});
  } else {
    STRATA_ASSIGN_OR_RETURN(plan, divide(options, config, *this, doing));
    for (const PlanStage& stage : plan->stages) {
      places.push_back({set.devices[stage.device].get(), stage.first, stage.last + 1});
    }
    log::info("{}", plan->order);
    log::info("{}", split_line(*plan));
    log::info("{}", layers_line(*plan));
    for (const std::string& warning : plan->warnings) log::warn("{}", warning);
  }
  if (options.weight_memory == WeightMemory::kCopied) {
    STRATA_RETURN_IF_ERROR(copy_weights(*file, places, progress));
  }
  if (places.size() > 1) progress(0.0, "testing the copies between the devices");
  routes = prove_routes(places);
  std::vector<model::Route> ways;
  for (const ProvedRoute& proved : routes) {
    ways.push_back(proved.route);
    log::info("{}", proved.line());
  }
  progress(0.0, "placing the weights");
  STRATA_ASSIGN_OR_RETURN(model, model::Qwen4Exp::load(file, places, ways));
  model->set_qsa_form(options.qsa_form);
  for (const memory::LayerPlace& place : places) {
    if (!place.device->shares_host_memory()) continue;
    read_ahead(*file, place.device->caps().memory_bytes, progress);
    break;
  }
  progress(1.0, "proving the kernels");
  return prove(*this, options);
}

}  // namespace strata::engine
