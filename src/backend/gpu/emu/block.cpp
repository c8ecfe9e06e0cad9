#include "backend/gpu/emu/block.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace strata::gpu::emu {

namespace {

constexpr unsigned char kPoison = 0xff;  // NaN, -1
constexpr unsigned char kCanary = 0xa5;
constexpr int kCanaryBytes = 64;
constexpr const char* kNoStack = "cannot run: the system has no memory for another fiber's stack";

int lane_of(int thread) { return thread & 31; }
int wave_of(int thread) { return thread >> 5; }

}  // namespace

struct BlockRunner::SharedMemory {
  alignas(256) std::byte bytes[kMaxSharedBytes + kCanaryBytes];
};

struct BlockRunner::BlockFiber : Fiber {
  FiberStack stack;
  struct Copy {
    void* to;
    const void* from;
    uint32_t group;
  };
  std::vector<Copy> copies;  // in flight, oldest first
  uint32_t open_group = 0;
};

BlockRunner::BlockRunner()
    : shared_memory_(std::make_unique<SharedMemory>()),
      waves_(std::make_unique<Wave[]>(kMaxThreads / 32))
#if defined(STRATA_EMU_RACE)
      ,
      race_(*this)
#endif
{
  view_.runner = this;
  view_.shared = shared_memory_->bytes;
}

BlockRunner::~BlockRunner() {
  for (const auto& fiber : fibers_) FiberStack::retire(*fiber);
}

// ---- scheduling ---------------------------------------------------------------------------------

int BlockRunner::thread_at(int position) const {
  const int waves = launch_->threads / 32;
  const int wave = (first_wave_ + wave_of(position) * wave_step_) % waves;
  return wave * 32 + (lane_of(position) ^ lane_mask_);
}

std::optional<std::string> BlockRunner::run(const KernelLaunch& launch, Grid block,
                                            uint64_t random) {
  launch_ = &launch;
  view_.shared_bytes = launch.shared_bytes;
  view_.threads = launch.threads;
  view_.x = block.x;
  view_.y = block.y;
  view_.z = block.z;
  view_.grid_x = launch.grid.x;
  view_.grid_y = launch.grid.y;
  view_.grid_z = launch.grid.z;
  std::memset(view_.shared, kPoison, static_cast<size_t>(launch.shared_bytes));
  std::memset(view_.shared + launch.shared_bytes, kCanary, kCanaryBytes);

  const int waves = launch.threads / 32;
  lane_mask_ = static_cast<int>(random & 31);
  first_wave_ = static_cast<int>((random >> 8 & 0xffff) % static_cast<uint64_t>(waves));
  wave_step_ = (random >> 5 & 1) != 0 ? 1 : waves - 1;
  late_copies_ = launch.async_copies && (random >> 6 & 1) != 0;
  started_ = 0;
  left_ = 0;
  at_barrier_ = 0;
  barriers_ = 0;
  for (int wave = 0; wave < waves; ++wave) waves_[wave].syncs = 0;
  std::memset(state_.data(), 0, static_cast<size_t>(launch.threads));

  BlockFiber* first = idle_fiber();
  if (first == nullptr) return kNoStack;
#if defined(STRATA_EMU_RACE)
  const auto params = reinterpret_cast<uintptr_t>(launch.params);
  const auto view = reinterpret_cast<uintptr_t>(&view_);
  const int64_t number = (int64_t{block.z} * launch.grid.y + block.y) * launch.grid.x + block.x + 1;
  race_.begin_block(view_.shared, launch.shared_bytes, *launch.shadow,
                    static_cast<uint32_t>(number),
                    {{{params, params + launch.params_bytes}, {view, view + sizeof view_}}});
#endif
  current_ = first;
  switch_fiber(main_, *first);
  current_ = nullptr;
#if defined(STRATA_EMU_RACE)
  race_.end_block();
#endif

  if (failure_.empty()) {
    for (int i = 0; i < kCanaryBytes; ++i) {
      if (view_.shared[launch.shared_bytes + i] != std::byte{kCanary}) {
        failure_ = fmt::format("wrote shared memory at offset {}, but a block has {} bytes of it",
                               launch.shared_bytes + i, launch.shared_bytes);
        break;
      }
    }
    if (failure_.empty()) return std::nullopt;
  } else {
    reset_after_failure();
  }
  return fmt::format("block ({}, {}, {}) {}", block.x, block.y, block.z,
                     std::exchange(failure_, {}));
}

