#include "backend/gpu/hip/hip_runtime.h"

#include <hip/hip_runtime_api.h>

#include "backend/gpu/loaded_libraries.h"

namespace strata::gpu {

namespace {

RuntimeFault fault_of(hipError_t error) {
  switch (error) {
    case hipSuccess:
      return RuntimeFault::kNone;
    case hipErrorNoBinaryForGpu:
    case hipErrorInvalidDeviceFunction:
    case hipErrorInvalidKernelFile:
    case hipErrorInvalidImage:
    case hipErrorSharedObjectSymbolNotFound:
      return RuntimeFault::kNoImage;
    case hipErrorOutOfMemory:
      return RuntimeFault::kOutOfMemory;
    case hipErrorInvalidValue:
    case hipErrorInvalidConfiguration:
    case hipErrorInvalidDevice:
    case hipErrorInvalidResourceHandle:
    case hipErrorLaunchOutOfResources:
      return RuntimeFault::kInvalid;
    case hipErrorIllegalAddress:
    case hipErrorLaunchFailure:
    case hipErrorLaunchTimeOut:
    case hipErrorAssert:
      return RuntimeFault::kLaunch;
    case hipErrorNoDevice:
    case hipErrorECCNotCorrectable:
    case hipErrorDeinitialized:
      return RuntimeFault::kLost;
    default:
      return RuntimeFault::kOther;
  }
}

// Errors of finished or running kernels stay with the process; the others are forgotten once read.
bool stays(hipError_t error) {
  const RuntimeFault fault = fault_of(error);
  return fault == RuntimeFault::kLaunch || fault == RuntimeFault::kLost;
}

RuntimeResult answer(hipError_t error) {
  if (error == hipSuccess) return {};
  (void)hipGetLastError();
  return {.fault = fault_of(error),
          .code = static_cast<int>(error),
          .text = fmt::format("{}: {}", hipGetErrorName(error), hipGetErrorString(error)),
          .sticky = stays(error)};
}

// Selects `device` on this thread, then makes the call.
template <class Call>
RuntimeResult on(int device, Call&& call) {
  const hipError_t selected = hipSetDevice(device);
  return answer(selected != hipSuccess ? selected : call());
}

std::string group_of(const std::string& arch) {
  if (arch.starts_with("gfx103")) return "gfx10";
  if (arch.starts_with("gfx110") || arch.starts_with("gfx115")) return "gfx11";
  if (arch.starts_with("gfx120")) return "gfx12";
  return "";
}

hipStream_t stream_of(RuntimeStream stream) { return static_cast<hipStream_t>(stream); }
hipEvent_t event_of(RuntimeEvent event) { return static_cast<hipEvent_t>(event); }
hipGraphExec_t graph_of(RuntimeGraph graph) { return static_cast<hipGraphExec_t>(graph); }

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

class HipRuntime final : public Runtime {
 public:
  const char* kind() const override { return "hip"; }

  std::string driver_version() const override {
    int version = 0;
    return hipDriverGetVersion(&version) == hipSuccess ? version_text(version) : "";
  }

  std::vector<RuntimeLibrary> libraries() const override {
    int runtime = 0;
    (void)hipRuntimeGetVersion(&runtime);
    std::vector<RuntimeLibrary> out = loaded_libraries({"libamdhip64", "libhsa-runtime64", "libamd_comgr"});
    for (RuntimeLibrary& library : out) {
      if (library.name.starts_with("libamdhip64")) library.version = version_text(runtime);
    }
    return out;
  }

  RuntimeResult device_count(int& count) override { return answer(hipGetDeviceCount(&count)); }

