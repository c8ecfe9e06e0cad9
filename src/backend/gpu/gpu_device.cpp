#include "backend/gpu/gpu_device.h"

#include <algorithm>

#include "backend/gpu/drivers/rows.h"
#include "backend/gpu/gpu_lane.h"
#include "backend/gpu/kernels/checksum_params.h"

namespace strata::gpu {

using backend::Buffer;
using backend::KernelSpec;

namespace {

size_t slot(ImageKey key, int types, int variants) {
  const size_t type = key.type == kAnyType ? static_cast<size_t>(types) - 1 : key.type;
  return (static_cast<size_t>(key.kernel) * static_cast<size_t>(types) + type) *
             static_cast<size_t>(variants) +
         key.variant;
}

std::string key_text(ImageKey key) {
  std::string text = kernel_name(key.kernel);
  if (key.type < kQuantTypeCount) {
    text += fmt::format(" {}", quant_info(static_cast<QuantType>(key.type)).name);
  }
  if (key.variant != 0) text += fmt::format(" form {}", key.variant);
  return text;
}

double mib(uint64_t bytes) { return static_cast<double>(bytes) / (1u << 20); }

// What is compiled in, for a card that it does not serve.
std::string groups_of(const ImageList& images) {
  std::vector<std::string> groups;
  for (const KernelImage& image : images) {
    if (std::find(groups.begin(), groups.end(), image.group) == groups.end()) {
      groups.emplace_back(image.group);
    }
  }
  return groups.empty() ? "none" : fmt::format("{}", fmt::join(groups, ", "));
}

backend::FeatureSet features_of(const std::string& group) {
  if (group == "sm80" || group == "sm90" || group == "sm120") return kGpuMmaS8;
  if (group == "gfx11") return kGpuWmmaS8Gfx11;
  if (group == "gfx12") return kGpuWmmaS8Gfx12;
  return 0;
}

}  // namespace

void ImageTable::add(const KernelImage* image) {
  slots_[slot(image->key, kTypes, kVariants)] = image;
}

const KernelImage* ImageTable::find(ImageKey key) const {
  if (key.variant >= kVariants) return nullptr;
  return slots_[slot(key, kTypes, kVariants)];
}

backend::Device& GpuStream::device() { return device_; }

void GpuStream::mark(const char* what, int index) { mark_ = {what, index}; }

std::string Mark::text() const {
  if (*what == '\0') return "";
  return index < 0 ? fmt::format(" in the {}", what) : fmt::format(" in {} {}", what, index);
}

std::string Launches::Launch::text() const { return key_text(key) + mark.text(); }

std::string Launches::text() const {
  if (count == 0) return "";
  if (count == 1) return fmt::format("; the fault lies in {}", first.text());
  if (steps < 2) {
    return fmt::format(
        "; the fault lies in one of {} kernels launched since it was last well, from {} to {}", count,
        first.text(), last.text());
  }
  return fmt::format(
      "; the fault lies in one of {} kernels of {} steps launched since it was last well, from {} to "
      "{} of the last step",
      count, steps, first.text(), last.text());
}

Launches GpuStream::unfinished() const {
  Launches out;
  const uint64_t done = done_number_.load(std::memory_order_acquire);
  for (const Step& step : steps_) {
    if (step.number > done) out.add(step.launches);
  }
  return out;
}

void GpuStream::add_unfinished(const Launches& launches) {
  if (steps_.empty() || steps_.back().number != next_number_) steps_.push_back({next_number_, {}});
  Launches& step = steps_.back().launches;
  step.add(launches);
  step.steps = 1;
}

uint64_t GpuStream::place_number() {
  const uint64_t done = done_number_.load(std::memory_order_acquire);
  std::erase_if(steps_, [&](const Step& step) { return step.number <= done; });
  return next_number_++;
}

void GpuStream::known_done(uint64_t place_number) {
  uint64_t known = done_number_.load(std::memory_order_relaxed);
  while (known < place_number && !done_number_.compare_exchange_weak(
                                     known, place_number, std::memory_order_release)) {
  }
}

Status GpuStream::refuse_recorded(const char* doing) const {
  if (recorded_ == nullptr) return {};
  return internal_error("{}: {}{} while work is recorded, which can hold launches only",
                        device_.title(), doing, place());
}

Result<const KernelImage*> GpuStream::image(ImageKey key) {
  const KernelImage* found = device_.images().find(key);
  if (found == nullptr) {
    return failed_precondition(
        "{}: this build has no image of {} for {}; build with it (STRATA_QUANTS, "
        "STRATA_GPU_GROUPS)",
        device_.title(), key_text(key), device_.facts().group);
  }
  return found;
}

Result<void*> GpuStream::scratch(size_t bytes) {
  if (scratch_.size() < bytes) {
    STRATA_RETURN_IF_ERROR(refuse_recorded("memory is asked for"));
    STRATA_RETURN_IF_ERROR(synchronize());
    ++scratch_changes_;
    scratch_ = Buffer();
    STRATA_ASSIGN_OR_RETURN(scratch_, device_.allocate(bytes + bytes / 4));
  }
  return scratch_.data();
}

Status GpuStream::launch_raw(ImageKey key, Grid grid, const void* params, size_t params_bytes,
                             int shared_bytes) {
  STRATA_ASSIGN_OR_RETURN(const KernelImage* found, image(key));
  if (static_cast<size_t>(found->params_bytes) != params_bytes) {
    return internal_error("{}: {} takes {} bytes of parameters, the driver gave {}",
                          device_.title(), key_text(key), found->params_bytes, params_bytes);
  }
  const RuntimeResult result = device_.runtime().launch(
      device_.ordinal(), stream_, *found, grid, found->shape.shared_bytes + shared_bytes, params);
  if (!result.ok()) {
    return device_.failure(result, fmt::format("launching {}{}", key_text(key), place()));
  }
  const Launches::Launch launch{key, mark_};
  const Launches one{.count = 1, .steps = 1, .first = launch, .last = launch};
  if (recorded_ != nullptr) {
    recorded_->add(one);
  } else {
    add_unfinished(one);
  }
  return {};
}

Status GpuStream::synchronize() {
  STRATA_RETURN_IF_ERROR(refuse_recorded("waiting"));
  const RuntimeResult result = device_.runtime().synchronize(device_.ordinal(), stream_);
  if (!result.ok()) return device_.failure(result, "waiting for its work" + place());
  steps_.clear();
  return {};
}

bool GpuStream::waits_for_host() const { return device_.waits_for_host(); }

Status GpuStream::wait_for_host(const uint32_t* flag, uint32_t value) {
  STRATA_RETURN_IF_ERROR(refuse_recorded("waiting"));
  const RuntimeResult result =
      device_.runtime().wait_for_host(device_.ordinal(), stream_, flag, value);
  return result.ok() ? Status() : device_.failure(result, "holding back its work" + place());
}

Status GpuStream::set_flag(uint32_t* flag, uint32_t value) {
  STRATA_RETURN_IF_ERROR(refuse_recorded("setting a flag"));
  const RuntimeResult result =
      device_.runtime().set_flag(device_.ordinal(), stream_, flag, value);
  return result.ok() ? Status() : device_.failure(result, "ending its work" + place());
}

// Launches as the runtime recorded them.
class GpuRecording final : public backend::Recording {
 public:
  GpuRecording(GpuStream& stream, RuntimeGraph graph, const Launches& launches)
      : stream_(stream), graph_(graph), launches_(launches), scratch_(stream.scratch_changes_) {}
  ~GpuRecording() override {
    GpuDevice& device = stream_.gpu();
    if (graph_ != nullptr) (void)device.runtime().destroy_graph(device.ordinal(), graph_);
  }

