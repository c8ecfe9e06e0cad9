// A kernel of a test as an image, and a device to run it on.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/gpu/emu/emu_runtime.h"
#include "backend/gpu/instance.h"

namespace strata::gpu::testing {

// Tests borrow names of real kernels for their own.
template <class K, class Arch = arch::Sm90>
KernelImage image_of(ImageKey key) {
  ImageList list;
  add<Arch, K>(list, key);
  return list.front();
}

// A runtime with one stream per device; every call is expected to succeed unless the test says
// otherwise.
class Machine {
 public:
  Machine(std::vector<std::string> specs, const ImageList& images, uint64_t seed = 1) {
    auto made = make_emu_runtime(std::move(specs), seed, images);
    EXPECT_TRUE(made.ok()) << made.status().message();
    runtime_ = std::move(made).value();
    int count = 0;
    EXPECT_TRUE(runtime_->device_count(count).ok());
    streams_.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(runtime_->create_stream(i, streams_[static_cast<size_t>(i)]).ok());
    }
  }

  EmuRuntime& runtime() { return *runtime_; }
  RuntimeStream stream(int device = 0) { return streams_[static_cast<size_t>(device)]; }

  template <class T>
  T* allocate(size_t count, int device = 0) {
    void* out = nullptr;
    const RuntimeResult result = runtime_->allocate(device, count * sizeof(T), out);
    EXPECT_TRUE(result.ok()) << result.text;
    return static_cast<T*>(out);
  }
  template <class T>
  T* upload(const std::vector<T>& values, int device = 0) {
    T* data = allocate<T>(values.size(), device);
    const RuntimeResult result = runtime_->copy(device, stream(device), data, values.data(),
                                                values.size() * sizeof(T), CopyKind::kToDevice);
    EXPECT_TRUE(result.ok()) << result.text;
    return data;
  }
  template <class T>
  std::vector<T> download(const T* data, size_t count, int device = 0) {
    std::vector<T> out(count);
    const RuntimeResult result = runtime_->copy(device, stream(device), out.data(), data,
                                                count * sizeof(T), CopyKind::kToHost);
    EXPECT_TRUE(result.ok()) << result.text;
    return out;
  }
  template <class Params>
  RuntimeResult launch(const KernelImage& image, Grid grid, const Params& params, int device = 0) {
    return runtime_->launch(device, stream(device), image, grid, image.shape.shared_bytes, &params);
  }
  RuntimeResult synchronize(int device = 0) {
    return runtime_->synchronize(device, stream(device));
  }

 private:
  std::unique_ptr<EmuRuntime> runtime_;
  std::vector<RuntimeStream> streams_;
};

}  // namespace strata::gpu::testing
