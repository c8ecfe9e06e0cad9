// Rows on their way: from the host to a device, and from one stage to the next.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "backend/device.h"

namespace strata::model {

// How a step follows the one before it.
enum class Flow : uint8_t {
  kAlone,   // when all that came before is done, and whoever runs it waits for its end
  kStream,  // while steps before it are still at work
};

// Host memory that a device copies at full speed, kept from step to step.
class HostRows {
 public:
  // Room for `values` floats that `device` copies; earlier rows are lost.
  Result<std::span<float>> room(backend::Device& device, size_t values) {
    if (values > capacity_) {
      capacity_ = 0;
      memory_.reset();
      const size_t wanted = values + values / 4;
      STRATA_ASSIGN_OR_RETURN(memory_, device.allocate_host(wanted * sizeof(float)));
      capacity_ = wanted;
    }
    return std::span(static_cast<float*>(memory_.get()), values);
  }
  const float* data() const { return static_cast<const float*>(memory_.get()); }

 private:
  std::shared_ptr<void> memory_;
  size_t capacity_ = 0;
};

// How rows of a prompt go from one device to another. Those of a token always go through the host:
// they are few, and what counts is how soon they arrive.
enum class Route : uint8_t {
  kHost,    // through pinned host memory; any two devices
  kDirect,  // where Device::may_copy_from() allows it; each copy is checked
};

// The wide residual of one step on its way from a stage to the next. send() only submits; the
// sender computes on while the rows travel. The devices must outlive it.
class Handoff {
 public:
  static Result<std::unique_ptr<Handoff>> make(backend::Device& from, backend::Device& to,
                                               Route route);
  // Waits for what is under way.
  ~Handoff();

  // `rows` on the sender's device are not to change before receive() has returned. On the thread
  // that uses the sender.
  Status send(const float* rows, size_t values, Flow flow);
  // Waits for what was sent and brings it to `rows` on the receiver's device; work submitted to the
  // receiver's stream then finds it there. A failure of either device names that device. On the
  // thread that uses the receiver, which for Flow::kAlone is also the one that uses the sender.
  //
  // With `ahead` and Flow::kAlone it does not wait if the devices can do that: what is submitted to the
  // receiver's stream then begins after release(), before which no call may wait for the receiver or
  // free memory.
  Status receive(float* rows, Flow flow, bool ahead = false);
  // After a receive() that did not wait: waits for the sender, by whose failure the receiver begins all the same.
  // Of several between consecutive stages in their order.
  Status release();
  // Whether what arrived last is what was sent, once the receiver's stream has come to the work
  // behind receive(). kUnavailable with the devices if not. On the receiver's thread.
  Status check();
  // Waits for what is under way, whatever becomes of it.
  void settle();
  // Whether a check() has failed.
  bool failed_check() const { return failed_check_; }

 private:
  // Sums of a device over the rows.
  struct Sums {
    backend::Buffer parts;  // on the device
    HostRows host;
  };

  Handoff(backend::Device& from, backend::Device& to, Route route)
      : from_(from), to_(to), route_(route) {}
  Status start_sums(backend::Device& device, const float* rows, Sums& sums);
  Status wait_for_sender();
  uint32_t& flag() {
    return *reinterpret_cast<uint32_t*>(const_cast<float*>(flag_.data()));
  }
  void let_go();

  backend::Device& from_;
  backend::Device& to_;
  const Route route_;
  std::unique_ptr<backend::CopyLane> out_, in_;
  HostRows host_;
  HostRows flag_;  // what the receiver's stream waits for; empty where it cannot
  uint32_t passages_ = 0;
  bool held_ = false;  // the receiver waits for the flag
  const float* sent_ = nullptr;  // on the sender's device
  size_t values_ = 0;
  Sums sent_sums_, received_sums_;
  // Of the last receive(), for check(): the sender may be at the next step already.
  std::array<uint64_t, backend::Device::kChecksumParts> expected_{};
  size_t expected_bytes_ = 0;  // 0: nothing is to be checked
  bool failed_check_ = false;
};

}  // namespace strata::model