  Status replay() override {
    if (graph_ == nullptr) return {};
    GpuDevice& device = stream_.gpu();
    const RuntimeResult result =
        device.runtime().run_graph(device.ordinal(), stream_.stream_, graph_);
    if (!result.ok()) {
      return device.failure(result, fmt::format("launching {} recorded kernels, from {} to {}",
                                                launches_.count, launches_.first.text(),
                                                launches_.last.text()));
    }
    stream_.add_unfinished(launches_);
    return {};
  }
  bool valid() const override { return scratch_ == stream_.scratch_changes_; }

 private:
  GpuStream& stream_;
  const RuntimeGraph graph_;  // null when nothing was launched
  const Launches launches_;
  const uint64_t scratch_;
};

bool GpuStream::records() const { return device_.records(); }

Result<std::unique_ptr<backend::Recording>> GpuStream::record(
    const std::function<Status()>& work) {
  if (!records()) return Stream::record(work);
  STRATA_RETURN_IF_ERROR(refuse_recorded("recording"));
  Runtime& runtime = device_.runtime();
  RuntimeResult result = runtime.begin_recording(device_.ordinal(), stream_);
  if (!result.ok()) return device_.failure(result, "beginning to record" + place());
  Launches launches;
  recorded_ = &launches;
  const Status status = work();
  recorded_ = nullptr;
  RuntimeGraph graph = nullptr;
  result = runtime.end_recording(device_.ordinal(), stream_, graph);
  // Made first, so that whatever was recorded is given back.
  auto recording = std::make_unique<GpuRecording>(*this, graph, launches);
  STRATA_RETURN_IF_ERROR(status);
  if (!result.ok()) return device_.failure(result, "recording" + place());
  return std::unique_ptr<backend::Recording>(std::move(recording));
}

GpuDevice::~GpuDevice() {
  if (stream_ != nullptr) {
    (void)runtime_->synchronize(ordinal_, stream_->raw());
    const RuntimeStream raw = stream_->raw();
    stream_.reset();
    (void)runtime_->destroy_stream(ordinal_, raw);
  }
}

Status GpuDevice::failure(const RuntimeResult& result, const std::string& doing) const {
  return failure(result, doing, stream_ != nullptr ? stream_->unfinished() : Launches{});
}

Status GpuDevice::failure(const RuntimeResult& result, const std::string& doing,
                          const Launches& unfinished) const {
  const std::string text = fmt::format("{}: {} while {}", title_, result.text, doing);
  if (result.sticky) return {StatusCode::kUnavailable, text + unfinished.text()};
  switch (result.fault) {
    case RuntimeFault::kOutOfMemory: return {StatusCode::kResourceExhausted, text};
    case RuntimeFault::kNoImage: return {StatusCode::kFailedPrecondition, text};
    default: return {StatusCode::kUnavailable, text};
  }
}

Result<uint64_t> GpuDevice::free_bytes() {
  uint64_t free_now = 0, total = 0;
  const RuntimeResult result = runtime_->memory_info(ordinal_, free_now, total);
  if (!result.ok()) return failure(result, "asking for free memory" + stream_->place());
  free_now -= std::min(free_now, options_.reserve_bytes);
  if (options_.memory_limit_bytes > 0) {
    free_now = std::min(
        free_now, options_.memory_limit_bytes - std::min(options_.memory_limit_bytes, allocated_));
  }
  return free_now;
}

Result<Buffer> GpuDevice::allocate(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 16);
  STRATA_ASSIGN_OR_RETURN(const uint64_t available, free_bytes());
  const auto no_room = [&](const std::string& why) {
    return resource_exhausted(
        "{}: {:.1f} MiB do not fit: {:.1f} MiB are free{}; use a smaller context or model file, or "
        "raise vram-limit-mib or lower reserve-mib of this device",
        title_, mib(size), mib(available), why);
  };
  if (size > available) return no_room("");
  void* data = nullptr;
  const RuntimeResult result = runtime_->allocate(ordinal_, size, data);
  if (result.fault == RuntimeFault::kOutOfMemory) return no_room(" (" + result.text + ")");
  if (!result.ok()) return failure(result, fmt::format("allocating {:.1f} MiB{}", mib(size),
                                                        stream_->place()));
  allocated_ += size;
  Buffer buffer(this, data, size);
  STRATA_RETURN_IF_ERROR(zero(data, size));
  return buffer;
}

