// A GPU as a device: one class for every runtime (CUDA, HIP, the emulator). All facts of a card, all
// choices made from them, its kernel images and its scratch live in this object.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/gpu/image.h"
#include "backend/gpu/runtime.h"

namespace strata::gpu {

class GpuDevice;

// The images of one device's group that passed the probe.
class ImageTable {
 public:
  void add(const KernelImage* image);
  // nullptr when the module or this device does not have it.
  const KernelImage* find(ImageKey key) const;

 private:
  static constexpr int kVariants = 8;
  static constexpr int kTypes = kQuantTypeCount + 1;
  std::vector<const KernelImage*> slots_ =
      std::vector<const KernelImage*>(size_t{kKernelCount} * kTypes * kVariants, nullptr);
};

// What the work submitted next belongs to: ("layer", 7).
struct Mark {
  const char* what = "";
  int index = -1;

  std::string text() const;  // " in layer 7"; empty outside of any
};

// Consecutive launches: what a late error is attributed to.
struct Launches {
  struct Launch {
    ImageKey key{};
    Mark mark;

    std::string text() const;
  };
  uint64_t count = 0;
  int steps = 0;  // runs between two places that a lane follows, some of them unfinished
  Launch first{}, last{};

  void add(const Launches& more) {
    if (more.count == 0) return;
    if (count == 0) first = more.first;
    last = more.last;
    count += more.count;
    steps += more.steps;
  }
  // "; the fault lies in one of 12 kernels launched since it was last well, from HcNorm in layer 4 to
  // SwiGlu in layer 5". Empty when there are none.
  std::string text() const;
};

// The one in-order queue of a GPU device. Not thread-safe.
class GpuStream final : public backend::Stream {
 public:
  GpuStream(GpuDevice& device, RuntimeStream stream) : device_(device), stream_(stream) {}

  backend::Device& device() override;
  Status synchronize() override;
  void mark(const char* what, int index) override;
  bool waits_for_host() const override;
  Status wait_for_host(const uint32_t* flag, uint32_t value) override;
  Status set_flag(uint32_t* flag, uint32_t value) override;
  bool records() const override;
  Result<std::unique_ptr<backend::Recording>> record(const std::function<Status()>& work) override;

  // Starts one kernel. Fails with kFailedPrecondition when the device lacks the image, naming it;
  // with kUnavailable when the runtime refuses the launch.
  template <class Params>
  Status launch(ImageKey key, Grid grid, const Params& params, int shared_bytes = 0) {
    return launch_raw(key, grid, &params, sizeof params, shared_bytes);
  }
  // The geometry a driver computes its grid from. Fails like launch().
  Result<const KernelImage*> image(ImageKey key);

  // Device memory that the op being launched may use until its own kernels end; the next op of this
  // stream reuses it. Grows to the largest request, which waits for the stream; contents undefined.
  // One request per op.
  Result<void*> scratch(size_t bytes);

  // Where the work lies that a late error may come from: what was launched and is not known to be
  // done.
  Launches unfinished() const;
  // What the work submitted now belongs to.
  const Mark& mark() const { return mark_; }
  std::string place() const { return mark_.text(); }
  // Fails, naming `doing`, while work is recorded, which knows launches only.
  Status refuse_recorded(const char* doing) const;

  // A place in the work, for known_done(): all that was launched so far is before it.
  uint64_t place_number();
  // All work before the place is done and the device was well. From any thread.
  void known_done(uint64_t place_number);

  GpuDevice& gpu() { return device_; }
  RuntimeStream raw() { return stream_; }

 private:
  friend class GpuRecording;
  Status launch_raw(ImageKey key, Grid grid, const void* params, size_t params_bytes,
                    int shared_bytes);
  void add_unfinished(const Launches& launches);

  GpuDevice& device_;
  RuntimeStream stream_;
  backend::Buffer scratch_;
  uint64_t scratch_changes_ = 0;