  RuntimeResult device(int ordinal, RuntimeDevice& out) override {
    hipDeviceProp_t p{};
    const hipError_t error = hipGetDeviceProperties(&p, ordinal);
    if (error != hipSuccess) return answer(error);
    const std::string arch = p.gcnArchName;  // "gfx90a:sramecc+:xnack-"
    out.arch = arch.substr(0, arch.find(':'));
    out.group = group_of(out.arch);
    out.name = p.name;
    out.stable_id = fmt::format("{:04x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
    out.multiprocessors = p.multiProcessorCount;
    out.wave = p.warpSize;
    out.memory_bytes = p.totalGlobalMem;
    out.shared_bytes = static_cast<int>(p.sharedMemPerBlock);
    out.integrated = p.integrated != 0;
    return {};
  }

  RuntimeResult memory_info(int device, uint64_t& free_bytes, uint64_t& total_bytes) override {
    size_t free_now = 0, total = 0;
    const RuntimeResult result = on(device, [&] { return hipMemGetInfo(&free_now, &total); });
    free_bytes = free_now;
    total_bytes = total;
    return result;
  }

  RuntimeResult allocate(int device, size_t bytes, void*& out) override {
    return on(device, [&] { return hipMalloc(&out, bytes); });
  }
  RuntimeResult release(int device, void* data) override {
    return on(device, [&] { return hipFree(data); });
  }
  RuntimeResult allocate_pinned(int device, size_t bytes, void*& out) override {
    return on(device, [&] { return hipHostMalloc(&out, bytes, hipHostMallocPortable); });
  }
  RuntimeResult release_pinned(int device, void* data) override {
    return on(device, [&] { return hipHostFree(data); });
  }

  RuntimeResult create_stream(int device, RuntimeStream& out) override {
    hipStream_t stream = nullptr;
    const RuntimeResult result =
        on(device, [&] { return hipStreamCreateWithFlags(&stream, hipStreamNonBlocking); });
    out = stream;
    return result;
  }
  RuntimeResult destroy_stream(int device, RuntimeStream stream) override {
    return on(device, [&] { return hipStreamDestroy(stream_of(stream)); });
  }
  RuntimeResult synchronize(int device, RuntimeStream stream) override {
    return on(device, [&] { return hipStreamSynchronize(stream_of(stream)); });
  }

  RuntimeResult create_event(int device, RuntimeEvent& out) override {
    hipEvent_t event = nullptr;
    const RuntimeResult result = on(device, [&] { return hipEventCreate(&event); });
    out = event;
    return result;
  }
  RuntimeResult destroy_event(int device, RuntimeEvent event) override {
    return on(device, [&] { return hipEventDestroy(event_of(event)); });
  }
  RuntimeResult record(int device, RuntimeEvent event, RuntimeStream stream) override {
    return on(device, [&] { return hipEventRecord(event_of(event), stream_of(stream)); });
  }
  RuntimeResult wait(int device, RuntimeStream stream, RuntimeEvent event) override {
    return on(device, [&] { return hipStreamWaitEvent(stream_of(stream), event_of(event), 0); });
  }
  RuntimeResult synchronize_event(int device, RuntimeEvent event) override {
    return on(device, [&] { return hipEventSynchronize(event_of(event)); });
  }
  RuntimeResult query_event(int device, RuntimeEvent event, bool& done) override {
    const RuntimeResult result = on(device, [&] {
      const hipError_t error = hipEventQuery(event_of(event));
      done = error == hipSuccess;
      return error == hipErrorNotReady ? hipSuccess : error;
    });
    if (result.ok() && !done) (void)hipGetLastError();
    return result;
  }
  RuntimeResult elapsed(int device, RuntimeEvent begin, RuntimeEvent end, float& ms) override {
    return on(device, [&] { return hipEventElapsedTime(&ms, event_of(begin), event_of(end)); });
  }

  RuntimeResult copy(int device, RuntimeStream stream, void* dst, const void* src, size_t bytes,
                     CopyKind kind) override {
    const hipMemcpyKind direction = kind == CopyKind::kToDevice ? hipMemcpyHostToDevice
                                     : kind == CopyKind::kToHost ? hipMemcpyDeviceToHost
                                                                 : hipMemcpyDeviceToDevice;
    return on(device,
              [&] { return hipMemcpyAsync(dst, src, bytes, direction, stream_of(stream)); });
  }
  RuntimeResult fill_zero(int device, RuntimeStream stream, void* dst, size_t bytes) override {
    return on(device, [&] { return hipMemsetAsync(dst, 0, bytes, stream_of(stream)); });
  }
  RuntimeResult can_copy_peer(int to, int from, bool& can) override {
    int possible = 0;
    const RuntimeResult result = answer(hipDeviceCanAccessPeer(&possible, to, from));
    can = possible != 0;
    return result;
  }
  RuntimeResult open_peer(int to, int from) override {
    const auto open = [](int device, int other) {
      return on(device, [&] {
        const hipError_t error = hipDeviceEnablePeerAccess(other, 0);
        if (error != hipErrorPeerAccessAlreadyEnabled) return error;
        (void)hipGetLastError();
        return hipSuccess;
      });
    };
    const RuntimeResult result = open(to, from);
    return result.ok() ? open(from, to) : result;
  }
  RuntimeResult copy_peer(int to, RuntimeStream stream_of_to, void* dst, int from, const void* src,
                          size_t bytes) override {
    return on(to, [&] {
      return hipMemcpyPeerAsync(dst, to, src, from, bytes, stream_of(stream_of_to));
    });
  }

  RuntimeResult function(int device, const void* entry, FunctionFacts& out) override {
    hipFuncAttributes a{};
    const RuntimeResult result = on(device, [&] { return hipFuncGetAttributes(&a, entry); });
    out = {.max_threads = a.maxThreadsPerBlock,
           .registers = a.numRegs,
           .local_bytes = static_cast<int>(a.localSizeBytes),
           .static_shared_bytes = static_cast<int>(a.sharedSizeBytes)};
    return result;
  }
  RuntimeResult allow_shared(int device, const void* entry, int bytes) override {
    return on(device, [&] {
      return hipFuncSetAttribute(entry, hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
    });
  }
  RuntimeResult launch(int device, RuntimeStream stream, const KernelImage& image, Grid grid,
                       int shared_bytes, const void* params) override {
    return on(device, [&] {
      // The runtime keeps the last error of any call until it is read; an old one must not pass for
      // this launch's, and this launch's may show only there.
      (void)hipGetLastError();
      void* arguments[] = {const_cast<void*>(params)};
      const hipError_t launched = hipLaunchKernel(
          image.entry,
          dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
               static_cast<unsigned>(grid.z)),
          dim3(static_cast<unsigned>(image.shape.threads)), arguments,
          static_cast<size_t>(shared_bytes), stream_of(stream));
      return launched != hipSuccess ? launched : hipGetLastError();
    });
  }

  bool records(int) override { return true; }
  RuntimeResult begin_recording(int device, RuntimeStream stream) override {
    // Other threads of the process go on using the driver.
    return on(device, [&] {
      return hipStreamBeginCapture(stream_of(stream), hipStreamCaptureModeThreadLocal);
    });
  }
  RuntimeResult end_recording(int device, RuntimeStream stream, RuntimeGraph& out) override {
    out = nullptr;
    hipGraph_t recorded = nullptr;
    hipGraphExec_t ready = nullptr;
    const RuntimeResult result = on(device, [&] {
      const hipError_t ended = hipStreamEndCapture(stream_of(stream), &recorded);
      if (ended != hipSuccess || recorded == nullptr) return ended;
      return hipGraphInstantiate(&ready, recorded, nullptr, nullptr, 0);
    });
    if (recorded != nullptr) (void)hipGraphDestroy(recorded);
    if (result.ok()) out = ready;
    return result;
  }
  RuntimeResult run_graph(int device, RuntimeStream stream, RuntimeGraph graph) override {
    return on(device, [&] { return hipGraphLaunch(graph_of(graph), stream_of(stream)); });
  }
  RuntimeResult destroy_graph(int device, RuntimeGraph graph) override {
    return on(device, [&] { return hipGraphExecDestroy(graph_of(graph)); });
  }
};

}  // namespace

Result<std::shared_ptr<Runtime>> make_hip_runtime() {
  int count = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  if (error == hipErrorInsufficientDriver || error == hipErrorNoDevice ||
      (error == hipSuccess && count == 0)) {
    return unavailable("the AMD driver shows no devices; check that /dev/kfd exists and that this user "
                       "may open it and /dev/dri/renderD* (groups render and video), or leave the hip "
                       "devices out with --devices");
  }
  if (error != hipSuccess) {
    return unavailable("the HIP runtime does not start: {}: {}", hipGetErrorName(error),
                       hipGetErrorString(error));
  }
  return std::shared_ptr<Runtime>(std::make_shared<HipRuntime>());
}

}  // namespace strata::gpu