Result<std::shared_ptr<void>> GpuDevice::allocate_host(size_t bytes) {
  void* data = nullptr;
  const RuntimeResult result =
      runtime_->allocate_pinned(ordinal_, std::max<size_t>(bytes, 1), data);
  if (!result.ok()) {
    return failure(result, fmt::format("pinning {:.1f} MiB of host memory{}", mib(bytes),
                                       stream_->place()));
  }
  const auto release = [runtime = runtime_, ordinal = ordinal_](void* pinned) {
    (void)runtime->release_pinned(ordinal, pinned);
  };
  return std::shared_ptr<void>(data, release);
}

void GpuDevice::release(void* data, size_t bytes) {
  // Work in flight may still use it.
  if (stream_ != nullptr) (void)runtime_->synchronize(ordinal_, stream_->raw());
  (void)runtime_->release(ordinal_, data);
  allocated_ -= bytes;
}

Status GpuDevice::copy_to_device(void* device_dst, const void* host_src, size_t bytes) {
  if (bytes == 0) return {};
  STRATA_RETURN_IF_ERROR(stream_->refuse_recorded("copying"));
  const RuntimeResult result =
      runtime_->copy(ordinal_, stream_->raw(), device_dst, host_src, bytes, CopyKind::kToDevice);
  return result.ok() ? Status() : failure(result, fmt::format("copying {} bytes to it{}", bytes,
                                                           stream_->place()));
}

