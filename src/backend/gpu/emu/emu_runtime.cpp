#include "backend/gpu/emu/emu_runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <boost/version.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "backend/gpu/emu/addresses.h"
#include "backend/gpu/emu/block_pool.h"
#include "backend/gpu/emu/device_state.h"
#include "backend/gpu/emu/faults.h"
#include "backend/gpu/emu/fiber.h"
#include "backend/gpu/emu/launch.h"
#include "backend/gpu/emu/random.h"
#include "backend/gpu/emu/spec.h"

namespace strata::gpu {
namespace emu {
namespace {

class Runtime final : public EmuRuntime {
 public:
  Runtime(std::vector<DeviceSpec> specs, const ImageList& images)
      : pool_(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u)) - 1) {
    for (size_t i = 0; i < specs.size(); ++i) {
      devices_.push_back(std::make_unique<DeviceState>(std::move(specs[i]), static_cast<int>(i)));
    }
    for (const KernelImage& image : images) {
      code_objects_.emplace(image.entry, CodeObject{image.key.kernel, image.group});
    }
  }

  ~Runtime() override {
    // Work of one device may wait for work of another: streams end before any memory goes.
    for (const auto& device : devices_) device->hold({});
    for (const auto& device : devices_) device->drain();
    for (const auto& device : devices_) device->drop_streams();
    for (const auto& [address, bytes] : pinned_) std::free(reinterpret_cast<void*>(address));
  }

  const char* kind() const override { return "emu"; }
  std::string driver_version() const override { return "1.0"; }

  std::vector<RuntimeLibrary> libraries() const override {
    Dl_info info{};
    const auto* address = reinterpret_cast<const void*>(&boost::context::detail::jump_fcontext);
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
    std::string version = BOOST_LIB_VERSION;
    std::replace(version.begin(), version.end(), '_', '.');
    return {{.name = "libboost_context", .path = info.dli_fname, .version = version}};
  }

  RuntimeResult device_count(int& count) override {
    count = static_cast<int>(devices_.size());
    return {};
  }

  RuntimeResult device(int ordinal, RuntimeDevice& out) override {
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(ordinal, state); !entered.ok()) return entered;
    const DeviceSpec& spec = state->spec;
    out = {.arch = spec.arch,
           .group = spec.group,
           .name = spec.name,
           .stable_id = fmt::format("emu:0000:{:02x}:00.0", ordinal + 3),
           .multiprocessors = spec.multiprocessors,
           .wave = spec.wave,
           .memory_bytes = spec.memory_bytes,
           .shared_bytes = spec.shared_bytes,
           .integrated = spec.integrated};
    return {};
  }

  RuntimeResult memory_info(int device, uint64_t& free_bytes, uint64_t& total_bytes) override {
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    total_bytes = state->memory.budget();
    free_bytes = total_bytes - state->memory.used();
    return {};
  }

  // ---- memory ----

  RuntimeResult allocate(int device, size_t bytes, void*& out) override {
    out = nullptr;
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    if (records_now(device)) return not_while_recording("memory is allocated");
    if (++state->allocation_calls == state->spec.fail_allocation) return out_of_memory();
    if (bytes == 0) return {};
    out = state->memory.allocate(bytes);
    return out == nullptr ? out_of_memory() : RuntimeResult{};
  }

  RuntimeResult release(int device, void* data) override {
    DeviceState* state = nullptr;
    RuntimeResult entered = enter(device, state);
    if (state == nullptr) return entered;
    if (data == nullptr) return entered;
    if (records_now(device)) return not_while_recording("memory is released");
    // As the vendors' runtimes do: nothing in flight may still use the memory.
    state->drain();
    if (!state->memory.release(data)) {
      return invalid("the address to release is not the start of an allocation of this device");
    }
    return entered;
  }

  RuntimeResult allocate_pinned(int device, size_t bytes, void*& out) override {
    out = nullptr;
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    if (bytes == 0) return {};
    out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (out == nullptr) return out_of_memory();
    const std::lock_guard lock(mutex_);
    pinned_.emplace(reinterpret_cast<uintptr_t>(out), bytes);
    return {};
  }

