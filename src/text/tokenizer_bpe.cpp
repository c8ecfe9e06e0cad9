#include "text/tokenizer_bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace strata::text {
namespace {

constexpr uint64_t kNoPair = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();  // no rank, no neighbour

uint64_t pack(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t merges) {
  // At most half full, so that probes stay short.
  const size_t slots = std::bit_ceil(std::max<size_t>(16, merges * 2));
  slots_.assign(slots, Slot{kNoPair, {}});
  shift_ = 64 - std::countr_zero(slots);
}

size_t MergeTable::slot_of(uint64_t pair) const {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15u;
  size_t slot = ((pair ^ (pair >> 29)) * kGoldenRatio) >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].pair != kNoPair) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

bool MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  Slot& slot = slots_[slot_of(pack(left, right))];
  if (slot.pair != kNoPair) return false;
  slot = {pack(left, right), merge};
  return true;
}

const MergeTable::Merge* MergeTable::find(TokenId left, TokenId right) const {
  const Slot& slot = slots_[slot_of(pack(left, right))];
  return slot.pair == kNoPair ? nullptr : &slot.merge;
}

uint32_t BytePairEncoder::rank_of(TokenId left, TokenId right) const {
  const MergeTable::Merge* merge = merges_.find(left, right);
  return merge == nullptr ? kNone : merge->rank;
}

void BytePairEncoder::encode(std::string_view word, Scratch* scratch,
                             std::vector<TokenId>* out) const {
  auto& symbols = scratch->symbols_;
  auto& heap = scratch->heap_;
  heap.clear();
  const auto size = static_cast<uint32_t>(word.size());
  symbols.resize(size);
  for (uint32_t i = 0; i < size; ++i) {
    const TokenId id = byte_tokens_[static_cast<uint8_t>(word[i])];
    symbols[i] = {id, i - 1, i + 1 < size ? i + 1 : kNone, kNone};
    if (i > 0) symbols[i - 1].rank = rank_of(symbols[i - 1].id, id);
  }
  for (uint32_t i = 0; i < size; ++i) {
    if (symbols[i].rank != kNone) heap.push_back(uint64_t{symbols[i].rank} << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  const auto rank_pair = [&](uint32_t at) {
    auto& symbol = symbols[at];
    symbol.rank = symbol.next == kNone ? kNone : rank_of(symbol.id, symbols[symbol.next].id);
    if (symbol.rank == kNone) return;
    heap.push_back(uint64_t{symbol.rank} << 32 | at);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const auto at = static_cast<uint32_t>(heap.back());
    heap.pop_back();
    // A rank names one pair, so an entry whose pair has changed since shows by its rank.
    if (symbols[at].rank != rank) continue;
    auto& left = symbols[at];
    auto& right = symbols[left.next];
    left.id = merges_.find(left.id, right.id)->result;
    left.next = right.next;
    right.rank = kNone;
    if (left.next != kNone) symbols[left.next].previous = at;
    rank_pair(at);
    if (left.previous != kNone) rank_pair(left.previous);
  }
  for (uint32_t i = 0; i != kNone && i < size; i = symbols[i].next) out->push_back(symbols[i].id);
}

}  // namespace strata::text
