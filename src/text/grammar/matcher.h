// Where one answer stands in a grammar: advanced token by token, asked which tokens may follow,
// copied and rolled back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "text/grammar/mask_cache.h"

namespace strata::grammar {

// A value: a copy goes on from the same place on its own, shares the grammar and its masks, and
// costs what the open nesting of the answer costs. Not thread-safe; different matchers are
// independent. Allocates nothing per token once its buffers have grown.
class Matcher {
 public:
  static constexpr size_t kMaxRollback = 64;  // tokens

  explicit Matcher(std::shared_ptr<MaskCache> cache);

  // Takes the next token. Fails and changes nothing with kFailedPrecondition when the grammar does
  // not admit it here, and with kOutOfRange when the grammar is too ambiguous to be followed.
  Status advance(TokenId token);
  // The same for the bytes of a text as if they were one token.
  Status advance_text(std::string_view text);

  // Undoes the last `tokens` advances; at most kMaxRollback and only what was advanced since
  // construction. False, and no change, when that is too many.
  bool rollback(size_t tokens);
  size_t rollback_limit() const { return history_size_; }

  // The grammar accepts what was read so far as a whole answer.
  bool may_end() const { return may_end_; }
  // An end-of-generation token was taken.
  bool ended() const { return ended_; }

  // One bit per token id: those that may come next. End-of-generation tokens exactly when
  // may_end(). `mask` has words() words. kFailedPrecondition when no token may.
  Status fill_mask(std::span<uint64_t> mask) const;
  size_t words() const { return cache_->vocabulary().words(); }

  const MaskCache& cache() const { return *cache_; }

 private:
  struct Snapshot {
    std::vector<FrameId> frames;
    bool ended = false;
  };

  void remember();
  void settle();
  void compact();

  std::shared_ptr<MaskCache> cache_;
  StackPool pool_;
  Stepper stepper_;
  std::vector<FrameId> frames_;   // before calls and returns are followed
  std::vector<FrameId> readers_;  // after
  bool may_end_ = false;
  bool ended_ = false;
  std::vector<FrameId> next_, next_readers_;  // work memory
  std::vector<Snapshot> history_;             // a ring
  size_t history_next_ = 0, history_size_ = 0;
  size_t compact_at_ = 4096;
};

}  // namespace strata::grammar