  RuntimeResult release_pinned(int device, void* data) override {
    DeviceState* state = nullptr;
    RuntimeResult entered = enter(device, state);
    if (state == nullptr || data == nullptr) return entered;
    for (const auto& each : devices_) each->drain();
    const std::lock_guard lock(mutex_);
    if (pinned_.erase(reinterpret_cast<uintptr_t>(data)) == 0) {
      return invalid("the address to release is not the start of pinned memory");
    }
    std::free(data);
    return entered;
  }

  // ---- streams and events ----

  RuntimeResult create_stream(int device, RuntimeStream& out) override {
    out = nullptr;
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    const uint64_t number = state->streams_made++;
    out = state->add(
        std::make_shared<Stream>(mix(state->spec.seed, number), state->spec.max_delay_us));
    return {};
  }

  RuntimeResult destroy_stream(int device, RuntimeStream stream) override {
    DeviceState* state = nullptr;
    RuntimeResult entered = enter(device, state);
    if (state == nullptr) return entered;
    auto removed = state->remove(stream);
    if (removed == nullptr) return invalid_handle("the stream is not one of this device");
    removed->drain();
    return entered;
  }

  RuntimeResult synchronize(int device, RuntimeStream stream) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    queue->drain();
    if (auto overrun = state->memory.find_overrun()) {
      state->set_error(launch_failure(std::move(*overrun)));
    }
    return state->error();
  }

  RuntimeResult create_event(int device, RuntimeEvent& out) override {
    out = nullptr;
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    auto event = std::make_shared<Event>(device);
    out = event.get();
    const std::lock_guard lock(mutex_);
    events_.emplace(out, std::move(event));
    return {};
  }

  RuntimeResult destroy_event(int device, RuntimeEvent event) override {
    DeviceState* state = nullptr;
    RuntimeResult entered = enter(device, state);
    if (state == nullptr) return entered;
    const std::lock_guard lock(mutex_);
    if (events_.erase(event) == 0) return invalid_handle("not an event");
    return entered;
  }

  RuntimeResult record(int device, RuntimeEvent event, RuntimeStream stream) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    const auto found = find_event(event);
    if (found == nullptr) return invalid_handle("not an event");
    if (found->device() != device) {
      return invalid_handle("an event is recorded on streams of its own device only");
    }
    queue->submit([moment = found->record()] { moment->reach(); });
    return {};
  }

  RuntimeResult wait(int device, RuntimeStream stream, RuntimeEvent event) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    const auto found = find_event(event);
    if (found == nullptr) return invalid_handle("not an event");
    if (auto moment = found->latest()) {
      queue->submit([moment = std::move(moment)] { moment->wait(); });
    }
    return {};
  }

  RuntimeResult synchronize_event(int device, RuntimeEvent event) override {
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    const auto found = find_event(event);
    if (found == nullptr) return invalid_handle("not an event");
    if (auto moment = found->latest()) moment->wait();
    return state->error();
  }

  RuntimeResult query_event(int device, RuntimeEvent event, bool& done) override {
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    const auto found = find_event(event);
    if (found == nullptr) return invalid_handle("not an event");
    const auto moment = found->latest();
    done = moment == nullptr || moment->reached();
    return {};
  }

  RuntimeResult elapsed(int device, RuntimeEvent begin, RuntimeEvent end, float& ms) override {
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    const auto first = find_event(begin);
    const auto last = find_event(end);
    if (first == nullptr || last == nullptr) return invalid_handle("not an event");
    const auto from = first->latest();
    const auto to = last->latest();
    if (from == nullptr || to == nullptr || !from->reached() || !to->reached()) {
      return invalid_handle(
          "time is known between events that were recorded and have been reached");
    }
    ms = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
    return {};
  }

  // ---- copies ----

  RuntimeResult copy(int device, RuntimeStream stream, void* dst, const void* src, size_t bytes,
                     CopyKind kind) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    const uint64_t number = ++state->copies;
    if (bytes == 0) return {};
    if (kind != CopyKind::kToHost && !state->memory.holds(dst, bytes)) {
      return invalid(state->misplaced("the destination", owner_of(dst, 1), dst, bytes));
    }
    if (kind != CopyKind::kToDevice && !state->memory.holds(src, bytes)) {
      return invalid(state->misplaced("the source", owner_of(src, 1), src, bytes));
    }
    const void* host = kind == CopyKind::kToHost ? dst : src;
    if (kind != CopyKind::kOnDevice && owner_of(host, bytes) != nullptr) {
      return invalid(fmt::format("the host's side of the copy is memory of device {}",
                                 owner_of(host, bytes)->ordinal));
    }
    if (RuntimeResult counted = state->count_copy(*queue, number); !counted.ok()) return counted;
    const bool asynchronous = kind == CopyKind::kOnDevice || is_pinned(host, bytes);
    if (kind == CopyKind::kToDevice && !asynchronous) {
      auto staged = std::make_shared<std::vector<std::byte>>(
          static_cast<const std::byte*>(src), static_cast<const std::byte*>(src) + bytes);
      queue->submit([state, dst, staged = std::move(staged)] {
        if (!state->failed()) std::memcpy(dst, staged->data(), staged->size());
      });
      return {};
    }
    const uint64_t first_wrong = state->spec.corrupt_copy_to_host;
    const bool wrong =
        kind == CopyKind::kToHost && ++state->copies_to_host >= first_wrong && first_wrong != 0;
    queue->submit([state, dst, src, bytes, wrong, kind, asynchronous] {
      if (asynchronous) state->pass_copy(kind, bytes);
      if (state->failed()) return;
      std::memmove(dst, src, bytes);
      if (wrong) corrupt(state->spec, dst, bytes);
      ++state->copies_done[static_cast<size_t>(kind)];
    });
    if (asynchronous) return {};
    queue->drain();
    return state->error();
  }

  RuntimeResult fill_zero(int device, RuntimeStream stream, void* dst, size_t bytes) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    if (bytes == 0) return {};
    if (!state->memory.holds(dst, bytes)) {
      return invalid(state->misplaced("the destination", owner_of(dst, 1), dst, bytes));
    }
    queue->submit([state, dst, bytes] {
      if (!state->failed()) std::memset(dst, 0, bytes);
    });
    return {};
  }

  RuntimeResult can_copy_peer(int to, int from, bool& can) override {
    can = false;
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(to, state); !entered.ok()) return entered;
    if (from < 0 || from >= static_cast<int>(devices_.size())) return no_device(from);
    const DeviceSpec& other = devices_[static_cast<size_t>(from)]->spec;
    can = to != from && state->spec.vendor == other.vendor && state->spec.peer && other.peer;
    return {};
  }

  RuntimeResult copy_peer(int to, RuntimeStream stream_of_to, void* dst, int from, const void* src,
                          size_t bytes) override {
    bool can = false;
    if (RuntimeResult asked = can_copy_peer(to, from, can); !asked.ok()) return asked;
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(to, stream_of_to, state, queue); !entered.ok()) {
      return entered;
    }
    DeviceState* source = devices_[static_cast<size_t>(from)].get();
    if (!can) {
      return fault(RuntimeFault::kInvalid, 217, "emuErrorPeerAccessUnsupported",
                   fmt::format("devices {} and {} cannot copy directly", to, from));
    }
    const uint64_t number = ++state->copies;
    const uint64_t direct = ++state->peer_copies;
    if (bytes == 0) return {};
    if (!state->memory.holds(dst, bytes)) {
      return invalid(state->misplaced("the destination", owner_of(dst, 1), dst, bytes));
    }
    if (!source->memory.holds(src, bytes)) {
      return invalid(source->misplaced("the source", owner_of(src, 1), src, bytes));
    }
    if (RuntimeResult counted = state->count_copy(*queue, number); !counted.ok()) return counted;
    const DeviceSpec& spec = state->spec;
    const bool wrong = (spec.corrupt_peer_copy != 0 && direct >= spec.corrupt_peer_copy) ||
                       direct == spec.corrupt_one_peer_copy;
    queue->submit([state, source, dst, src, bytes, wrong] {
      if (state->failed() || source->failed()) return;
      std::memcpy(dst, src, bytes);
      if (wrong) corrupt(state->spec, dst, bytes);
    });
    return {};
  }

  // ---- kernels ----

  RuntimeResult function(int device, const void* entry, FunctionFacts& out) override {
    out = {};
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    if (!has_code(*state, entry)) return no_image(false);
    out = {.max_threads = BlockRunner::kMaxThreads,
           .registers = 64,
           .local_bytes = 0,
           .static_shared_bytes = 0};
    return {};
  }

  RuntimeResult allow_shared(int device, const void* entry, int bytes) override {
    DeviceState* state = nullptr;
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    if (!has_code(*state, entry)) return no_image(false);
    if (bytes < 0 || bytes > state->spec.shared_bytes) {
      return invalid(fmt::format("{} bytes of shared memory asked for; a block has at most {}",
                                 bytes, state->spec.shared_bytes));
    }
    state->allow_shared(entry, bytes);
    return {};
  }

  RuntimeResult launch(int device, RuntimeStream stream, const KernelImage& image, Grid grid,
                       int shared_bytes, const void* params) override;

  // ---- work that waits for the host ----

  bool waits_for_host(int device) override {
    return device >= 0 && device < static_cast<int>(devices_.size()) &&
           devices_[static_cast<size_t>(device)]->spec.host_waits;
  }

  RuntimeResult wait_for_host(int device, RuntimeStream stream, const uint32_t* flag,
                              uint32_t value) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    if (!state->spec.host_waits) return invalid("this device does not wait for the host");
    if (!is_pinned(flag, sizeof *flag)) return invalid("the flag does not lie in pinned memory");
    queue->submit([flag, value] { wait_for_flag(*flag, value); });
    return {};
  }

  RuntimeResult set_flag(int device, RuntimeStream stream, uint32_t* flag,
                         uint32_t value) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    if (!state->spec.host_waits) return invalid("this device sets no flags");
    if (!is_pinned(flag, sizeof *flag)) return invalid("the flag does not lie in pinned memory");
    queue->submit([state, flag, value] {
      if (!state->failed()) std::atomic_ref(*flag).store(value, std::memory_order_release);
    });
    return {};
  }

  // ---- recorded launches ----

  bool records(int device) override {
    return device >= 0 && device < static_cast<int>(devices_.size()) &&
           devices_[static_cast<size_t>(device)]->spec.graphs;
  }

  RuntimeResult begin_recording(int device, RuntimeStream stream) override {
    DeviceState* state = nullptr;
    std::shared_ptr<Stream> queue;
    if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
    if (!state->spec.graphs) return not_while_recording("this device records nothing: a call");
    const std::lock_guard lock(mutex_);
    recording_.emplace(stream, std::make_shared<Graph>(Graph{.device = device, .launches = {}}));
    return {};
  }

  RuntimeResult end_recording(int device, RuntimeStream stream, RuntimeGraph& out) override {
    out = nullptr;
    DeviceState* state = nullptr;
    const RuntimeResult entered = enter(device, state);
    if (state == nullptr) return entered;
    std::shared_ptr<Graph> graph;
    const std::lock_guard lock(mutex_);
    if (const auto it = recording_.find(stream); it != recording_.end()) {
      graph = std::move(it->second);
      recording_.erase(it);
    }
    if (!entered.ok()) return entered;
    if (graph == nullptr) return invalid_handle("nothing is recorded on the stream");
    if (graph->broken) {
      return fault(RuntimeFault::kInvalid, 901, "emuErrorStreamCaptureInvalidated",
                   "a call during the recording was refused");
    }
    if (graph->launches.empty()) return {};
    out = graph.get();
    graphs_.emplace(out, std::move(graph));
    return {};
  }

  RuntimeResult run_graph(int device, RuntimeStream stream, RuntimeGraph graph) override;

  RuntimeResult destroy_graph(int device, RuntimeGraph graph) override {
    DeviceState* state = nullptr;
    RuntimeResult entered = enter(device, state);
    if (state == nullptr) return entered;
    const std::lock_guard lock(mutex_);
    if (graphs_.erase(graph) == 0) return invalid_handle("not a graph");
    return entered;
  }

  // ---- for tests ----

  Counters counters(int device) const override {
    if (device < 0 || device >= static_cast<int>(devices_.size())) return {};
    const DeviceState& state = *devices_[static_cast<size_t>(device)];
    Counters out{.calls = state.calls,
                 .launches = state.launches,
                 .launches_done = state.launches_done,
                 .copies = state.copies,
                 .peer_copies = state.peer_copies,
                 .copies_to_device_done =
                     state.copies_done[static_cast<size_t>(CopyKind::kToDevice)],
                 .copies_to_host_done = state.copies_done[static_cast<size_t>(CopyKind::kToHost)],
                 .allocation_calls = state.allocation_calls,
                 .live_allocations = state.memory.allocations(),
                 .live_bytes = state.memory.used(),
                 .live_streams = state.live_streams()};
    const std::lock_guard lock(mutex_);
    for (const auto& [key, event] : events_) out.live_events += event->device() == device;
    for (const auto& [key, graph] : graphs_) out.live_graphs += graph->device == device;
    return out;
  }
  uint64_t live_pinned() const override {
    const std::lock_guard lock(mutex_);
    return pinned_.size();
  }
  void hold(int device, const EmuHold& what) override {
    devices_[static_cast<size_t>(device)]->hold(what);
  }
  int current_device() const override {
    const std::lock_guard lock(mutex_);
    const auto found = current_.find(std::this_thread::get_id());
    return found == current_.end() ? -1 : found->second;
  }

 private:
  struct CodeObject {
    Kernel kernel;
    std::string group;
  };

  // `state` is set whenever the device exists; the result is its standing error, if any.
  RuntimeResult enter(int device, DeviceState*& state) {
    if (device < 0 || device >= static_cast<int>(devices_.size())) return no_device(device);
    state = devices_[static_cast<size_t>(device)].get();
    ++state->calls;
    {
      const std::lock_guard lock(mutex_);
      current_[std::this_thread::get_id()] = device;
    }
    return state->error();
  }
  RuntimeResult enter(int device, RuntimeStream stream, DeviceState*& state,
                      std::shared_ptr<Stream>& queue) {
    if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
    queue = state->stream(stream);
    if (queue == nullptr) return invalid_handle("the stream is not one of this device");
    if (const auto graph = recording_on(stream)) {
      graph->broken = true;
      return not_while_recording("the stream does nothing but launch");
    }
    return {};
  }

  // What the stream records now; nullptr when its launches run.
  std::shared_ptr<Graph> recording_on(RuntimeStream stream) const {
    const std::lock_guard lock(mutex_);
    const auto it = recording_.find(stream);
    return it == recording_.end() ? nullptr : it->second;
  }
  bool records_now(int device) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(recording_.begin(), recording_.end(),
                       [&](const auto& each) { return each.second->device == device; });
  }

  void start(DeviceState* state, Stream& to, const KernelImage& image, Grid grid, int shared_bytes,
             const void* params, uint64_t number);

  std::shared_ptr<Event> find_event(RuntimeEvent event) const {
    const std::lock_guard lock(mutex_);
    const auto found = events_.find(event);
    return found == events_.end() ? nullptr : found->second;
  }

  const DeviceState* owner_of(const void* p, size_t bytes) const {
    return emu::owner_of(devices_, p, bytes);
  }

  bool is_pinned(const void* p, size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(p);
    auto it = pinned_.upper_bound(address);
    if (it == pinned_.begin()) return false;
    --it;
    const uintptr_t offset = address - it->first;
    return offset <= it->second && bytes <= it->second - offset;
  }

  bool has_code(const DeviceState& device, const void* entry) const {
    const auto [begin, end] = code_objects_.equal_range(entry);
    return std::any_of(begin, end, [&](const auto& entry_and_code) {
      const CodeObject& code = entry_and_code.second;
      const auto& dropped = device.spec.dropped;
      return code.group == device.spec.group &&
             std::find(dropped.begin(), dropped.end(), code.kernel) == dropped.end();
    });
  }

  BlockPool pool_;
  std::vector<std::unique_ptr<DeviceState>> devices_;
  std::multimap<const void*, CodeObject> code_objects_;

  mutable std::mutex mutex_;
  std::map<uintptr_t, size_t> pinned_;
  std::map<RuntimeEvent, std::shared_ptr<Event>> events_;
  std::map<RuntimeStream, std::shared_ptr<Graph>> recording_;
  std::map<RuntimeGraph, std::shared_ptr<Graph>> graphs_;
  std::map<std::thread::id, int> current_;
};

