// Which experts a model routes to most: the order in which a cache is filled, and what share of the
// routed work a cache of a given size holds.
//
// expert-profile.bin, little-endian:
//   "STRP", u32 version (1), u32 layers, u32 experts per layer, u32 slots, u32 n
//   n pairs of (u16 layer, u16 expert), hottest first
//   layers * experts i32: the rank of each pair, -1 where it has none
// `slots` is what the writer's own cache had; it is not used here. The file ranks pairs without
// saying how often they were used. Shares are therefore estimated from ranks by
//   share(r) ~ 1 / (r + 0.009 N),  N pairs in all,
// which fits two published hit rates of caches filled in this order, measured on other text than
// they were ranked on: 0.64 with 4,105 and 0.692 with 5,805 of 24,576 pairs (the law: 0.63, 0.70).
// Within a layer the shares are scaled to 1, since every token uses equally many experts of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace strata::engine {

class ExpertProfile {
 public:
  // Fails when the file cannot be read, or with what in it is wrong.
  static Result<ExpertProfile> read(const std::string& path);
  // `name` stands for the path in messages.
  static Result<ExpertProfile> parse(std::span<const std::byte> bytes, const std::string& name);
  // From how often each pair was used, [layers * experts]. A layer that was never used is even.
  static ExpertProfile from_counts(int layers, int experts, std::span<const uint64_t> counts);
  // Of a model nothing is known about: every expert alike.
  static ExpertProfile even(int layers, int experts);

  int layers() const { return layers_; }
  int experts() const { return experts_; }
  // Pairs as layer * experts() + expert, hottest first; all of them, those without a rank last.
  const std::vector<uint32_t>& order() const { return order_; }
  // Share of the layer's routed work that goes to a pair; sums to 1 over a layer.
  double share(uint32_t pair) const { return shares_[pair]; }
  // Pairs that the profile ranks.
  size_t ranked() const { return ranked_; }

  // Fails when the model has other layers or experts.
  Status suits(int layers, int experts) const;

 private:
  ExpertProfile(int layers, int experts, std::string name)
      : layers_(layers), experts_(experts), name_(std::move(name)) {}
  void scale_layers();

  int layers_ = 0;
  int experts_ = 0;
  std::string name_;
  size_t ranked_ = 0;
  std::vector<uint32_t> order_;
  std::vector<double> shares_;
};

}  // namespace strata::engine
