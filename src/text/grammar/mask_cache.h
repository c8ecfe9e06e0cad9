// Token masks of one grammar over one vocabulary, computed when first needed and kept.
//
// The tokens that a configuration admits are found from its top frame alone as far as they do not
// return from it; where they do return, the walk stops and is continued for the frame below. Each
// step of such a chain depends on a frame without its stack and on where the step before stopped,
// so that the same few steps serve every depth of nesting. Counters further from their end than the
// longest token can reach count as endless, for the same reason.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/stack_pool.h"
#include "text/grammar/stepper.h"
#include "text/grammar/vocabulary.h"

namespace strata::grammar {

// Thread-safe: fill() may be called from several threads, one of which works at a time.
class MaskCache {
 public:
  // `max_bytes`: what is kept beyond this is dropped and computed again when needed.
  MaskCache(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary,
            size_t max_bytes = size_t{96} << 20);

  const Grammar& grammar() const { return *grammar_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // Sets the bit of every token that some of the `frames` of `pool` admit; clears all others.
  // `mask` has vocabulary().words() words. End-of-generation tokens are not touched by this.
  // kOutOfRange when the grammar is too ambiguous to be followed.
  Status fill(const StackPool& pool, std::span<const FrameId> frames, std::span<uint64_t> mask);

  struct Stats {
    size_t entries = 0;  // steps kept
    size_t bytes = 0;    // of them, and of the automaton that computes them
    uint64_t computed = 0;
    uint64_t dropped = 0;  // how often everything was dropped
  };
  Stats stats() const;

 private:
  using EntryId = uint32_t;
  static constexpr EntryId kWhole = UINT32_MAX;  // the step that starts at the root of the trie

  // A set that is a list while it is short, else one bit per member.
  struct TokenSet {
    std::vector<uint32_t> list;
    std::vector<uint64_t> bits;
  };
  struct Entry {
    TokenSet tokens;  // admitted without returning from the frame
    TokenSet stops;   // trie nodes at which it can be returned from
    bool stops_nowhere = true;
  };
  struct Key {
    uint32_t state = 0, need = 0, room = 0;
    EntryId from = kWhole;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const;
  };
  // A state of the automaton that walks the trie: configurations above an unknown base.
  struct Local {
    std::vector<FrameId> readers;
    bool returns = false;
  };
  struct LocalHash {
    size_t operator()(const std::vector<FrameId>& v) const;
  };

  Result<EntryId> step(const Frame& frame, EntryId from);
  Status compute(const Frame& frame, EntryId from, Entry& out);
  Result<uint32_t> local_of(const std::vector<FrameId>& seeds);
  Result<uint32_t> move(uint32_t local, uint8_t byte);
  Status walk(uint32_t node, uint32_t local);
  void reach(uint32_t node, uint32_t local);
  void drop_everything();
  void pack(std::vector<uint64_t>& bits, TokenSet& out) const;

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  const size_t max_bytes_;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::unordered_map<Key, EntryId, KeyHash> known_;
  size_t bytes_ = 0;
  Stats stats_;

  StackPool pool_;
  Stepper stepper_;
  std::vector<Local> locals_;
  std::vector<uint32_t> moves_;  // by local and byte class
  std::unordered_map<std::vector<FrameId>, uint32_t, LocalHash> local_ids_;
  std::vector<uint64_t> token_bits_, stop_bits_;
  std::vector<uint32_t> path_;  // local by depth
  std::vector<FrameId> seeds_, readers_;
};

}  // namespace strata::grammar
