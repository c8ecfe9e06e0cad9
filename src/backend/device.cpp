#include "backend/device.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace strata::backend {

namespace {

// Of devices on host memory: a copy is done when its call returns.
class HostLane final : public CopyLane {
 public:
  explicit HostLane(Device& device) : device_(device) {}
  Status follow_stream() override { return device_.stream().synchronize(); }
  Status to_host(void* dst, const void* src, size_t bytes) override { return copy(dst, src, bytes); }
  Status to_device(void* dst, const void* src, size_t bytes) override { return copy(dst, src, bytes); }
  Status from_device(Device& from, void*, const void*, size_t) override {
    return device_.may_copy_from(from);
  }
  Status synchronize() override { return {}; }

 private:
  static Status copy(void* dst, const void* src, size_t bytes) {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return {};
  }

  Device& device_;
};

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Status Stream::wait_for_host(const uint32_t*, uint32_t) {
  return Status(StatusCode::kUnimplemented,
                fmt::format("the work of {} does not wait for the host", device().caps().id));
}

Status Stream::set_flag(uint32_t*, uint32_t) {
  return Status(StatusCode::kUnimplemented, fmt::format("{} sets no flags", device().caps().id));
}

Result<std::unique_ptr<Recording>> Stream::record(const std::function<Status()>&) {
  return Status(StatusCode::kUnimplemented,
                fmt::format("{} records no work; launch it", device().caps().id));
}

Result<std::shared_ptr<void>> Device::allocate_host(size_t bytes) {
  constexpr size_t kAlign = 64;
  const auto free = [](void* data) { ::operator delete(data, std::align_val_t{kAlign}); };
  void* data = ::operator new(std::max<size_t>(bytes, 1), std::align_val_t{kAlign}, std::nothrow);
  if (data == nullptr) {
    return resource_exhausted("no {} bytes of host memory are left for hand-offs", bytes);
  }
  return std::shared_ptr<void>(data, free);
}

Result<std::unique_ptr<CopyLane>> Device::make_copy_lane() {
  if (!shares_host_memory()) {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("{} copies nothing beside its stream", caps().id));
  }
  return std::unique_ptr<CopyLane>(std::make_unique<HostLane>(*this));
}

Status Device::may_copy_from(Device& other) {
  return Status(StatusCode::kUnimplemented, fmt::format("{} and {} do not share a driver",
                                                        other.caps().id, caps().id));
}

Status Device::start_checksum(const void*, size_t, uint64_t*) {
  return Status(StatusCode::kUnimplemented, fmt::format("{} computes no checksums", caps().id));
}

Buffer::~Buffer() {
  if (data_ != nullptr) device_->release(data_, size_);
}

}  // namespace strata::backend
