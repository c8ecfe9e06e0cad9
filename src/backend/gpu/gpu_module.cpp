#include "backend/gpu/gpu_module.h"

#include <algorithm>
#include <charconv>

#include "backend/gpu/gpu_device.h"

namespace strata::gpu {

using backend::DeviceRequest;

namespace {

// "0", or the stable id of a card.
Result<int> ordinal_of(Runtime& runtime, const DeviceRequest& request) {
  int count = 0;
  const RuntimeResult counted = runtime.device_count(count);
  if (!counted.ok()) {
    return unavailable("{}: the {} driver shows no devices: {}", request.id, runtime.kind(),
                       counted.text);
  }
  int number = -1;
  const char* end = request.target.data() + request.target.size();
  const auto parsed = std::from_chars(request.target.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) {
    if (number >= 0 && number < count) return number;
    return not_found("{}: the {} driver shows {} device{}; `strata doctor` lists them", request.id,
                     runtime.kind(), count, count == 1 ? "" : "s");
  }
  for (int i = 0; i < count; ++i) {
    RuntimeDevice device;
    if (runtime.device(i, device).ok() && device.stable_id == request.target) return i;
  }
  return not_found("{}: no {} device has the number or address {}; `strata doctor` lists them",
                   request.id, runtime.kind(), request.target);
}

class GpuModule final : public backend::Module {
 public:
  GpuModule(std::string kind, ImageList images, RuntimeFactory factory, Numbering numbering)
      : kind_(std::move(kind)),
        images_(std::move(images)),
        factory_(std::move(factory)),
        numbering_(numbering) {}

  std::string kind() const override { return kind_; }

  std::string driver_version() const override {
    const auto runtime = factory_({});
    return runtime.ok() ? (*runtime)->driver_version() : std::string();
  }

  std::vector<backend::ModuleLibrary> libraries() const override {
    std::vector<backend::ModuleLibrary> out;
    const auto runtime = factory_({});
    if (!runtime.ok()) return out;
    for (const RuntimeLibrary& library : (*runtime)->libraries()) {
      out.push_back({library.name, library.path, library.version});
    }
    return out;
  }

  std::vector<std::string> groups() const override {
    std::vector<std::string> out;
    for (const KernelImage& image : images_) {
      if (std::find(out.begin(), out.end(), image.group) == out.end())
        out.emplace_back(image.group);
    }
    return out;
  }

  Result<std::vector<backend::DeviceSummary>> devices() override {
    STRATA_ASSIGN_OR_RETURN(const std::shared_ptr<Runtime> runtime, factory_({}));
    int count = 0;
    const RuntimeResult counted = runtime->device_count(count);
    if (!counted.ok()) return unavailable("{}", counted.text);
    std::vector<backend::DeviceSummary> out;
    for (int i = 0; i < count; ++i) {
      RuntimeDevice facts;
      backend::DeviceSummary summary;
      summary.id = fmt::format("{}:{}", kind_, i);
      if (const RuntimeResult read = runtime->device(i, facts); !read.ok()) {
        summary.problem = read.text;
        out.push_back(std::move(summary));
        continue;
      }
      summary.name = facts.name;
      summary.arch = facts.arch;
      summary.stable_id = facts.stable_id;
      summary.integrated = facts.integrated;
      const RuntimeResult memory =
          runtime->memory_info(i, summary.free_bytes, summary.memory_bytes);
      if (!memory.ok()) summary.problem = memory.text;
      const auto known = groups();
      if (std::find(known.begin(), known.end(), facts.group) == known.end()) {
        summary.problem = fmt::format("no code for {} in this build (it has: {})", facts.arch,
                                      fmt::join(known, ", "));
      }
      out.push_back(std::move(summary));
    }
    return out;
  }

  std::vector<Result<std::unique_ptr<backend::Device>>> open(
      std::span<const DeviceRequest> requests) override {
    std::vector<std::string> targets;
    for (const DeviceRequest& request : requests) targets.push_back(request.target);
    std::vector<Result<std::unique_ptr<backend::Device>>> out;
    const auto runtime = factory_(targets);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!runtime.ok()) {
        out.emplace_back(runtime.status());
        continue;
      }
      out.push_back(open_one(*runtime, requests[i], static_cast<int>(i)));
    }
    return out;
  }

  std::vector<backend::ImageReport> images(backend::Device& device) override {
    auto& gpu = static_cast<GpuDevice&>(device);
    std::vector<backend::ImageReport> out;
    for (const KernelImage& image : images_) {
      if (gpu.images().find(image.key) != &image) continue;
      FunctionFacts facts;
      (void)gpu.runtime().function(gpu.ordinal(), image.entry, facts);
      out.push_back({.kernel = kernel_name(image.key.kernel),
                     .type = image.key.type < kQuantTypeCount
                                 ? quant_info(static_cast<QuantType>(image.key.type)).name
                                 : "",
                     .variant = image.key.variant,
                     .threads = image.shape.threads,
                     .registers = facts.registers,
                     .local_bytes = facts.local_bytes,
                     .shared_bytes = image.shape.shared_bytes});
    }
    return out;
  }

 private:
  Result<std::unique_ptr<backend::Device>> open_one(const std::shared_ptr<Runtime>& runtime,
                                                    const DeviceRequest& request, int position) {
    int ordinal = position;
    if (numbering_ == Numbering::kByTarget) {
      STRATA_ASSIGN_OR_RETURN(ordinal, ordinal_of(*runtime, request));
    }
    auto device = open_gpu_device(runtime, images_, ordinal,
                                  {.id = request.id,
                                   .kernels = request.kernels,
                                   .reserve_bytes = request.reserve_bytes,
                                   .memory_limit_bytes = request.memory_limit_bytes,
                                   .graphs = request.graphs,
                                   .peer = request.peer});
    if (!device.ok()) return device.status();
    return std::unique_ptr<backend::Device>(std::move(*device));
  }

  const std::string kind_;
  const ImageList images_;
  const RuntimeFactory factory_;
  const Numbering numbering_;
};

}  // namespace

std::unique_ptr<backend::Module> make_gpu_module(std::string kind, ImageList images,
                                                 RuntimeFactory factory, Numbering numbering) {
  return std::make_unique<GpuModule>(std::move(kind), std::move(images), std::move(factory),
                                     numbering);
}

}  // namespace strata::gpu
