#include "model/handoff.h"

#include <atomic>
#include <cstring>
#include <utility>

namespace strata::model {

using backend::Device;

namespace {

constexpr size_t kSumBytes = Device::kChecksumParts * sizeof(uint64_t);

}  // namespace

Result<std::unique_ptr<Handoff>> Handoff::make(Device& from, Device& to, Route route) {
  auto handoff = std::unique_ptr<Handoff>(new Handoff(from, to, route));
  STRATA_ASSIGN_OR_RETURN(handoff->out_, from.make_copy_lane());
  STRATA_ASSIGN_OR_RETURN(handoff->in_, to.make_copy_lane());
  // Rows in pinned memory of another driver would be copied by a call that waits.
  if (to.stream().waits_for_host() && from.stream().waits_for_host() &&
      from.driver() == to.driver()) {
    STRATA_RETURN_IF_ERROR(handoff->flag_.room(to, 1).status());
    handoff->flag() = 0;
  }
  if (route == Route::kDirect) {
    STRATA_RETURN_IF_ERROR(to.may_copy_from(from));
    for (auto [device, sums] :
         {std::pair(&from, &handoff->sent_sums_), {&to, &handoff->received_sums_}}) {
      STRATA_ASSIGN_OR_RETURN(sums->parts, device->allocate(kSumBytes));
      STRATA_RETURN_IF_ERROR(sums->host.room(*device, kSumBytes / sizeof(float)).status());
    }
  }
  return handoff;
}

Handoff::~Handoff() { settle(); }

void Handoff::settle() {
  let_go();
  expected_bytes_ = 0;
  for (const auto& lane : {out_.get(), in_.get()}) {
    if (lane != nullptr) (void)lane->synchronize();
  }
  for (Device* device : {&from_, &to_}) (void)device->stream().synchronize();
}

Status Handoff::start_sums(Device& device, const float* rows, Sums& sums) {
  STRATA_RETURN_IF_ERROR(
      device.start_checksum(rows, values_ * sizeof(float), sums.parts.as<uint64_t>()));
  return device.start_copy_to_host(const_cast<float*>(sums.host.data()), sums.parts.data(),
                                   kSumBytes);
}

Status Handoff::send(const float* rows, size_t values, Flow flow) {
  sent_ = rows;
  values_ = values;
  const size_t bytes = values * sizeof(float);
  if (flow == Flow::kStream && route_ == Route::kDirect) {
    STRATA_RETURN_IF_ERROR(start_sums(from_, rows, sent_sums_));
    return out_->follow_stream();
  }
  STRATA_ASSIGN_OR_RETURN(const std::span<float> room, host_.room(from_, values));
  if (flow == Flow::kAlone) {
    STRATA_RETURN_IF_ERROR(from_.start_copy_to_host(room.data(), rows, bytes));
    // So the receiver begins before the host knows.
    return flag_.data() == nullptr ? Status() : from_.stream().set_flag(&flag(), ++passages_);
  }
  STRATA_RETURN_IF_ERROR(out_->follow_stream());
  return out_->to_host(room.data(), rows, bytes);
}

Status Handoff::wait_for_sender() {
  from_.stream().mark("hand-off", -1);
  Status sent = from_.stream().synchronize();
  from_.stream().mark("", -1);
  return sent;
}

void Handoff::let_go() {
  if (!std::exchange(held_, false)) return;
  std::atomic_ref(flag()).store(passages_, std::memory_order_release);
}

Status Handoff::release() {
  if (!held_) return {};
  Status sent = wait_for_sender();
  let_go();
  return sent;
}

Status Handoff::receive(float* rows, Flow flow, bool ahead) {
  const size_t bytes = values_ * sizeof(float);
  if (flow == Flow::kAlone) {
    if (ahead && flag_.data() != nullptr) {
      STRATA_RETURN_IF_ERROR(to_.stream().wait_for_host(&flag(), passages_));
      held_ = true;
    } else {
      STRATA_RETURN_IF_ERROR(wait_for_sender());
    }
    return to_.copy_to_device(rows, host_.data(), bytes);
  }
  STRATA_RETURN_IF_ERROR(out_->synchronize());
  if (route_ == Route::kHost) {
    STRATA_RETURN_IF_ERROR(in_->to_device(rows, host_.data(), bytes));
    return in_->synchronize();
  }
  STRATA_RETURN_IF_ERROR(in_->from_device(from_, rows, sent_, bytes));
  STRATA_RETURN_IF_ERROR(in_->synchronize());
  std::memcpy(expected_.data(), sent_sums_.host.data(), kSumBytes);
  expected_bytes_ = bytes;
  return start_sums(to_, rows, received_sums_);
}

Status Handoff::check() {
  const size_t bytes = std::exchange(expected_bytes_, 0);
  if (bytes == 0) return {};
  if (std::memcmp(expected_.data(), received_sums_.host.data(), kSumBytes) == 0) return {};
  failed_check_ = true;
  return unavailable(
      "a direct copy of {} bytes from {} to {} arrived wrong; hand-offs go through host memory "
      "from now "
      "on, as with --device-option {}:peer=off",
      bytes, from_.caps().id, to_.caps().id, to_.caps().id);
}

}  // namespace strata::model