RuntimeResult Runtime::launch(int device, RuntimeStream stream, const KernelImage& image, Grid grid,
                              int shared_bytes, const void* params) {
  DeviceState* state = nullptr;
  if (RuntimeResult entered = enter(device, state); !entered.ok()) return entered;
  const auto queue = state->stream(stream);
  if (queue == nullptr) return invalid_handle("the stream is not one of this device");
  const std::shared_ptr<Graph> recording = recording_on(stream);
  const uint64_t number = recording != nullptr ? 0 : ++state->launches;
  RuntimeResult checked = check_geometry(*state, image, grid, shared_bytes);
  if (checked.ok()) checked = check_params(devices_, *state, image, params);
  if (recording != nullptr) {
    if (!checked.ok()) {
      recording->broken = true;
      return checked;
    }
    const auto* bytes = static_cast<const std::byte*>(params);
    recording->launches.push_back({image, grid, shared_bytes, {bytes, bytes + image.params_bytes}});
    return {};
  }
  if (!checked.ok()) return checked;
  if (number == state->spec.fail_launch) return launch_refused(kernel_name(image.key.kernel));
  start(state, *queue, image, grid, shared_bytes, params, number);
  return {};
}

// As the real runtimes: what a graph was recorded with must still be there; a launch that is
// refused refuses the whole graph.
RuntimeResult Runtime::run_graph(int device, RuntimeStream stream, RuntimeGraph graph) {
  DeviceState* state = nullptr;
  std::shared_ptr<Stream> queue;
  if (RuntimeResult entered = enter(device, stream, state, queue); !entered.ok()) return entered;
  std::shared_ptr<Graph> found;
  {
    const std::lock_guard lock(mutex_);
    const auto it = graphs_.find(graph);
    if (it != graphs_.end()) found = it->second;
  }
  if (found == nullptr || found->device != device) {
    return invalid_handle("the graph is not one of this device");
  }
  const uint64_t before = state->launches.fetch_add(found->launches.size());
  for (size_t i = 0; i < found->launches.size(); ++i) {
    const RecordedLaunch& launch = found->launches[i];
    RuntimeResult checked = check_params(devices_, *state, launch.image, launch.params.data());
    if (!checked.ok()) return checked;
    if (before + i + 1 == state->spec.fail_launch) {
      return launch_refused(kernel_name(launch.image.key.kernel));
    }
  }
  for (size_t i = 0; i < found->launches.size(); ++i) {
    const RecordedLaunch& launch = found->launches[i];
    start(state, *queue, launch.image, launch.grid, launch.shared_bytes, launch.params.data(),
          before + i + 1);
  }
  return {};
}

