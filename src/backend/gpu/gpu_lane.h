// A copy lane of a GPU device: a stream of the runtime beside the one that computes.
#pragma once

#include <memory>
#include <string>

#include "backend/gpu/gpu_device.h"

namespace strata::gpu {

class GpuLane final : public backend::CopyLane {
 public:
  static Result<std::unique_ptr<GpuLane>> make(GpuDevice& device);
  // Waits for what is under way.
  ~GpuLane() override;

  Status follow_stream() override;
  Status to_host(void* host_dst, const void* device_src, size_t bytes) override;
  Status to_device(void* device_dst, const void* host_src, size_t bytes) override;
  Status from_device(backend::Device& from, void* dst, const void* src, size_t bytes) override;
  Status synchronize() override;

 private:
  explicit GpuLane(GpuDevice& device) : device_(device) {}
  Status copy(void* dst, const void* src, size_t bytes, CopyKind kind);
  Status submitted(const RuntimeResult& result, const char* direction, size_t bytes);

  GpuDevice& device_;
  RuntimeStream stream_ = nullptr;
  RuntimeEvent event_ = nullptr;

  // What is under way, for synchronize(), which must not ask the stream of the device: another
  // thread may be using it.
  struct Copy {
    const char* direction = nullptr;  // nullptr: none
    size_t bytes = 0;
  };
  Copy last_;
  Mark mark_;
  Launches followed_;  // that were unfinished where the lane follows the stream
  uint64_t followed_place_ = 0;
};

}  // namespace strata::gpu
