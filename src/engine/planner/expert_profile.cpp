#include "engine/planner/expert_profile.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/mapped_file.h"

namespace strata::engine {

namespace {

constexpr double kOffsetShare = 0.009;
constexpr uint32_t kMostLayers = 4096;
constexpr uint32_t kMostExperts = 65536;
constexpr size_t kHeader = 24;

uint32_t read_u32(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

uint32_t read_u16(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) | static_cast<uint32_t>(bytes[at + 1]) << 8;
}

}  // namespace

Result<ExpertProfile> ExpertProfile::read(const std::string& path) {
  STRATA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  return parse(file.bytes(), path);
}

Result<ExpertProfile> ExpertProfile::parse(std::span<const std::byte> bytes,
                                           const std::string& name) {
  const auto bad = [&](std::string_view what) {
    return failed_precondition("expert profile {}: {}; make it again, or start without it", name,
                               what);
  };
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "STRP", 4) != 0) {
    return bad("this is not an expert profile, which begins with STRP");
  }
  if (bytes.size() < kHeader) return bad("the file is cut short");
  const uint32_t version = read_u32(bytes, 4), layers = read_u32(bytes, 8),
                 experts = read_u32(bytes, 12), ranked = read_u32(bytes, 20);
  if (version != 1) return bad(fmt::format("version {} is unknown, only 1 is", version));
  if (layers < 1 || layers > kMostLayers || experts < 1 || experts > kMostExperts) {
    return bad(fmt::format("{} layers with {} experts are not possible", layers, experts));
  }
  const uint32_t pairs = layers * experts;
  if (ranked > pairs) return bad(fmt::format("it ranks {} pairs of {}", ranked, pairs));
  const size_t size = kHeader + size_t{4} * ranked + size_t{4} * pairs;
  if (bytes.size() != size) {
    return bad(
        fmt::format("it has {} bytes where {} layers, {} experts and {} ranked pairs take {}",
                    bytes.size(), layers, experts, ranked, size));
  }
  ExpertProfile profile(static_cast<int>(layers), static_cast<int>(experts), name);
  profile.ranked_ = ranked;
  profile.shares_.assign(pairs, -1);
  const double offset = kOffsetShare * pairs;
  const auto law = [&](double rank) { return 1 / (rank + offset); };
  for (uint32_t r = 0; r < ranked; ++r) {
    const uint32_t layer = read_u16(bytes, kHeader + size_t{4} * r);
    const uint32_t expert = read_u16(bytes, kHeader + size_t{4} * r + 2);
    if (layer >= layers || expert >= experts) {
      return bad(fmt::format("rank {} is layer {}, expert {}, which is not in the model", r, layer,
                             expert));
    }
    const uint32_t pair = layer * experts + expert;
    if (profile.shares_[pair] >= 0) {
      return bad(fmt::format("layer {}, expert {} is ranked twice", layer, expert));
    }
    if (read_u32(bytes, kHeader + size_t{4} * ranked + size_t{4} * pair) != r) {
      return bad(fmt::format("the list and the table of ranks disagree about layer {}, expert {}",
                             layer, expert));
    }
    profile.shares_[pair] = law(r);
    profile.order_.push_back(pair);
  }
  // Whatever is not ranked lies evenly among the last places.
  const double rest = law((ranked + pairs) / 2.0);
  for (uint32_t expert = 0; expert < experts; ++expert) {
    for (uint32_t layer = 0; layer < layers; ++layer) {
      const uint32_t pair = layer * experts + expert;
      if (profile.shares_[pair] >= 0) continue;
      profile.shares_[pair] = rest;
      profile.order_.push_back(pair);
    }
  }
  profile.scale_layers();
  return profile;
}

ExpertProfile ExpertProfile::from_counts(int layers, int experts,
                                         std::span<const uint64_t> counts) {
  ExpertProfile profile = even(layers, experts);
  profile.name_ = "learned";
  profile.ranked_ = counts.size();
  std::stable_sort(profile.order_.begin(), profile.order_.end(),
                   [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
  for (size_t i = 0; i < counts.size(); ++i) profile.shares_[i] = static_cast<double>(counts[i]);
  profile.scale_layers();
  return profile;
}

ExpertProfile ExpertProfile::even(int layers, int experts) {
  ExpertProfile profile(layers, experts, "none");
  profile.shares_.assign(static_cast<size_t>(layers) * static_cast<size_t>(experts), 1.0 / experts);
  // One expert of every layer after the other, so that no layer is favoured.
  for (int expert = 0; expert < experts; ++expert) {
    for (int layer = 0; layer < layers; ++layer) {
      profile.order_.push_back(static_cast<uint32_t>(layer * experts + expert));
    }
  }
  return profile;
}

void ExpertProfile::scale_layers() {
  const auto experts = static_cast<std::ptrdiff_t>(experts_);
  for (auto begin = shares_.begin(); begin != shares_.end(); begin += experts) {
    const double sum = std::accumulate(begin, begin + experts, 0.0);
    for (auto share = begin; share != begin + experts; ++share) {
      *share = sum > 0 ? *share / sum : 1.0 / experts_;
    }
  }
}

Status ExpertProfile::suits(int layers, int experts) const {
  if (layers == layers_ && experts == experts_) return {};
  return {
      StatusCode::kFailedPrecondition,
      fmt::format("expert profile {} is of another model: it has {} layers with {} experts, this "
                  "model has {} with {}; use the profile that belongs to the model, or none",
                  name_, layers_, experts_, layers, experts),
      "expert_profile"};
}

}  // namespace strata::engine
