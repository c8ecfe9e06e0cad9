#include "backend/cpu/cpu_device.h"

#include <cstring>
#include <fstream>

#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu_topology.h"
#include "base/log.h"
#include "base/worker_count.h"

namespace strata::backend {

namespace {

std::string cpu_model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "CPU";
}

class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceCaps caps, KernelTable kernels)
      : caps_(std::move(caps)), kernels_(std::move(kernels)), stream_(*this, caps_.workers) {
    if (const int workers = stream_.pool().workers(); workers < caps_.workers) {
      log::warn("{}: the system grants {} of {} threads; raise its limit on processes or give a "
                "smaller number of threads",
                caps_.id, workers, caps_.workers);
      caps_.workers = workers;
    }
  }

  const DeviceCaps& caps() const override { return caps_; }
  const KernelTable& kernels() const override { return kernels_; }
  Stream& stream() override { return stream_; }
  bool shares_host_memory() const override { return true; }

  Result<Buffer> allocate(size_t bytes) override {
    const size_t size = bytes == 0 ? 1 : bytes;
    // Reserved, not committed: a long context costs physical memory only as it fills.
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      return resource_exhausted("{}: no {:.1f} MiB of address space left ({})", caps_.id,
                                static_cast<double>(size) / (1 << 20), std::strerror(errno));
    }
    return Buffer(this, data, size);
  }
  Status copy_to_device(void* dst, const void* src, size_t bytes) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return {};
  }
  Status copy_to_host(void* dst, const void* src, size_t bytes) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return {};
  }
  Status copy_on_device(void* dst, const void* src, size_t bytes) override {
    if (bytes > 0) std::memmove(dst, src, bytes);
    return {};
  }
  Status zero(void* dst, size_t bytes) override {
    std::memset(dst, 0, bytes);
    return {};
  }

 private:
  void release(void* data, size_t bytes) override { ::munmap(data, bytes); }

  DeviceCaps caps_;
  KernelTable kernels_;
  CpuStream stream_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cpu_device(const CpuDeviceOptions& options) {
  if (options.workers < 0 || options.workers > 1024) {
    return invalid_argument("cpu: {} workers asked for; give 1 to 1024, or 0 for all available",
                            options.workers);
  }
  DeviceCaps caps;
  caps.id = "cpu";
  caps.stable_id = "cpu";
  caps.name = cpu_model_name();
#if defined(__x86_64__)
  caps.arch = "x86-64";
#elif defined(__aarch64__)
  caps.arch = "aarch64";
#else
  caps.arch = "generic";
#endif
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  caps.memory_bytes = pages > 0 ? static_cast<uint64_t>(pages) * ::sysconf(_SC_PAGESIZE) : 0;
  caps.workers = options.workers;
  if (caps.workers == 0) {
    const CpuTopology topology = CpuTopology::read();
    const WorkerChoice choice = measure_workers(topology);
    caps.workers = choice.workers;
    log::info("{}: {}", caps.id, describe(choice, topology));
  }
  caps.features = detected_cpu_features() & ~options.disabled_features;

  auto families = cpu_contract_rows();
  families.push_back(cpu_reference_rows());
  STRATA_ASSIGN_OR_RETURN(
      KernelTable kernels,
      KernelTable::build(caps.id, families, caps.features, options.kernels));
  return std::unique_ptr<Device>(new CpuDevice(std::move(caps), std::move(kernels)));
}

}  // namespace strata::backend
