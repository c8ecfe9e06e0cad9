#include "backend/cpu/cpu_device.h"

namespace strata::backend {

namespace {

std::byte* align64(std::byte* p) {
  return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63});
}

}  // namespace

CpuStream::CpuStream(Device& device, int workers)
    : device_(device), pool_(workers), scratch_(static_cast<size_t>(workers) + 1) {}

void* CpuStream::scratch(int worker, size_t bytes) {
  return grow(scratch_[static_cast<size_t>(worker)], bytes);
}

void CpuStream::reserve_scratch(size_t bytes) {
  for (size_t worker = 0; worker + 1 < scratch_.size(); ++worker) grow(scratch_[worker], bytes);
}

void* CpuStream::shared_scratch(size_t bytes) { return grow(scratch_.back(), bytes); }

void* CpuStream::grow(Scratch& scratch, size_t bytes) {
  if (scratch.size < bytes) {
    const size_t size = bytes + bytes / 2;
    scratch.data = std::make_unique_for_overwrite<std::byte[]>(size + 64);
    scratch.size = size;
  }
  return align64(scratch.data.get());
}

}  // namespace strata::backend
