// Runs one block of a launch: its threads as fibers on the calling thread, one at a time.
//
// A fiber runs threads of the block one after another until one of them has to wait; so a block in
// which nothing waits is a loop on one stack. A rendezvous is complete when its last thread
// arrives; when nothing can run and threads still wait, the block is stuck, which ends the launch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/gpu/emu/fiber.h"
#include "backend/gpu/prim/prim_emu.h"
#include "backend/gpu/runtime.h"

#if defined(STRATA_EMU_RACE)
#include "backend/gpu/emu/race.h"
#endif

namespace strata::gpu::emu {

// One launch, as every block of it needs it.
struct KernelLaunch {
  void (*entry)(const Thread& t, const void* params) = nullptr;
  const void* params = nullptr;
  size_t params_bytes = 0;
  int threads = 0;
  int shared_bytes = 0;
  Grid grid;  // fewer than 2^32 blocks
  // The group has copies that are in flight until they are waited for.
  bool async_copies = false;
#if defined(STRATA_EMU_RACE)
  LaunchShadow* shadow = nullptr;
#endif
};

class BlockRunner {
 public:
  static constexpr int kMaxThreads = 1024;
  static constexpr int kMaxSharedBytes = 256 * 1024;

  BlockRunner();
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Runs block (x, y, z). `random` picks the order of its waves and lanes. Returns what went wrong,
  // as the end of a sentence that begins with the kernel's name.
  std::optional<std::string> run(const KernelLaunch& launch, Grid block, uint64_t random);

  // For the functions of prim_emu.h, on a fiber.
  void barrier(int thread);
  void wave_barrier(int thread);
  uint32_t shuffle(int thread, uint32_t bits, int lane);
  uint32_t ballot(int thread, bool predicate);
  void matrix_product(int thread, matrix::Instruction instruction, const uint32_t* a,
                      const uint32_t* b, int* c);
  int atomic_add(int thread, int* p, int v);
  void copy_async16(int thread, void* shared, const void* global);
  void copy_async_commit(int thread);
  void copy_async_wait(int thread, int groups);
  // Ends the block. What its fibers were doing is forgotten: nothing on the calling stack is
  // destroyed but `what`.
  [[noreturn]] void fail(std::string what);

 private:
  // What a thread is doing. The wave operations are told apart, so that lanes that meet in
  // different ones are noticed.
  enum class State : uint8_t {
    kNotStarted,
    kRunning,
    kBarrier,
    kWaveBarrier,
    kShuffle,
    kBallot,
    kMmaS8_16x8x32,
    kMmaS8_16x8x16,
    kWmmaS8Gfx11,
    kWmmaS8Gfx12,
    kLeft,
  };
  struct BlockFiber;
  struct SharedMemory;
  struct Wave {
    int arrived = 0;
    uint32_t operations = 0;  // completed
    uint32_t syncs = 0;       // completed, of this block
    State state = State::kRunning;
    // Lanes may arrive at the next operation before all have read the results of this one.
    std::array<std::array<uint32_t, 32>, 2> values{};
    std::array<uint32_t, 2> ballots{};
    matrix::WaveOperands operands{};
    int results[32][8] = {};
  };

  static const char* state_name(State state);
  static void fiber_main(Fiber& self);

  void run_threads(BlockFiber& self);
  int thread_at(int position) const;
  // Waits until the wave's operation is complete; true for the lane that completed it, which has
  // not released the others yet.
  bool arrive(int thread, State state);
  void release(int wave, int thread);
  void suspend(int thread);
  // `thread` runs from here on.
  void resumed(int thread);
  // nullptr when the system has no memory for another stack.
  BlockFiber* idle_fiber();
  // Threads [first, first + count) can go on.
  void push_ready(int first, int count);
  BlockFiber* pop_ready();
  void finish_copies(BlockFiber& fiber, size_t keep_groups);
  std::string describe_stuck() const;
  void reset_after_failure();

  BlockView view_;
  const KernelLaunch* launch_ = nullptr;
  std::unique_ptr<SharedMemory> shared_memory_;

  std::vector<std::unique_ptr<BlockFiber>> fibers_;
  std::vector<BlockFiber*> idle_;
  // Threads that can go on, as ranges, in the order in which they will.
  struct Range {
    int first, count;
  };
  static constexpr uint32_t kRanges = kMaxThreads;  // a power of 2
  std::array<Range, kRanges> ready_{};
  uint32_t ready_head_ = 0;
  uint32_t ready_tail_ = 0;
  Fiber main_;
  BlockFiber* current_ = nullptr;

  std::array<BlockFiber*, kMaxThreads> fiber_of_{};
  std::array<State, kMaxThreads> state_{};
  std::unique_ptr<Wave[]> waves_;
  int started_ = 0;
  int left_ = 0;
  int at_barrier_ = 0;
  uint32_t barriers_ = 0;
  // The order in which threads start.
  int first_wave_ = 0;
  int wave_step_ = 1;
  int lane_mask_ = 0;
  bool late_copies_ = false;

  std::string failure_;

#if defined(STRATA_EMU_RACE)
  RaceRecorder race_;
#endif
};

}  // namespace strata::gpu::emu
