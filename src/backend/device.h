// One opened device and everything that is true of it: facts, memory, order of work, kernels.
// Facts and choices live here and nowhere else; two devices of one process share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/kernel_table.h"
#include "base/status.h"

namespace strata::backend {

// Facts read from the device when it was opened.
struct DeviceCaps {
  std::string id;         // "cpu", "cuda:0", "hip:1", "emu:gfx1100"
  std::string name;       // what the vendor calls it
  std::string arch;       // "x86-64", "sm90", "gfx1100"
  std::string stable_id;  // survives renumbering: a PCI address, or the id where there is none
  uint64_t memory_bytes = 0;
  int workers = 1;        // CPU: threads that compute; GPU: multiprocessors
  FeatureSet features = 0;
};

class Device;

// Device memory, owned. Fresh memory reads as zero and, on the CPU, takes no physical pages before
// it is touched.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, void* data, size_t size) : device_(device), data_(data), size_(size) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// An in-order queue of work on one device.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  // Waits for everything submitted; reports the first failure since the last call.
  virtual Status synchronize() = 0;
};

// Methods may be called from one thread at a time, unless stated otherwise.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceCaps& caps() const = 0;
  virtual const KernelTable& kernels() const = 0;
  virtual Stream& stream() = 0;

  // Fails with kResourceExhausted, naming the device, the size and what is free.
  virtual Result<Buffer> allocate(size_t bytes) = 0;
  virtual Status copy_to_device(void* device_dst, const void* host_src, size_t bytes) = 0;
  virtual Status copy_to_host(void* host_dst, const void* device_src, size_t bytes) = 0;
  virtual Status copy_on_device(void* dst, const void* src, size_t bytes) = 0;
  virtual Status zero(void* device_dst, size_t bytes) = 0;

  // A device that computes on host memory uses mapped weights where they lie.
  virtual bool shares_host_memory() const = 0;

 private:
  friend class Buffer;
  virtual void release(void* data, size_t bytes) = 0;
};

}  // namespace strata::backend
