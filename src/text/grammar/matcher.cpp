#include "text/grammar/matcher.h"

#include <algorithm>

namespace strata::grammar {

Matcher::Matcher(std::shared_ptr<MaskCache> cache)
    : cache_(std::move(cache)), stepper_(cache_->grammar()) {
  frames_.push_back(pool_.add(stepper_.entry(cache_->grammar().root(), kBase)));
  settle();
}

// Derives readers_ and may_end_ from frames_.
void Matcher::settle() { may_end_ = stepper_.close(pool_, frames_, readers_); }

void Matcher::remember() {
  if (history_.size() < kMaxRollback) history_.resize(kMaxRollback);
  Snapshot& snapshot = history_[history_next_];
  snapshot.frames = frames_;
  snapshot.ended = ended_;
  history_next_ = (history_next_ + 1) % kMaxRollback;
  history_size_ = std::min(history_size_ + 1, kMaxRollback);
}

Status Matcher::advance(TokenId token) {
  const Vocabulary& vocabulary = cache_->vocabulary();
  if (!vocabulary.ends_generation(token)) return advance_text(vocabulary.bytes(token));
  if (!may_end_ || ended_) {
    return failed_precondition("the constraint does not let the answer end here");
  }
  remember();
  ended_ = true;
  return {};
}

Status Matcher::advance_text(std::string_view text) {
  if (text.empty() || ended_) {
    return failed_precondition("the constraint does not admit this token");
  }
  bool may_end = false;
  const std::vector<FrameId>* from = &readers_;
  for (const char c : text) {
    stepper_.read(pool_, *from, static_cast<uint8_t>(c), next_);
    if (next_.empty()) {
      return failed_precondition("the constraint does not admit this token here");
    }
    may_end = stepper_.close(pool_, next_, next_readers_);
    if (!stepper_.within_limits()) {
      return out_of_range(
          "the constraint is too ambiguous to be followed: more than {} readings of the answer so "
          "far are possible; write it so that each text can be read in fewer ways",
          kMaxConfigurations);
    }
    from = &next_readers_;
  }
  remember();
  frames_.swap(next_);
  readers_.swap(next_readers_);
  may_end_ = may_end;
  if (pool_.size() > compact_at_) compact();
  return {};
}

bool Matcher::rollback(size_t tokens) {
  if (tokens > history_size_) return false;
  if (tokens == 0) return true;
  history_next_ = (history_next_ + kMaxRollback - tokens) % kMaxRollback;
  history_size_ -= tokens;
  frames_ = history_[history_next_].frames;
  ended_ = history_[history_next_].ended;
  settle();
  return true;
}

// Frames that nothing refers to any more are dropped by building the pool again.
void Matcher::compact() {
  StackPool fresh;
  std::vector<FrameId> renamed(pool_.size(), kBase);
  std::vector<FrameId> chain;
  const auto rename = [&](FrameId& frame) {
    chain.clear();
    FrameId f = frame;
    for (; f != kBase && renamed[f] == kBase; f = pool_[f].below) chain.push_back(f);
    for (; !chain.empty(); chain.pop_back()) {
      Frame copy = pool_[chain.back()];
      if (copy.below != kBase) copy.below = renamed[copy.below];
      renamed[chain.back()] = fresh.add(copy);
    }
    frame = renamed[frame];
  };
  for (FrameId& f : frames_) rename(f);
  for (size_t i = 1; i <= history_size_; ++i) {
    for (FrameId& f : history_[(history_next_ + kMaxRollback - i) % kMaxRollback].frames) rename(f);
  }
  std::sort(frames_.begin(), frames_.end());
  pool_ = std::move(fresh);
  settle();
  compact_at_ = std::max<size_t>(4096, 4 * pool_.size());
}

Status Matcher::fill_mask(std::span<uint64_t> mask) const {
  if (ended_) {
    std::fill(mask.begin(), mask.end(), uint64_t{0});
  } else {
    STRATA_RETURN_IF_ERROR(cache_->fill(pool_, frames_, mask));
  }
  if (may_end_) {
    for (const TokenId t : cache_->vocabulary().end_of_generation()) {
      mask[static_cast<size_t>(t) >> 6] |= uint64_t{1} << (t & 63);
    }
  }
  if (std::all_of(mask.begin(), mask.end(), [](uint64_t w) { return w == 0; })) {
    return failed_precondition(
        "no token of the vocabulary can continue the answer as the constraint asks, and it may not "
        "end here; relax the constraint");
  }
  return {};
}

}  // namespace strata::grammar