Status GpuDevice::copy_to_host(void* host_dst, const void* device_src, size_t bytes) {
  if (bytes == 0) return {};
  STRATA_RETURN_IF_ERROR(start_copy_to_host(host_dst, device_src, bytes));
  return stream_->synchronize();
}

Status GpuDevice::start_copy_to_host(void* host_dst, const void* device_src, size_t bytes) {
  if (bytes == 0) return {};
  STRATA_RETURN_IF_ERROR(stream_->refuse_recorded("copying"));
  const RuntimeResult result =
      runtime_->copy(ordinal_, stream_->raw(), host_dst, device_src, bytes, CopyKind::kToHost);
  return result.ok() ? Status() : failure(result, fmt::format("copying {} bytes from it{}", bytes,
                                                              stream_->place()));
}

Status GpuDevice::copy_on_device(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return {};
  STRATA_RETURN_IF_ERROR(stream_->refuse_recorded("copying"));
  const RuntimeResult result =
      runtime_->copy(ordinal_, stream_->raw(), dst, src, bytes, CopyKind::kOnDevice);
  return result.ok() ? Status() : failure(result, fmt::format("copying {} bytes on it{}", bytes,
                                                           stream_->place()));
}

Status GpuDevice::zero(void* device_dst, size_t bytes) {
  if (bytes == 0) return {};
  STRATA_RETURN_IF_ERROR(stream_->refuse_recorded("clearing"));
  const RuntimeResult result = runtime_->fill_zero(ordinal_, stream_->raw(), device_dst, bytes);
  return result.ok() ? Status() : failure(result, fmt::format("clearing {} bytes on it{}", bytes,
                                                           stream_->place()));
}

Result<std::unique_ptr<backend::CopyLane>> GpuDevice::make_copy_lane() {
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<GpuLane> lane, GpuLane::make(*this));
  return std::unique_ptr<backend::CopyLane>(std::move(lane));
}

Status GpuDevice::may_copy_from(backend::Device& other) {
  if (&other == this || other.driver() != driver()) return Device::may_copy_from(other);
  auto& from = static_cast<GpuDevice&>(other);
  for (const GpuDevice* device : {&from, this}) {
    if (!device->options_.peer) {
      return failed_precondition("peer=off for {}", device->caps_.id);
    }
  }
  bool can = false;
  RuntimeResult result = runtime_->can_copy_peer(ordinal_, from.ordinal_, can);
  if (result.ok() && !can) {
    return failed_precondition("the driver has no direct copies from {} to {}", from.caps_.id,
                               caps_.id);
  }
  if (result.ok()) result = runtime_->open_peer(ordinal_, from.ordinal_);
  if (result.ok()) return {};
  return failure(result, fmt::format("preparing direct copies from {}", from.caps_.id));
}

Status GpuDevice::start_checksum(const void* data, size_t bytes, uint64_t* device_parts) {
  return stream_->launch(image_key(Kernel::kChecksum), {.x = kChecksumParts},
                         ChecksumParams{.data = data,
                                           .sums = device_parts,
                                           .pieces = static_cast<int64_t>(bytes / 16)});
}

