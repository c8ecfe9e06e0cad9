#include "backend/gpu/cuda/cuda_runtime.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backend/gpu/loaded_libraries.h"

namespace strata::gpu {

namespace {

RuntimeFault fault_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return RuntimeFault::kNone;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
      return RuntimeFault::kNoImage;
    case cudaErrorMemoryAllocation:
      return RuntimeFault::kOutOfMemory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorLaunchOutOfResources:
      return RuntimeFault::kInvalid;
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
      return RuntimeFault::kLaunch;
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
      return RuntimeFault::kLost;
    default:
      return RuntimeFault::kOther;
  }
}

// Errors of finished or running kernels stay with the process; the others are forgotten once read.
bool stays(cudaError_t error) {
  const RuntimeFault fault = fault_of(error);
  return fault == RuntimeFault::kLaunch || fault == RuntimeFault::kLost;
}

RuntimeResult answer(cudaError_t error) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  return {.fault = fault_of(error),
          .code = static_cast<int>(error),
          .text = fmt::format("{}: {}", cudaGetErrorName(error), cudaGetErrorString(error)),
          .sticky = stays(error)};
}

// Selects `device` on this thread, then makes the call.
template <class Call>
RuntimeResult on(int device, Call&& call) {
  const cudaError_t selected = cudaSetDevice(device);
  return answer(selected != cudaSuccess ? selected : call());
}

std::string group_of([[maybe_unused]] int major, [[maybe_unused]] int minor) {
#ifdef STRATA_CUDA_GROUP
  return STRATA_CUDA_GROUP;
#else
  switch (major) {
    case 7:
      return minor == 5 ? "sm75" : "";
    case 8:
      return "sm80";
    case 9:
      return "sm90";
    case 12:
      return "sm120";
    default:
      return "";
  }
#endif
}

