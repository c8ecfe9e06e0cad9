// One opened device and everything that is true of it: facts, memory, order of work, kernels.
// Facts and choices live here and nowhere else; two devices of one process share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  // Whether decode steps are recorded and replayed, as text: "on", or why not.
  std::string graphs = "off: this device records no work";
};

class Device;

// Copies of one device that run beside the work of its stream, in an order of their own, so that data
// travels while the device computes. Memory that a copy reads or writes must stay as it is until
// synchronize() has returned; host memory is of Device::allocate_host(). Must not outlive its device.
//
// All calls come from the thread that uses the device, but for synchronize(), which may come from any
// thread while no other call on this lane is under way.
class CopyLane {
 public:
  virtual ~CopyLane() = default;
  // What the lane is given from now on waits for all that the device's stream has been given so far.
  virtual Status follow_stream() = 0;
  virtual Status to_host(void* host_dst, const void* device_src, size_t bytes) = 0;
  virtual Status to_device(void* device_dst, const void* host_src, size_t bytes) = 0;
  // Directly from memory of `from`, which may_copy_from() allows. What wrote `src` must be done.
  virtual Status from_device(Device& from, void* dst, const void* src, size_t bytes) = 0;
  // Waits for all that the lane has been given, the work of the stream included that it followed;
  // reports the first failure.
  virtual Status synchronize() = 0;
};

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

// Work of a stream, recorded once, to be started as a whole any number of times: what it costs to
// start is then nearly that of one launch. Not thread-safe; must not outlive its device.
class Recording {
 public:
  virtual ~Recording() = default;
  // Submits the recorded work with the operands it was recorded with; what they point at may have
  // changed, but must still be there.
  virtual Status replay() = 0;
  // False once the stream has replaced memory of its own that the work uses: record again.
  virtual bool valid() const = 0;
};

// An in-order queue of work on one device.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  // Waits for everything submitted; reports the first failure since the last call.
  virtual Status synchronize() = 0;
  // Says what the work submitted from now on belongs to ("layer", 7), so that a failure found later
  // can name it. `what` must outlive the stream.
  virtual void mark(const char* what, int index) {
    (void)what;
    (void)index;
  }
  // Whether wait_for_host() can succeed.
  virtual bool waits_for_host() const { return false; }
  // What is submitted from now on begins once the host has written `value`, or one up to 2^31 later, to
  // `flag`, which lies in memory of Device::allocate_host(). Until then no call may wait for this device
  // or free memory.
  virtual Status wait_for_host(const uint32_t* flag, uint32_t value);
  // Writes `value` to such a flag, as the host would, once all that was submitted before is done. A
  // device that fails before may never come to it. Where waits_for_host().
  virtual Status set_flag(uint32_t* flag, uint32_t value);
  // Whether record() can succeed.
  virtual bool records() const { return false; }
  // Records the ops that `work` launches on this stream, instead of running them. `work` does nothing
  // else with the device, and needs no more of it than when it last ran. kUnimplemented where
  // records() is false. After any failure nothing was recorded and the stream works on as before,
  // unless the device itself failed.
  virtual Result<std::unique_ptr<Recording>> record(const std::function<Status()>& work);
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
  // As copy_to_host(), but may return before the copy is done, which stream().synchronize() then waits
  // for. `host_dst` is of allocate_host().
  virtual Status start_copy_to_host(void* host_dst, const void* device_src, size_t bytes) {
    return copy_to_host(host_dst, device_src, bytes);
  }
  virtual Status copy_on_device(void* dst, const void* src, size_t bytes) = 0;
  virtual Status zero(void* device_dst, size_t bytes) = 0;

  // Host memory that this device copies from and to at full speed, for what goes from device to
  // device; contents undefined. Outlives the device where it must.
  virtual Result<std::shared_ptr<void>> allocate_host(size_t bytes);

  virtual Result<std::unique_ptr<CopyLane>> make_copy_lane();

  // Bytes that allocate() could still give, in as many pieces as it takes: what the driver calls free
  // on this device now, less what is to stay free, and within its limit.
  virtual Result<uint64_t> free_bytes() { return caps().memory_bytes; }

  // The driver that the device was opened with, one address per driver; nullptr: none.
  virtual const void* driver() const { return nullptr; }
  // Why CopyLane::from_device() from `other` must not be tried; ok when the driver of both claims that
  // it works, which proves nothing yet. Prepares the way.
  virtual Status may_copy_from(Device& other);
  // Sums over `bytes` (a multiple of 16) at the aligned address `data`, computed by the device, behind
  // the work of its stream: [kChecksumParts] at `device_parts`. Every word and its place count.
  // Devices of one driver get equal sums for equal bytes. kUnimplemented without may_copy_from().
  static constexpr int kChecksumParts = 64;
  virtual Status start_checksum(const void* data, size_t bytes, uint64_t* device_parts);

  // A device that computes on host memory uses mapped weights where they lie.
  virtual bool shares_host_memory() const = 0;

 private:
  friend class Buffer;
  virtual void release(void* data, size_t bytes) = 0;
};

}  // namespace strata::backend
