// Emulated cards that a test holds itself, to ask the emulator what reached them and to hold work
// back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/all_images.h"
#include "backend/gpu/emu/emu_runtime.h"
#include "backend/gpu/gpu_device.h"
#include "split/split_support.h"

namespace strata::split_test {

class Cards {
 public:
  // `specs` are of emu/spec.h; `more` is added to each.
  explicit Cards(std::vector<std::string> specs,
                 const std::string& more = "multiprocessors=1,max-delay-us=0",
                 const gpu::GpuDeviceOptions& as = {}) {
    gpu::add_all_images(images_);
    for (std::string& spec : specs) {
      spec += (spec.find(':') == std::string::npos ? ":" : ",") + more;
    }
    auto made = gpu::make_emu_runtime(specs, 1, images_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    runtime_ = std::move(*made);
    for (size_t i = 0; i < specs.size(); ++i) {
      gpu::GpuDeviceOptions options = as;
      options.id = fmt::format("emu:{}", i);
      auto device = gpu::open_gpu_device(runtime_, images_, static_cast<int>(i), options);
      EXPECT_TRUE(device.ok()) << device.status().message();
      devices_.push_back(std::move(*device));
    }
  }
  gpu::EmuRuntime& runtime() { return *runtime_; }
  gpu::EmuRuntime::Counters counters(int i = 0) const { return runtime_->counters(i); }
  gpu::GpuDevice& card(size_t i = 0) { return *devices_[i]; }
  std::vector<backend::Device*> all() {
    std::vector<backend::Device*> out;
    for (auto& device : devices_) out.push_back(device.get());
    return out;
  }
  void close() { devices_.clear(); }

 private:
  gpu::ImageList images_;
  std::shared_ptr<gpu::EmuRuntime> runtime_;
  std::vector<std::unique_ptr<gpu::GpuDevice>> devices_;
};

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace strata::split_test