cudaStream_t stream_of(RuntimeStream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(RuntimeEvent event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t graph_of(RuntimeGraph graph) { return static_cast<cudaGraphExec_t>(graph); }

// Calls of the driver that the runtime does not offer; nullptr where the driver lacks them.
using StreamFlag = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
StreamFlag driver_call(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t asked =
      cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t asked = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
#endif
  if (asked != cudaSuccess) (void)cudaGetLastError();
  return asked == cudaSuccess && found == cudaDriverEntryPointSuccess
             ? reinterpret_cast<StreamFlag>(entry)
             : nullptr;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class CudaRuntime final : public Runtime {
 public:
  const char* kind() const override { return "cuda"; }

  std::string driver_version() const override {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess ? version_text(version) : "";
  }

  std::vector<RuntimeLibrary> libraries() const override {
    int runtime = 0;
    (void)cudaRuntimeGetVersion(&runtime);
    std::vector<RuntimeLibrary> out = loaded_libraries({"libcuda.so", "libnvidia-"});
    for (RuntimeLibrary& library : out) library.version = driver_version();
    out.push_back({"cudart (linked into the module)", "", version_text(runtime)});
    return out;
  }

  RuntimeResult device_count(int& count) override { return answer(cudaGetDeviceCount(&count)); }

  RuntimeResult device(int ordinal, RuntimeDevice& out) override {
    cudaDeviceProp p{};
    const cudaError_t error = cudaGetDeviceProperties(&p, ordinal);
    if (error != cudaSuccess) return answer(error);
    out.arch = fmt::format("sm{}{}", p.major, p.minor);
    out.group = group_of(p.major, p.minor);
    out.name = p.name;
    out.stable_id = fmt::format("{:04x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
    out.multiprocessors = p.multiProcessorCount;
    out.wave = p.warpSize;
    out.memory_bytes = p.totalGlobalMem;
    out.shared_bytes = static_cast<int>(p.sharedMemPerBlockOptin);
    out.integrated = p.integrated != 0;
    return {};
  }

  RuntimeResult memory_info(int device, uint64_t& free_bytes, uint64_t& total_bytes) override {
    size_t free_now = 0, total = 0;
    const RuntimeResult result = on(device, [&] { return cudaMemGetInfo(&free_now, &total); });
    free_bytes = free_now;
    total_bytes = total;
    return result;
  }

  RuntimeResult allocate(int device, size_t bytes, void*& out) override {
    return on(device, [&] { return cudaMalloc(&out, bytes); });
  }
  RuntimeResult release(int device, void* data) override {
    return on(device, [&] { return cudaFree(data); });
  }
  RuntimeResult allocate_pinned(int device, size_t bytes, void*& out) override {
    return on(device, [&] { return cudaHostAlloc(&out, bytes, cudaHostAllocPortable); });
  }
  RuntimeResult release_pinned(int device, void* data) override {
    return on(device, [&] { return cudaFreeHost(data); });
  }

  RuntimeResult create_stream(int device, RuntimeStream& out) override {
    cudaStream_t stream = nullptr;
    const RuntimeResult result =
        on(device, [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
    out = stream;
    return result;
  }
  RuntimeResult destroy_stream(int device, RuntimeStream stream) override {
    return on(device, [&] { return cudaStreamDestroy(stream_of(stream)); });
  }
  RuntimeResult synchronize(int device, RuntimeStream stream) override {
    return on(device, [&] { return cudaStreamSynchronize(stream_of(stream)); });
  }

  // A card may refuse what its driver knows: it is asked to wait for what it has written itself.
  bool waits_for_host(int device) override {
    void* flag = nullptr;
    RuntimeStream stream = nullptr;
    bool works = allocate_pinned(device, sizeof(uint32_t), flag).ok() &&
                 create_stream(device, stream).ok();
    if (works) {
      auto* value = static_cast<uint32_t*>(flag);
      *value = 0;
      works = set_flag(device, stream, value, 1).ok() && synchronize(device, stream).ok() &&
              *value == 1 && wait_for_host(device, stream, value, 1).ok() &&
              synchronize(device, stream).ok();
    }
    if (stream != nullptr) (void)destroy_stream(device, stream);
    if (flag != nullptr) (void)release_pinned(device, flag);
    return works;
  }
  RuntimeResult wait_for_host(int device, RuntimeStream stream, const uint32_t* flag,
                              uint32_t value) override {
    return with_flag(device, wait_value_, stream, flag, value, CU_STREAM_WAIT_VALUE_GEQ);
  }
  RuntimeResult set_flag(int device, RuntimeStream stream, uint32_t* flag,
                         uint32_t value) override {
    return with_flag(device, write_value_, stream, flag, value, CU_STREAM_WRITE_VALUE_DEFAULT);
  }

  RuntimeResult create_event(int device, RuntimeEvent& out) override {
    cudaEvent_t event = nullptr;
    const RuntimeResult result = on(device, [&] { return cudaEventCreate(&event); });
    out = event;
    return result;
  }
  RuntimeResult destroy_event(int device, RuntimeEvent event) override {
    return on(device, [&] { return cudaEventDestroy(event_of(event)); });
  }
  RuntimeResult record(int device, RuntimeEvent event, RuntimeStream stream) override {
    return on(device, [&] { return cudaEventRecord(event_of(event), stream_of(stream)); });
  }
  RuntimeResult wait(int device, RuntimeStream stream, RuntimeEvent event) override {
    return on(device, [&] { return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0); });
  }
  RuntimeResult synchronize_event(int device, RuntimeEvent event) override {
    return on(device, [&] { return cudaEventSynchronize(event_of(event)); });
  }
  RuntimeResult query_event(int device, RuntimeEvent event, bool& done) override {
    const RuntimeResult result = on(device, [&] {
      const cudaError_t error = cudaEventQuery(event_of(event));
      done = error == cudaSuccess;
      return error == cudaErrorNotReady ? cudaSuccess : error;
    });
    if (result.ok() && !done) (void)cudaGetLastError();
    return result;
  }
  RuntimeResult elapsed(int device, RuntimeEvent begin, RuntimeEvent end, float& ms) override {
    return on(device, [&] { return cudaEventElapsedTime(&ms, event_of(begin), event_of(end)); });
  }

  RuntimeResult copy(int device, RuntimeStream stream, void* dst, const void* src, size_t bytes,
                     CopyKind kind) override {
    const cudaMemcpyKind direction = kind == CopyKind::kToDevice ? cudaMemcpyHostToDevice
                                     : kind == CopyKind::kToHost ? cudaMemcpyDeviceToHost
                                                                 : cudaMemcpyDeviceToDevice;
    return on(device,
              [&] { return cudaMemcpyAsync(dst, src, bytes, direction, stream_of(stream)); });
  }
  RuntimeResult fill_zero(int device, RuntimeStream stream, void* dst, size_t bytes) override {
    return on(device, [&] { return cudaMemsetAsync(dst, 0, bytes, stream_of(stream)); });
  }
  RuntimeResult can_copy_peer(int to, int from, bool& can) override {
    int possible = 0;
    const RuntimeResult result = answer(cudaDeviceCanAccessPeer(&possible, to, from));
    can = possible != 0;
    return result;
  }
  RuntimeResult open_peer(int to, int from) override {
    const auto open = [](int device, int other) {
      return on(device, [&] {
        const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
        if (error != cudaErrorPeerAccessAlreadyEnabled) return error;
        (void)cudaGetLastError();
        return cudaSuccess;
      });
    };
    const RuntimeResult result = open(to, from);
    return result.ok() ? open(from, to) : result;
  }
  RuntimeResult copy_peer(int to, RuntimeStream stream_of_to, void* dst, int from, const void* src,
                          size_t bytes) override {
    return on(to, [&] {
      return cudaMemcpyPeerAsync(dst, to, src, from, bytes, stream_of(stream_of_to));
    });
  }

  RuntimeResult function(int device, const void* entry, FunctionFacts& out) override {
    cudaFuncAttributes a{};
    const RuntimeResult result = on(device, [&] { return cudaFuncGetAttributes(&a, entry); });
    out = {.max_threads = a.maxThreadsPerBlock,
           .registers = a.numRegs,
           .local_bytes = static_cast<int>(a.localSizeBytes),
           .static_shared_bytes = static_cast<int>(a.sharedSizeBytes)};
    return result;
  }
  RuntimeResult allow_shared(int device, const void* entry, int bytes) override {
    return on(device, [&] {
      return cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    });
  }
  RuntimeResult launch(int device, RuntimeStream stream, const KernelImage& image, Grid grid,
                       int shared_bytes, const void* params) override {
    return on(device, [&] {
      void* arguments[] = {const_cast<void*>(params)};
      return cudaLaunchKernel(
          image.entry,
          dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
               static_cast<unsigned>(grid.z)),
          dim3(static_cast<unsigned>(image.shape.threads)), arguments,
          static_cast<size_t>(shared_bytes), stream_of(stream));
    });
  }

  bool records(int) override { return true; }
  RuntimeResult begin_recording(int device, RuntimeStream stream) override {
    // Other threads of the process go on using the driver.
    return on(device, [&] {
      return cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal);
    });
  }
  RuntimeResult end_recording(int device, RuntimeStream stream, RuntimeGraph& out) override {
    out = nullptr;
    cudaGraph_t recorded = nullptr;
    cudaGraphExec_t ready = nullptr;
    const RuntimeResult result = on(device, [&] {
      const cudaError_t ended = cudaStreamEndCapture(stream_of(stream), &recorded);
      if (ended != cudaSuccess || recorded == nullptr) return ended;
      return cudaGraphInstantiate(&ready, recorded, 0);
    });
    if (recorded != nullptr) (void)cudaGraphDestroy(recorded);
    if (result.ok()) out = ready;
    return result;
  }
  RuntimeResult run_graph(int device, RuntimeStream stream, RuntimeGraph graph) override {
    return on(device, [&] { return cudaGraphLaunch(graph_of(graph), stream_of(stream)); });
  }
  RuntimeResult destroy_graph(int device, RuntimeGraph graph) override {
    return on(device, [&] { return cudaGraphExecDestroy(graph_of(graph)); });
  }

 private:
  static RuntimeResult with_flag(int device, StreamFlag call, RuntimeStream stream,
                                 const uint32_t* flag, uint32_t value, unsigned int how) {
    if (call == nullptr) {
      return {.fault = RuntimeFault::kInvalid, .code = 0, .text = "the driver knows no flags"};
    }
    CUresult code = CUDA_SUCCESS;
    const RuntimeResult selected = on(device, [&] {
      code = call(stream_of(stream), reinterpret_cast<CUdeviceptr>(flag), value, how);
      return cudaSuccess;
    });
    if (!selected.ok() || code == CUDA_SUCCESS) return selected;
    // The runtime's errors have the driver's numbers.
    return answer(static_cast<cudaError_t>(code));
  }

  const StreamFlag wait_value_ = driver_call("cuStreamWaitValue32");
  const StreamFlag write_value_ = driver_call("cuStreamWriteValue32");
};

}  // namespace

Result<std::shared_ptr<Runtime>> make_cuda_runtime() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    if (driver == 0) {
      return unavailable("no NVIDIA driver is running; install one, or leave the cuda devices out "
                         "with --devices");
    }
    return unavailable(
        "the NVIDIA driver supports CUDA {} and this build needs {}; install a newer driver",
        version_text(driver), version_text(CUDART_VERSION));
  }
  if (error == cudaErrorNoDevice) {
    return unavailable("the NVIDIA driver shows no devices; check that the card is visible to "
                       "nvidia-smi, or leave the cuda devices out with --devices");
  }
  if (error != cudaSuccess) {
    return unavailable("the CUDA runtime does not start: {}: {}", cudaGetErrorName(error),
                       cudaGetErrorString(error));
  }
  return std::shared_ptr<Runtime>(std::make_shared<CudaRuntime>());
}

}  // namespace strata::gpu