// Runs a checked launch, the `number`-th of its device.
void Runtime::start(DeviceState* state, Stream& to, const KernelImage& image, Grid grid,
                    int shared_bytes, const void* params, uint64_t number) {
  Stream* const queue = &to;
  if (number == state->spec.lose_at_launch) {
    state->set_error(lost());
    return;
  }
  // As the real runtimes: accepted, and wrong later.
  if (number == state->spec.late_error_at_launch) {
    queue->submit(
        [state] { state->set_error(launch_failure("an illegal memory access was encountered")); });
    return;
  }
  if (image.group != state->spec.group || !has_code(*state, image.entry)) {
    queue->submit([state] { state->set_error(no_image(true)); });
    return;
  }

  auto staged = stage(*state, image, grid, shared_bytes, params);
#if defined(STRATA_EMU_RACE)
  {
    const std::lock_guard lock(mutex_);
    staged->launch.shadow = &staged->shadow.emplace(reachable(*state, pinned_));
  }
#endif
  queue->submit([this, state, kernel = kernel_name(image.key.kernel), staged = std::move(staged),
                 seed = mix(state->spec.seed, number)] {
    state->pass_launch();
    if (state->failed()) return;
    if (auto failure = pool_.run(staged->launch, seed)) {
      state->set_error(launch_failure(fmt::format("kernel {} on device {} ({}): {}", kernel,
                                                  state->ordinal, state->spec.name, *failure)));
    }
    ++state->launches_done;
  });
}

}  // namespace
}  // namespace emu

Result<std::unique_ptr<EmuRuntime>> make_emu_runtime(std::vector<std::string> specs, uint64_t seed,
                                                     const ImageList& images) {
  std::vector<emu::DeviceSpec> parsed;
  for (size_t i = 0; i < specs.size(); ++i) {
    STRATA_ASSIGN_OR_RETURN(emu::DeviceSpec spec,
                            emu::parse_device_spec(specs[i], emu::mix(seed, i)));
    parsed.push_back(std::move(spec));
  }
  return std::unique_ptr<EmuRuntime>(std::make_unique<emu::Runtime>(std::move(parsed), images));
}

}  // namespace strata::gpu
