// A fiber: a stack and the place where it stopped. Switching costs a few nanoseconds; a fiber never
// leaves the thread it runs on while it is in use.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>

namespace strata::gpu::emu {

struct Fiber;
// Called on the new stack, once; must not return.
using FiberFunction = void (*)(Fiber& self);

struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  FiberFunction function = nullptr;
  void* owner = nullptr;  // for `function`
  // Of a fiber that was made from a thread these are learnt at the first switch.
  const void* stack_low = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* thread = nullptr;      // ThreadSanitizer's
};

// Maps stacks. `index` spreads their tops over cache sets: equal offsets would all meet in one.
class FiberStack {
 public:
  // Fails (empty) when the system gives no more memory.
  static FiberStack map(int index);
  FiberStack() = default;
  FiberStack(FiberStack&& other) noexcept;
  FiberStack& operator=(FiberStack&& other) noexcept;
  ~FiberStack();

  explicit operator bool() const { return base_ != nullptr; }
  // Makes `fiber` start at `function` when it is next switched to; what it was doing is forgotten,
  // so nothing on its stack may need a destructor.
  void reset(Fiber& fiber, FiberFunction function);
  // Of a fiber that was reset and will not be switched to again.
  static void retire(Fiber& fiber);

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  size_t offset_ = 0;
};

// What a switch hands over: who left, and whom it meant.
struct Handover {
  Fiber* from;
  Fiber* to;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// For the sanitizers: around each switch.
void leave(Fiber& from, Fiber& to);
void arrive(Fiber& self, Fiber& from);
#else
inline void leave(Fiber&, Fiber&) {}
inline void arrive(Fiber&, Fiber&) {}
#endif

// Goes on in `to`; returns when something switches back to `from`.
inline void switch_fiber(Fiber& from, Fiber& to) {
  Handover handover{&from, &to};
  leave(from, to);
  const boost::context::detail::transfer_t transfer =
      boost::context::detail::jump_fcontext(to.context, &handover);
  Fiber& left = *static_cast<const Handover*>(transfer.data)->from;
  left.context = transfer.fctx;
  arrive(from, left);
}

}  // namespace strata::gpu::emu
