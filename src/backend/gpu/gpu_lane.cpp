#include "backend/gpu/gpu_lane.h"

namespace strata::gpu {

Result<std::unique_ptr<GpuLane>> GpuLane::make(GpuDevice& device) {
  auto lane = std::unique_ptr<GpuLane>(new GpuLane(device));
  Runtime& runtime = device.runtime();
  RuntimeResult result = runtime.create_stream(device.ordinal(), lane->stream_);
  if (result.ok()) result = runtime.create_event(device.ordinal(), lane->event_);
  if (!result.ok()) return device.failure(result, "creating a stream for copies");
  return lane;
}

GpuLane::~GpuLane() {
  Runtime& runtime = device_.runtime();
  if (stream_ != nullptr) {
    (void)runtime.synchronize(device_.ordinal(), stream_);
    (void)runtime.destroy_stream(device_.ordinal(), stream_);
  }
  if (event_ != nullptr) (void)runtime.destroy_event(device_.ordinal(), event_);
}

Status GpuLane::follow_stream() {
  GpuStream& stream = device_.gpu_stream();
  STRATA_RETURN_IF_ERROR(stream.refuse_recorded("waiting"));
  followed_ = stream.unfinished();
  mark_ = stream.mark();
  followed_place_ = stream.place_number();
  Runtime& runtime = device_.runtime();
  RuntimeResult result = runtime.record(device_.ordinal(), event_, stream.raw());
  if (result.ok()) result = runtime.wait(device_.ordinal(), stream_, event_);
  return result.ok() ? Status() : device_.failure(result, "ordering its work" + mark_.text());
}

Status GpuLane::copy(void* dst, const void* src, size_t bytes, CopyKind kind) {
  if (bytes == 0) return {};
  const RuntimeResult result =
      device_.runtime().copy(device_.ordinal(), stream_, dst, src, bytes, kind);
  return submitted(result, kind == CopyKind::kToHost ? "from it" : "to it", bytes);
}

Status GpuLane::to_host(void* host_dst, const void* device_src, size_t bytes) {
  return copy(host_dst, device_src, bytes, CopyKind::kToHost);
}

Status GpuLane::to_device(void* device_dst, const void* host_src, size_t bytes) {
  return copy(device_dst, host_src, bytes, CopyKind::kToDevice);
}

Status GpuLane::from_device(backend::Device& from, void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return {};
  if (from.driver() != device_.driver()) return device_.may_copy_from(from);
  const int source = static_cast<GpuDevice&>(from).ordinal();
  const RuntimeResult result =
      device_.runtime().copy_peer(device_.ordinal(), stream_, dst, source, src, bytes);
  return submitted(result, "directly to it", bytes);
}

Status GpuLane::submitted(const RuntimeResult& result, const char* direction, size_t bytes) {
  mark_ = device_.gpu_stream().mark();
  if (!result.ok()) {
    return device_.failure(result,
                           fmt::format("copying {} bytes {}{}", bytes, direction, mark_.text()));
  }
  last_ = {.direction = direction, .bytes = bytes};
  return {};
}

Status GpuLane::synchronize() {
  const RuntimeResult result = device_.runtime().synchronize(device_.ordinal(), stream_);
  if (result.ok()) {
    device_.gpu_stream().known_done(followed_place_);
    followed_ = {};
    return {};
  }
  const std::string doing = last_.direction == nullptr
                                ? "waiting for its work" + mark_.text()
                                : fmt::format("waiting for {} bytes copied {}{}", last_.bytes,
                                              last_.direction, mark_.text());
  return device_.failure(result, doing, followed_);
}

}  // namespace strata::gpu
