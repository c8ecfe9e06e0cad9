#include "backend/gpu/emu/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace strata::gpu::emu {

namespace context = boost::context::detail;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStackBytes = 512 * 1024;  // redzones make frames several times larger
#else
constexpr size_t kStackBytes = 128 * 1024;
#endif
constexpr size_t kGuardBytes = 4096;

}  // namespace

FiberStack FiberStack::map(int index) {
  FiberStack stack;
  const size_t bytes = kStackBytes + kGuardBytes;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED) return stack;
  if (mprotect(base, kGuardBytes, PROT_NONE) != 0) {
    munmap(base, bytes);
    return stack;
  }
  stack.base_ = static_cast<std::byte*>(base);
  stack.bytes_ = bytes;
  stack.offset_ = static_cast<size_t>(index) * 320 % 16384;
  return stack;
}

FiberStack::FiberStack(FiberStack&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_), offset_(other.offset_) {}

FiberStack& FiberStack::operator=(FiberStack&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(offset_, other.offset_);
  return *this;
}

FiberStack::~FiberStack() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

void FiberStack::reset(Fiber& fiber, FiberFunction function) {
  std::byte* low = base_ + kGuardBytes;
  std::byte* top = base_ + bytes_ - offset_;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(low, bytes_ - kGuardBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  if (fiber.thread == nullptr) fiber.thread = __tsan_create_fiber(0);
#endif
  fiber.stack_low = low;
  fiber.stack_bytes = bytes_ - kGuardBytes;
  fiber.fake_stack = nullptr;
  fiber.function = function;
  fiber.context =
      context::make_fcontext(top, static_cast<size_t>(top - low), [](context::transfer_t transfer) {
        const Handover handover = *static_cast<const Handover*>(transfer.data);
        handover.from->context = transfer.fctx;
        Fiber& self = *handover.to;
        arrive(self, *handover.from);
        self.function(self);
        __builtin_unreachable();
      });
}

void FiberStack::retire([[maybe_unused]] Fiber& fiber) {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(fiber.thread);
#endif
}

#if defined(__SANITIZE_ADDRESS__)
void leave(Fiber& from, Fiber& to) {
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_low, to.stack_bytes);
}
void arrive(Fiber& self, Fiber& from) {
  __sanitizer_finish_switch_fiber(self.fake_stack, &from.stack_low, &from.stack_bytes);
}
#elif defined(__SANITIZE_THREAD__)
void leave(Fiber& from, Fiber& to) {
  from.thread = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.thread, 0);
}
void arrive(Fiber&, Fiber&) {}
#endif

}  // namespace strata::gpu::emu