Result<std::unique_ptr<GpuDevice>> open_gpu_device(std::shared_ptr<Runtime> runtime,
                                                   const ImageList& images, int ordinal,
                                                   const GpuDeviceOptions& options) {
  auto device = std::unique_ptr<GpuDevice>(new GpuDevice);
  GpuDevice& d = *device;
  d.runtime_ = std::move(runtime);
  d.ordinal_ = ordinal;
  d.options_ = options;
  d.title_ = options.id;
  RuntimeResult result = d.runtime_->device(ordinal, d.facts_);
  if (!result.ok()) return d.failure(result, "reading what it is");
  const RuntimeDevice& facts = d.facts_;
  d.title_ = fmt::format("{} {} {}", options.id, facts.arch, facts.name);
  const bool served = std::any_of(images.begin(), images.end(), [&](const KernelImage& image) {
    return facts.group == image.group;
  });
  if (facts.group.empty()) {
    return failed_precondition(
        "{}: there are no kernels for {}; they serve sm_75, sm_80 to sm_90, sm_120, gfx103x, gfx110x, "
        "gfx115x and gfx120x; leave the device out with --devices",
        d.title_, facts.arch);
  }
  if (!served) {
    const bool nvidia = facts.arch.starts_with("sm");
    return failed_precondition(
        "{}: this build has no code for {} (it has: {}); build with {} including {}, or leave the "
        "device out with --devices",
        d.title_, facts.arch, groups_of(images),
        nvidia ? "CMAKE_CUDA_ARCHITECTURES" : "CMAKE_HIP_ARCHITECTURES",
        nvidia ? facts.arch.substr(2) : facts.arch);
  }
  if (facts.wave != 32) {
    return failed_precondition("{}: its waves have {} lanes; the kernels need 32", d.title_,
                               facts.wave);
  }
  d.caps_ = {.id = options.id,
             .name = facts.name,
             .arch = facts.arch,
             .stable_id = facts.stable_id,
             .memory_bytes = facts.memory_bytes,
             .workers = facts.multiprocessors,
             .features = features_of(facts.group)};
  d.records_ = options.graphs && d.runtime_->records(ordinal);
  d.waits_for_host_ = d.runtime_->waits_for_host(ordinal);
  d.caps_.graphs = d.records_         ? "on"
                   : !options.graphs ? "off: graphs=off"
                                     : "off: its runtime records no launches";

  RuntimeStream raw = nullptr;
  result = d.runtime_->create_stream(ordinal, raw);
  if (!result.ok()) return d.failure(result, "creating a stream");
  d.stream_ = std::make_unique<GpuStream>(d, raw);

  std::vector<std::string> misses;
  for (const KernelImage& image : images) {
    if (facts.group != image.group) continue;
    FunctionFacts function;
    result = d.runtime_->function(ordinal, image.entry, function);
    if (result.ok() && function.max_threads < image.shape.threads) {
      misses.push_back(fmt::format("{} (needs blocks of {} threads, the device runs {})",
                                   key_text(image.key), image.shape.threads, function.max_threads));
      continue;
    }
    const int shared = std::min(image.max_shared_bytes, facts.shared_bytes);
    if (result.ok() && image.shape.shared_bytes > shared) {
      misses.push_back(fmt::format("{} (needs {} bytes of shared memory, the device has {})",
                                   key_text(image.key), image.shape.shared_bytes, shared));
      continue;
    }
    if (result.ok() && shared > 48 * 1024) {
      result =
          d.runtime_->allow_shared(ordinal, image.entry, shared - function.static_shared_bytes);
    }
    if (!result.ok()) {
      misses.push_back(fmt::format("{} ({})", key_text(image.key), result.text));
      continue;
    }
    d.images_.add(&image);
  }
  if (!misses.empty()) {
    return failed_precondition(
        "{}: {} of this build's kernels for {} do not load on it: {}; rebuild the {} module for "
        "{}, "
        "or leave the device out with --devices",
        d.title_, misses.size(), facts.group, fmt::join(misses, ", "), d.runtime_->kind(),
        facts.arch);
  }

  const auto compiled = [&](const KernelSpec& row) {
    return std::all_of(row.images.begin(), row.images.end(), [&](uint32_t packed) {
      ImageKey key = unpack_key(packed);
      if (key.type == kRowType) key.type = static_cast<uint8_t>(*row.weight_type);
      return d.images_.find(key) != nullptr;
    });
  };
  const auto rows = gpu_rows();
  STRATA_ASSIGN_OR_RETURN(d.kernels_, backend::KernelTable::build(d.title_, rows, d.caps_.features,
                                                                  options.kernels, compiled));
  return device;
}

std::vector<std::span<const KernelSpec>> gpu_rows() {
  return {product_rows(), moe_rows(),       elementwise_rows(), hyper_connection_rows(),
          gdn_rows(),     attention_rows(), ple_rows(),  top_k_rows()};
}

}  // namespace strata::gpu
