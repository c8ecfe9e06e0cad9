#include "text/grammar/mask_cache.h"

#include <algorithm>
#include <bit>

namespace strata::grammar {

namespace {

constexpr uint32_t kUnknownMove = UINT32_MAX;
constexpr uint32_t kDead = 0;  // the local state without configurations
constexpr size_t kMaxLocals = 200'000;

Status too_ambiguous() {
  return out_of_range(
      "the constraint is too ambiguous to be followed: more than {} readings of the answer so far "
      "are possible; write it so that each text can be read in fewer ways",
      kMaxConfigurations);
}

}  // namespace

size_t MaskCache::KeyHash::operator()(const Key& k) const {
  uint64_t h = (uint64_t{k.state} << 32 | k.from) * 0x9e3779b97f4a7c15u;
  h ^= (uint64_t{k.need} << 32 | k.room) * 0xc2b2ae3d27d4eb4fu;
  h ^= h >> 31;
  return static_cast<size_t>(h * 0xbf58476d1ce4e5b9u);
}

size_t MaskCache::LocalHash::operator()(const std::vector<FrameId>& v) const {
  uint64_t h = v.size();
  for (const FrameId f : v) h = (h ^ f) * 0x9e3779b97f4a7c15u + (h >> 29);
  return static_cast<size_t>(h ^ (h >> 32));
}

MaskCache::MaskCache(std::shared_ptr<const Grammar> grammar,
                     std::shared_ptr<const Vocabulary> vocabulary, size_t max_bytes)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      max_bytes_(max_bytes),
      stepper_(*grammar_, vocabulary_->longest()) {
  drop_everything();
  stats_.dropped = 0;
  token_bits_.resize(vocabulary_->words());
  stop_bits_.resize((vocabulary_->nodes() + 63) / 64);
  path_.resize(vocabulary_->longest() + 1);
}

void MaskCache::drop_everything() {
  entries_.clear();
  known_.clear();
  pool_.clear();
  stepper_ = Stepper(*grammar_, vocabulary_->longest());
  locals_.assign(1, {});
  moves_.assign(static_cast<size_t>(grammar_->class_count()), kDead);
  local_ids_.clear();
  bytes_ = 0;
  ++stats_.dropped;
}

MaskCache::Stats MaskCache::stats() const {
  const std::lock_guard lock(mutex_);
  Stats out = stats_;
  out.entries = entries_.size();
  out.bytes = bytes_;
  return out;
}

Status MaskCache::fill(const StackPool& pool, std::span<const FrameId> frames,
                       std::span<uint64_t> mask) {
  const std::lock_guard lock(mutex_);
  if (bytes_ > max_bytes_ || locals_.size() > kMaxLocals) drop_everything();
  std::fill(mask.begin(), mask.end(), uint64_t{0});
  for (FrameId id : frames) {
    EntryId from = kWhole;
    while (id != kBase) {
      STRATA_ASSIGN_OR_RETURN(from, step(pool[id], from));
      const Entry& entry = entries_[from];
      for (const uint32_t t : entry.tokens.list) mask[t >> 6] |= uint64_t{1} << (t & 63);
      for (size_t w = 0; w < entry.tokens.bits.size(); ++w) mask[w] |= entry.tokens.bits[w];
      if (entry.stops_nowhere) break;
      id = pool[id].below;
    }
  }
  return {};
}

Result<MaskCache::EntryId> MaskCache::step(const Frame& frame, EntryId from) {
  const Frame bare{frame.state, stepper_.capped(frame.need), stepper_.capped(frame.room), kBase};
  const Key key{bare.state, bare.need, bare.room, from};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  Entry entry;
  STRATA_RETURN_IF_ERROR(compute(bare, from, entry));
  ++stats_.computed;
  bytes_ += sizeof(Entry) + 64 + 4 * (entry.tokens.list.size() + entry.stops.list.size()) +
            8 * (entry.tokens.bits.size() + entry.stops.bits.size());
  entries_.push_back(std::move(entry));
  const auto id = static_cast<EntryId>(entries_.size() - 1);
  known_.emplace(key, id);
  return id;
}

Status MaskCache::compute(const Frame& frame, EntryId from, Entry& out) {
  STRATA_ASSIGN_OR_RETURN(const uint32_t start, local_of({pool_.add(frame)}));
  std::fill(token_bits_.begin(), token_bits_.end(), uint64_t{0});
  std::fill(stop_bits_.begin(), stop_bits_.end(), uint64_t{0});
  if (from == kWhole) {
    if (locals_[start].returns) stop_bits_[0] |= 1;
    for (uint32_t child = 1; child < vocabulary_->nodes(); child = vocabulary_->end(child)) {
      STRATA_RETURN_IF_ERROR(walk(child, start));
    }
  } else if (const TokenSet& stops = entries_[from].stops; stops.bits.empty()) {
    for (const uint32_t node : stops.list) {
      if (locals_[start].returns) stop_bits_[node >> 6] |= uint64_t{1} << (node & 63);
      const uint32_t end = vocabulary_->end(node);
      for (uint32_t child = node + 1; child < end; child = vocabulary_->end(child)) {
        STRATA_RETURN_IF_ERROR(walk(child, start));
      }
    }
  } else {
    if (locals_[start].returns) stop_bits_ = stops.bits;
    for (int b = 0; b < 256; ++b) {
      STRATA_ASSIGN_OR_RETURN(const uint32_t to, move(start, static_cast<uint8_t>(b)));
      if (to == kDead) continue;
      for (const uint32_t child : vocabulary_->nodes_by_byte(static_cast<uint8_t>(b))) {
        const uint32_t node = vocabulary_->parent(child);
        if ((stops.bits[node >> 6] >> (node & 63)) & 1) STRATA_RETURN_IF_ERROR(walk(child, start));
      }
    }
  }
  pack(token_bits_, out.tokens);
  pack(stop_bits_, out.stops);
  out.stops_nowhere = out.stops.list.empty() && out.stops.bits.empty();
  return {};
}

void MaskCache::pack(std::vector<uint64_t>& bits, TokenSet& out) const {
  size_t count = 0;
  for (const uint64_t w : bits) count += static_cast<size_t>(std::popcount(w));
  if (count > bits.size()) {
    out.bits = bits;
    return;
  }
  out.list.reserve(count);
  for (size_t w = 0; w < bits.size(); ++w) {
    for (uint64_t rest = bits[w]; rest != 0; rest &= rest - 1) {
      out.list.push_back(static_cast<uint32_t>(w * 64) +
                         static_cast<uint32_t>(std::countr_zero(rest)));
    }
  }
}

void MaskCache::reach(uint32_t node, uint32_t local) {
  for (const TokenId t : vocabulary_->tokens(node)) {
    token_bits_[static_cast<size_t>(t) >> 6] |= uint64_t{1} << (t & 63);
  }
  if (locals_[local].returns) stop_bits_[node >> 6] |= uint64_t{1} << (node & 63);
}

// Everything at and below `node`, whose parent is reached in `local`.
Status MaskCache::walk(uint32_t node, uint32_t local) {
  const Vocabulary& v = *vocabulary_;
  const uint32_t end = v.end(node);
  path_[v.depth(node) - 1] = local;
  for (uint32_t n = node; n < end;) {
    const uint32_t depth = v.depth(n);
    const uint32_t before = path_[depth - 1];
    uint32_t to = moves_[before * static_cast<size_t>(grammar_->class_count()) +
                         grammar_->byte_class(v.byte(n))];
    if (to == kUnknownMove) {
      STRATA_ASSIGN_OR_RETURN(to, move(before, v.byte(n)));
    }
    if (to == kDead) {
      n = v.end(n);
      continue;
    }
    path_[depth] = to;
    reach(n, to);
    ++n;
  }
  return {};
}

Result<uint32_t> MaskCache::local_of(const std::vector<FrameId>& seeds) {
  const bool returns = stepper_.close(pool_, seeds, readers_);
  if (!stepper_.within_limits() || pool_.size() > 50 * kMaxLocals || bytes_ > 2 * max_bytes_) {
    drop_everything();
    return too_ambiguous();
  }
  if (readers_.empty() && !returns) return kDead;
  std::vector<FrameId> key = readers_;
  if (returns) key.push_back(kBase);
  const auto [it, added] =
      local_ids_.try_emplace(std::move(key), static_cast<uint32_t>(locals_.size()));
  if (added) {
    locals_.push_back({readers_, returns});
    moves_.resize(moves_.size() + static_cast<size_t>(grammar_->class_count()), kUnknownMove);
    bytes_ += 128 + 8 * readers_.size() + 4 * static_cast<size_t>(grammar_->class_count());
  }
  return it->second;
}

Result<uint32_t> MaskCache::move(uint32_t local, uint8_t byte) {
  const size_t slot =
      local * static_cast<size_t>(grammar_->class_count()) + grammar_->byte_class(byte);
  if (moves_[slot] != kUnknownMove) return moves_[slot];
  stepper_.read(pool_, locals_[local].readers, byte, seeds_);
  uint32_t to = kDead;
  if (!seeds_.empty()) {
    STRATA_ASSIGN_OR_RETURN(to, local_of(seeds_));
  }
  moves_[slot] = to;
  return to;
}

}  // namespace strata::grammar
