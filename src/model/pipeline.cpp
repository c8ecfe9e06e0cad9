#include "model/pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace strata::model {

namespace {

// A chunk on its way from one stage to the next.
struct Parcel {
  Step step;
  Handoff* rows = nullptr;
};

// The chunks between two stages: empty parcels going back, full ones going forward.
class Link {
 public:
  void use(const Handoffs& handoffs) {
    for (size_t i = 0; i < handoffs.size(); ++i) {
      parcels_[i].rows = handoffs[i].get();
      empty_.push_back(&parcels_[i]);
    }
  }

  // Blocks; nullptr once the run was given up.
  Parcel* take_empty() { return take(empty_); }
  // Blocks; nullptr at the end of the prompt or once the run was given up.
  Parcel* take_full() { return take(full_); }
  void give_empty(Parcel* parcel) { give(empty_, parcel); }
  void give_full(Parcel* parcel) { give(full_, parcel); }

  // No more chunks come; those underway are still delivered.
  void finish() {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }

 private:
  Parcel* take(std::deque<Parcel*>& queue) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return given_up_ || !queue.empty() || (finished_ && &queue == &full_); });
    if (given_up_ || queue.empty()) return nullptr;
    Parcel* parcel = queue.front();
    queue.pop_front();
    return parcel;
  }
  void give(std::deque<Parcel*>& queue, Parcel* parcel) {
    const std::lock_guard lock(mutex_);
    queue.push_back(parcel);
    changed_.notify_all();
  }

  Parcel parcels_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Parcel*> empty_, full_;
  bool finished_ = false;
  bool given_up_ = false;
};

class Pipeline {
 public:
  Pipeline(const std::vector<std::unique_ptr<Stage>>& stages, std::span<const Handoffs> handoffs,
           std::vector<float>& logits)
      : stages_(stages), handoffs_(handoffs), logits_(logits), links_(stages.size() - 1) {
    for (size_t i = 0; i < links_.size(); ++i) links_[i].use(handoffs[i]);
  }

  Status run(size_t tokens, size_t cut, const std::function<Status(size_t, Step&)>& next_step) {
    std::vector<std::thread> threads;
    for (size_t i = 1; i < stages_.size(); ++i) threads.emplace_back([this, i] { follow(i); });
    for (size_t begin = 0; begin < tokens; begin += cut) {
      Parcel* parcel = links_.front().take_empty();
      if (parcel == nullptr) break;
      Status status = next_step(begin, parcel->step);
      if (status.ok()) status = stages_[0]->begin(parcel->step, nullptr, Flow::kStream);
      if (status.ok()) status = stages_[0]->finish(parcel->rows);
      if (!status.ok()) {
        fail(std::move(status));
        break;
      }
      links_.front().give_full(parcel);
    }
    links_.front().finish();
    for (std::thread& thread : threads) thread.join();
    end();
    return failure_;
  }

 private:
  void follow(size_t i) {
    Link& before = links_[i - 1];
    Link* after = i < links_.size() ? &links_[i] : nullptr;
    Step own;
    for (Parcel* parcel = before.take_full(); parcel != nullptr; parcel = before.take_full()) {
      // Its rows of the step before the last one have been received: this step may have the room.
      Parcel* next = after == nullptr ? nullptr : after->take_empty();
      if (after != nullptr && next == nullptr) break;
      Step& step = next != nullptr ? next->step : own;
      step = parcel->step;
      Status status = stages_[i]->begin(step, parcel->rows, Flow::kStream);
      // The rows are here: the stage before may send others, while this one computes.
      if (status.ok()) {
        before.give_empty(parcel);
        status = stages_[i]->finish(next != nullptr ? next->rows : nullptr);
        if (status.ok()) status = stages_[i]->collect(logits_);
      }
      if (!status.ok()) {
        fail(std::move(status));
        break;
      }
      if (next != nullptr) after->give_full(next);
    }
    if (after != nullptr) after->finish();
  }

  // All threads have ended; what is left of a failed run is still under way.
  void end() {
    for (const Handoffs& pair : handoffs_) {
      for (const auto& handoff : pair) {
        if (failure_.ok()) failure_ = handoff->check();
      }
    }
    if (failure_.ok()) return;
    for (const auto& stage : stages_) stage->settle();
    for (const Handoffs& pair : handoffs_) {
      for (const auto& handoff : pair) handoff->settle();
    }
  }

  void fail(Status status) {
    {
      const std::lock_guard lock(mutex_);
      // Who called the prompt off must still learn of a device that fails.
      const bool called_off = failure_.code() == StatusCode::kCancelled;
      if (failure_.ok() || called_off) failure_ = std::move(status);
    }
    for (Link& link : links_) link.give_up();
  }

  const std::vector<std::unique_ptr<Stage>>& stages_;
  const std::span<const Handoffs> handoffs_;
  std::vector<float>& logits_;
  std::vector<Link> links_;
  std::mutex mutex_;
  Status failure_;  // read once all stages have stopped
};

}  // namespace

Status run_pipeline(const std::vector<std::unique_ptr<Stage>>& stages,
                    std::span<const Handoffs> handoffs, size_t tokens, size_t cut,
                    const std::function<Status(size_t, Step&)>& next_step,
                    std::vector<float>& logits) {
  return Pipeline(stages, handoffs, logits).run(tokens, cut, next_step);
}

}  // namespace strata::model
