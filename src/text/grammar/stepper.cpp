#include "text/grammar/stepper.h"

#include <algorithm>

namespace strata::grammar {

namespace {

constexpr size_t kMaxVisits = 16 * kMaxConfigurations;

void sort_unique(std::vector<FrameId>& frames) {
  if (frames.size() < 2) return;
  std::sort(frames.begin(), frames.end());
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
}

}  // namespace

void Stepper::visit(FrameId frame) {
  if (frame == kBase) {
    reached_base_ = true;
    return;
  }
  if (frame >= seen_.size()) seen_.resize(std::max<size_t>(frame + 1, 2 * seen_.size()));
  if (seen_[frame] == epoch_) return;
  seen_[frame] = epoch_;
  work_.push_back(frame);
}

bool Stepper::close(StackPool& pool, const std::vector<FrameId>& seeds,
                    std::vector<FrameId>& readers) {
  if (++epoch_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0u);
    epoch_ = 1;
  }
  reached_base_ = false;
  within_limits_ = true;
  readers.clear();
  work_.clear();
  for (const FrameId f : seeds) visit(f);
  size_t visits = 0;
  while (!work_.empty()) {
    if (++visits > kMaxVisits || readers.size() > kMaxConfigurations) {
      within_limits_ = false;
      break;
    }
    const FrameId id = work_.back();
    work_.pop_back();
    const Frame frame = pool[id];
    const uint32_t state = frame.state;
    if (grammar_->is_loop(state)) {
      if (frame.need == 0) visit(frame.below);
      if (frame.room == 0 || grammar_->calls(state).empty()) continue;
      const Frame again{state,
                        frame.need == kUnbounded || frame.need == 0 ? frame.need : frame.need - 1,
                        frame.room == kUnbounded ? kUnbounded : frame.room - 1, frame.below};
      const bool last = again.need == 0 && again.room == 0;
      const FrameId below = last ? frame.below : pool.add(again);
      visit(pool.add(entry(grammar_->rule(grammar_->calls(state)[0].rule), below)));
      continue;
    }
    if (!grammar_->ranges(state).empty()) readers.push_back(id);
    for (const Grammar::Call& call : grammar_->calls(state)) {
      const FrameId below =
          grammar_->only_returns(call.to) ? frame.below : pool.add({call.to, 0, 0, frame.below});
      visit(pool.add(entry(grammar_->rule(call.rule), below)));
    }
    if (grammar_->is_final(state)) visit(frame.below);
  }
  sort_unique(readers);
  return reached_base_;
}

void Stepper::read(StackPool& pool, const std::vector<FrameId>& readers, uint8_t byte,
                   std::vector<FrameId>& out) const {
  out.clear();
  for (const FrameId id : readers) {
    const Frame frame = pool[id];
    for (const Grammar::Range& range : grammar_->ranges(frame.state)) {
      if (byte < range.low) break;
      if (byte > range.high) continue;
      // A state that only returns is left at once.
      const bool returns = grammar_->only_returns(range.to) && frame.below != kBase;
      out.push_back(returns ? frame.below : pool.add({range.to, 0, 0, frame.below}));
    }
  }
  sort_unique(out);
}

}  // namespace strata::grammar