void BlockRunner::fiber_main(Fiber& self) {
  static_cast<BlockRunner*>(self.owner)->run_threads(static_cast<BlockFiber&>(self));
}

void BlockRunner::run_threads(BlockFiber& self) {
  // Resumed only when a thread has not been started yet.
  for (;;) {
    const int thread = thread_at(started_++);
    fiber_of_[thread] = &self;
    state_[thread] = State::kRunning;
    resumed(thread);
    launch_->entry(Thread(&view_, thread), launch_->params);
    if (!self.copies.empty()) {
      ++self.open_group;
      finish_copies(self, 0);
    }
    state_[thread] = State::kLeft;
    ++left_;
    if (ready_head_ != ready_tail_) {
      idle_.push_back(&self);
      BlockFiber* next = pop_ready();
      current_ = next;
      switch_fiber(self, *next);
      continue;
    }
    if (started_ < launch_->threads) continue;
    if (left_ < launch_->threads) fail(describe_stuck());
    idle_.push_back(&self);
    switch_fiber(self, main_);
  }
}

BlockRunner::BlockFiber* BlockRunner::idle_fiber() {
  if (idle_.empty()) {
    auto fiber = std::make_unique<BlockFiber>();
    fiber->stack = FiberStack::map(static_cast<int>(fibers_.size()));
    if (!fiber->stack) return nullptr;
    fiber->owner = this;
    fiber->stack.reset(*fiber, &fiber_main);
    idle_.push_back(fiber.get());
    fibers_.push_back(std::move(fiber));
  }
  BlockFiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

inline void BlockRunner::push_ready(int first, int count) {
  if (count > 0) ready_[ready_tail_++ % kRanges] = {first, count};
}

inline BlockRunner::BlockFiber* BlockRunner::pop_ready() {
  Range& range = ready_[ready_head_ % kRanges];
  BlockFiber* fiber = fiber_of_[static_cast<size_t>(range.first++)];
  if (--range.count == 0) ++ready_head_;
  return fiber;
}

void BlockRunner::suspend(int thread) {
  BlockFiber* self = current_;
  BlockFiber* next = nullptr;
  if (ready_head_ != ready_tail_) {
    next = pop_ready();
  } else if (started_ < launch_->threads) {
    next = idle_fiber();
    if (next == nullptr) fail(kNoStack);
  } else {
    fail(describe_stuck());
  }
  if (next != self) {
    current_ = next;
    switch_fiber(*self, *next);
  }
  state_[thread] = State::kRunning;
  resumed(thread);
}

void BlockRunner::resumed([[maybe_unused]] int thread) {
#if defined(STRATA_EMU_RACE)
  const auto low = reinterpret_cast<uintptr_t>(current_->stack_low);
  race_.resume(thread, barriers_, waves_[wave_of(thread)].syncs,
               {low, low + current_->stack_bytes});
#endif
}

void BlockRunner::barrier(int thread) {
  state_[thread] = State::kBarrier;
  if (++at_barrier_ < launch_->threads) {
    suspend(thread);
    return;
  }
  at_barrier_ = 0;
  ++barriers_;
  // Not the wave that happened to be last, but each in turn goes on first.
  const int threads = launch_->threads;
  const int first = static_cast<int>(barriers_ * 7) % (threads / 32) * 32;
  push_ready(first, threads - first);
  push_ready(0, first);
  suspend(thread);
}

bool BlockRunner::arrive(int thread, State state) {
  Wave& wave = waves_[wave_of(thread)];
  state_[thread] = state;
  if (wave.arrived == 0) {
    wave.state = state;
  } else if (wave.state != state) {
    int other = wave_of(thread) * 32;
    while (state_[other] != wave.state) ++other;
    fail(fmt::format("diverged: thread {} is at {} while thread {} of the same wave waits at {}",
                     thread, state_name(state), other, state_name(wave.state)));
  }
  if (++wave.arrived < 32) {
    suspend(thread);
    return false;
  }
  wave.arrived = 0;
  ++wave.operations;
  return true;
}

void BlockRunner::release(int wave, int thread) {
  push_ready(wave * 32, lane_of(thread));
  push_ready(thread + 1, 31 - lane_of(thread));
  state_[thread] = State::kRunning;
}

void BlockRunner::fail(std::string what) {
  failure_ = std::move(what);
  switch_fiber(*current_, main_);
  __builtin_unreachable();
}

void BlockRunner::reset_after_failure() {
  idle_.clear();
  for (const auto& fiber : fibers_) {
    fiber->stack.reset(*fiber, &fiber_main);
    fiber->copies.clear();
    idle_.push_back(fiber.get());
  }
  ready_head_ = ready_tail_;
  for (int wave = 0; wave < kMaxThreads / 32; ++wave) {
    waves_[wave].arrived = 0;
    waves_[wave].ballots = {};
  }
}

const char* BlockRunner::state_name(State state) {
  switch (state) {
    case State::kNotStarted: return "its start";
    case State::kRunning: return "work";
    case State::kBarrier: return "sync()";
    case State::kWaveBarrier: return "sync_wave()";
    case State::kShuffle: return "a shuffle";
    case State::kBallot: return "a ballot";
    case State::kMmaS8_16x8x32: return "mma_s8_16x8x32";
    case State::kMmaS8_16x8x16: return "mma_s8_16x8x16";
    case State::kWmmaS8Gfx11: return "wmma_s8_gfx11";
    case State::kWmmaS8Gfx12: return "wmma_s8_gfx12";
    case State::kLeft: return "its end";
  }
  return "";
}

std::string BlockRunner::describe_stuck() const {
  // One part of the sentence per state in which threads are.
  std::string text;
  for (int s = static_cast<int>(State::kBarrier); s <= static_cast<int>(State::kLeft); ++s) {
    const State state = static_cast<State>(s);
    int count = 0;
    int first = -1;
    for (int thread = 0; thread < launch_->threads; ++thread) {
      if (state_[thread] != state) continue;
      if (count++ == 0) first = thread;
    }
    if (count == 0) continue;
    text += fmt::format("{}{} thread{} (the first: {}) {} {}", text.empty() ? "" : ", ", count,
                        count == 1 ? "" : "s", first,
                        state == State::kLeft ? "reached" : "waited at", state_name(state));
  }
  return fmt::format("is stuck after {} barriers: {}; every thread must reach each of them",
                     barriers_, text);
}

// ---- what threads ask for -----------------------------------------------------------------------

void BlockRunner::wave_barrier(int thread) {
  if (!arrive(thread, State::kWaveBarrier)) return;
  Wave& wave = waves_[wave_of(thread)];
  ++wave.syncs;
  release(wave_of(thread), thread);
  resumed(thread);
}

uint32_t BlockRunner::shuffle(int thread, uint32_t bits, int lane) {
  if (lane < 0 || lane > 31) {
    fail(fmt::format("shuffles from lane {}: a wave has the lanes 0 to 31 (thread {})", lane,
                     thread));
  }
  Wave& wave = waves_[wave_of(thread)];
  auto& values = wave.values[wave.operations & 1];
  values[lane_of(thread)] = bits;
  if (arrive(thread, State::kShuffle)) release(wave_of(thread), thread);
  return values[lane];
}

uint32_t BlockRunner::ballot(int thread, bool predicate) {
  Wave& wave = waves_[wave_of(thread)];
  const uint32_t parity = wave.operations & 1;
  if (wave.arrived == 0) wave.ballots[parity] = 0;
  wave.ballots[parity] |= static_cast<uint32_t>(predicate) << lane_of(thread);
  if (arrive(thread, State::kBallot)) release(wave_of(thread), thread);
  return wave.ballots[parity];
}

void BlockRunner::matrix_product(int thread, matrix::Instruction instruction, const uint32_t* a,
                                 const uint32_t* b, int* c) {
  Wave& wave = waves_[wave_of(thread)];
  const int lane = lane_of(thread);
  const matrix::OperandWords words = matrix::operand_words(instruction);
  std::memcpy(wave.operands.a[lane], a, static_cast<size_t>(words.a) * 4);
  std::memcpy(wave.operands.b[lane], b, static_cast<size_t>(words.b) * 4);
  std::memcpy(wave.operands.c[lane], c, static_cast<size_t>(words.c) * 4);
  const auto state =
      static_cast<State>(static_cast<int>(State::kMmaS8_16x8x32) + static_cast<int>(instruction));
  if (arrive(thread, state)) {
    if (!matrix::multiply(instruction, wave.operands)) {
      fail(
          fmt::format("gives {} operands that differ between the two halves of wave {}; lanes l "
                      "and l + 16 must hold the same",
                      state_name(state), wave_of(thread)));
    }
    std::memcpy(wave.results, wave.operands.c, sizeof wave.results);
    release(wave_of(thread), thread);
  }
  std::memcpy(c, wave.results[lane], static_cast<size_t>(words.c) * 4);
}

int BlockRunner::atomic_add(int, int* p, int v) {
#if defined(STRATA_EMU_RACE)
  race_.access(p, sizeof *p, Access::kAtomic);
#endif
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

void BlockRunner::copy_async16(int thread, void* shared, const void* global) {
  const auto to = reinterpret_cast<uintptr_t>(shared);
  const auto base = reinterpret_cast<uintptr_t>(view_.shared);
  if (to < base || to + 16 > base + static_cast<uintptr_t>(view_.shared_bytes)) {
    fail(fmt::format("copies to an address outside its shared memory (thread {})", thread));
  }
  if (to % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0) {
    fail(fmt::format("copies 16 bytes between addresses that are not aligned to 16 (thread {})",
                     thread));
  }
  BlockFiber& self = *current_;
  self.copies.push_back({shared, global, self.open_group});
  if (!late_copies_) finish_copies(self, 0);
}

void BlockRunner::copy_async_commit(int) { ++current_->open_group; }

void BlockRunner::copy_async_wait(int, int groups) {
  finish_copies(*current_, static_cast<size_t>(groups));
}

void BlockRunner::finish_copies(BlockFiber& fiber, size_t keep_groups) {
  // Copies of the group that is still open are in flight after any wait.
  size_t done = 0;
  for (; done < fiber.copies.size(); ++done) {
    const BlockFiber::Copy& copy = fiber.copies[done];
    if (late_copies_ && copy.group + keep_groups >= fiber.open_group) break;
#if defined(STRATA_EMU_RACE)
    race_.access(copy.to, 16, Access::kWrite);
    race_.access(copy.from, 16, Access::kRead);
#endif
    std::memcpy(copy.to, copy.from, 16);
  }
  fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + static_cast<ptrdiff_t>(done));
}

// ---- prim_emu.h ---------------------------------------------------------------------------------

namespace {
BlockRunner& runner(const Thread& t) { return *t.emulated_block().runner; }
}  // namespace

void barrier(const Thread& t) { runner(t).barrier(t.index()); }
void wave_barrier(const Thread& t) { runner(t).wave_barrier(t.index()); }
uint32_t shuffle(const Thread& t, uint32_t bits, int lane) {
  return runner(t).shuffle(t.index(), bits, lane);
}
uint32_t ballot(const Thread& t, bool predicate) { return runner(t).ballot(t.index(), predicate); }
void matrix_product(const Thread& t, matrix::Instruction instruction, const uint32_t* a,
                    const uint32_t* b, int* c) {
  runner(t).matrix_product(t.index(), instruction, a, b, c);
}
int atomic_add(const Thread& t, int* p, int v) { return runner(t).atomic_add(t.index(), p, v); }
void copy_async16(const Thread& t, void* shared, const void* global) {
  runner(t).copy_async16(t.index(), shared, global);
}
void copy_async_commit(const Thread& t) { runner(t).copy_async_commit(t.index()); }
void copy_async_wait(const Thread& t, int groups) { runner(t).copy_async_wait(t.index(), groups); }

void bad_shared(const Thread& t, int offset, size_t size, size_t alignment) {
  runner(t).fail(
      fmt::format("asks for {} bytes of shared memory at offset {} aligned to {}; a "
                  "block of this launch has {} (thread {})",
                  size, offset, alignment, t.emulated_block().shared_bytes, t.index()));
}

}  // namespace strata::gpu::emu