  // Launches between places that were numbered; the number is that of the place at their end.
  struct Step {
    uint64_t number;
    Launches launches;
  };
  Mark mark_;
  std::vector<Step> steps_;  // that are not known to be done, oldest first; the last one grows
  uint64_t next_number_ = 1;
  std::atomic<uint64_t> done_number_{0};
  Launches* recorded_ = nullptr;    // where launches are counted that are recorded, not run
};

inline GpuStream& gpu_stream(backend::Stream& stream) { return static_cast<GpuStream&>(stream); }

// Features a kernel row of a GPU may need (DeviceCaps::features).
inline constexpr backend::FeatureSet kGpuMmaS8 = 1u << 0;
inline constexpr backend::FeatureSet kGpuWmmaS8Gfx11 = 1u << 1;
inline constexpr backend::FeatureSet kGpuWmmaS8Gfx12 = 1u << 2;

struct GpuDeviceOptions {
  std::string id;                    // the name it is given: "cuda:0"
  backend::KernelPolicy kernels;
  uint64_t reserve_bytes = 0;        // left free for others on the card
  uint64_t memory_limit_bytes = 0;   // 0: all that is free
  bool graphs = true;                // decode steps may be recorded and replayed
  bool peer = true;                  // other cards may copy directly from and to it
};

class GpuDevice final : public backend::Device {
 public:
  ~GpuDevice() override;

  const backend::DeviceCaps& caps() const override { return caps_; }
  const backend::KernelTable& kernels() const override { return *kernels_; }
  backend::Stream& stream() override { return *stream_; }
  Result<backend::Buffer> allocate(size_t bytes) override;
  Status copy_to_device(void* device_dst, const void* host_src, size_t bytes) override;
  Status copy_to_host(void* host_dst, const void* device_src, size_t bytes) override;
  Status start_copy_to_host(void* host_dst, const void* device_src, size_t bytes) override;
  Status copy_on_device(void* dst, const void* src, size_t bytes) override;
  Status zero(void* device_dst, size_t bytes) override;
  Result<std::shared_ptr<void>> allocate_host(size_t bytes) override;
  Result<std::unique_ptr<backend::CopyLane>> make_copy_lane() override;
  Result<uint64_t> free_bytes() override;
  const void* driver() const override { return runtime_.get(); }
  Status may_copy_from(backend::Device& other) override;
  Status start_checksum(const void* data, size_t bytes, uint64_t* device_parts) override;
  bool shares_host_memory() const override { return false; }

  // "hip:1 gfx1030 AMD Radeon RX 6950 XT", as messages name it.
  const std::string& title() const { return title_; }
  const RuntimeDevice& facts() const { return facts_; }
  Runtime& runtime() { return *runtime_; }
  int ordinal() const { return ordinal_; }
  const ImageTable& images() const { return images_; }
  GpuStream& gpu_stream() { return *stream_; }
  bool records() const { return records_; }
  bool waits_for_host() const { return waits_for_host_; }

  // A failed runtime call as a sentence: which device, what was being done, what the runtime said.
  // An error that stays came from work before the call, which is then named too: `unfinished`, or what
  // the stream has not finished.
  Status failure(const RuntimeResult& result, const std::string& doing) const;
  Status failure(const RuntimeResult& result, const std::string& doing,
                 const Launches& unfinished) const;

 private:
  friend Result<std::unique_ptr<GpuDevice>> open_gpu_device(std::shared_ptr<Runtime>,
                                                            const ImageList&, int,
                                                            const GpuDeviceOptions&);
  GpuDevice() = default;
  void release(void* data, size_t bytes) override;

  std::shared_ptr<Runtime> runtime_;
  int ordinal_ = 0;
  RuntimeDevice facts_;
  backend::DeviceCaps caps_;
  std::string title_;
  GpuDeviceOptions options_;
  ImageTable images_;
  std::optional<backend::KernelTable> kernels_;
  std::unique_ptr<GpuStream> stream_;
  uint64_t allocated_ = 0;
  bool records_ = false;
  bool waits_for_host_ = false;
};

// Opens device `ordinal`: reads its facts, refuses an architecture that `images` do not serve (the
// message says what to build), probes every image of its group on it, builds its kernel table. All
// images that fail the probe are in one message. `images` must outlive the device.
Result<std::unique_ptr<GpuDevice>> open_gpu_device(std::shared_ptr<Runtime> runtime,
                                                   const ImageList& images, int ordinal,
                                                   const GpuDeviceOptions& options);

// The op rows that GPU devices choose among; const data.
std::vector<std::span<const backend::KernelSpec>> gpu_rows();

}  // namespace strata::gpu
