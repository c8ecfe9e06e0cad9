// What a range of layers costs on one device: memory, time of a decode window, time of a chunk.
//
// Weights are read once per step, at a share of the measured copy bandwidth; products run at a
// share of the measured int8 rate; a step pays every kernel launch. Of the experts, a step of n
// tokens reads used * n^0.8 different ones per layer (published unions: 1.75, 2.4, 3.05 times those
// of one token for 2, 3, 4 tokens). Experts that a card does not hold are computed by the CPU or,
// where that is faster, sent over the link, while the card computes those that it holds; a card
// leaves to the CPU also held ones where that ends the layer sooner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/planner/planner.h"

namespace strata::engine {

// Shares of measured rates that whole steps reach. Decode kernels are built to read at least this
// fast; prompts spend half of their time on what is no matrix product.
inline constexpr double kCardReadShare = 0.6;
inline constexpr double kCpuReadShare = 0.7;
inline constexpr double kComputeShare = 0.4;
// One flag from a card to the host or back; published round trips are 7 to 12 us.
inline constexpr double kFlagMs = 0.005;
// Rows that a group of a prompt's rows for one expert wastes in tiles of 16, on average.
inline constexpr double kTileWaste = 8;
inline constexpr double kUnionExponent = 0.8;
// Random reads of a mapped file on an NVMe disk; not measured, plans that need it carry a warning.
inline constexpr double kDiskGbs = 2;

struct StageCost {
  bool fits = false;
  uint64_t missing_bytes = 0;  // when it does not
  double decode_ms = 0;        // with the hand-offs before and after
  double chunk_ms = 0;         // of one chunk from its arrival until the next stage has it
  double handoff_ms = 0;       // of which its rows travel
  // What each of many chunks takes: rows travel while the device computes another chunk.
  double busy_ms() const { return std::max(chunk_ms - handoff_ms, handoff_ms); }
};

// How much of the experts a stage holds, by the profile's order: all pairs before `grid` of the
// order's grid and the part `rest` of those up to the next point.
struct CacheFill {
  bool whole = true;
  size_t grid = 0;
  double rest = 0;
};

class StageCosts {
 public:
  // All arguments must outlive the object. `profile` must suit the model. Chunks of `chunk` tokens.
  StageCosts(const ModelCost& model, std::span<const PlanDevice> devices,
             const PlanOptions& options, const EngineAbilities& abilities,
             const ExpertProfile& profile, int chunk);

  // Layers [first, end).
  StageCost stage(size_t device, int first, int end) const;
  // The same with every part named; only for stages that fit.
  PlanStage describe(size_t device, int first, int end) const;
  // What must be on a device without experts, and those.
  uint64_t base_bytes(int first, int end) const;
  uint64_t expert_bytes(int first, int end) const;
  int chunk() const { return chunk_; }

 private:
  // Sums over layers.
  struct Range {
    uint64_t dense = 0, experts = 0, cache = 0, state = 0;
    double one_expert = 0;  // bytes of one expert of each layer
    double launches = 0;
    double macs = 0;         // of one token, without experts
    double expert_macs = 0;  // of one expert of each layer
    double cache_read = 0;   // bytes of a sequence's memory that a decode step reads
  };
  // What the ends of the model add.
  struct Ends {
    uint64_t embedding = 0, head = 0, draft = 0;
  };
  // How a stage's weights lie.
  struct Residence {
    bool fits = false;
    uint64_t missing = 0;
    CacheFill fill;
    uint64_t in_ram = 0;    // experts of a card's layers that it does not hold
    double disk_share = 0;  // of what is in RAM: read from the disk each time
    uint64_t disk_bytes = 0;
  };

  Range range(int first, int end) const;
  Ends ends(int first, int end) const;
  Residence residence(size_t device, int first, int end) const;
  CacheFill fill(uint64_t room, int first, int end) const;
  double held_bytes(int first, int end, const CacheFill& fill) const;
  double held_share(int layer, const CacheFill& fill) const;
  double distinct(double rows) const;
  double read_ms(const PlanDevice& device, double bytes) const;
  double compute_ms(const PlanDevice& device, double macs) const;
  double decode_expert_ms(const PlanDevice& device, int first, int end,
                          const Residence& where) const;
  double decode_ms(size_t device, int first, int end, const Residence& where) const;
  double chunk_ms(size_t device, int first, int end, const Residence& where, double rows) const;
  // Activations; where rows travel there are two residuals, one of them on its way.
  uint64_t workspace(int first, int end) const {
    return workspace_ + (first > 0 || end < layers_ ? travelling_ : 0);
  }
  double handoff_ms(const PlanDevice& device, int first, int end, double rows) const;

  const ModelCost& model_;
  std::span<const PlanDevice> devices_;
  const PlanOptions& options_;
  const EngineAbilities& abilities_;
  const ExpertProfile& profile_;
  int chunk_ = 0;
  int layers_ = 0;
  double window_rows_ = 1;
  bool drafting_ = false;
  uint64_t workspace_ = 0;
  uint64_t travelling_ = 0;
  const PlanDevice* helper_ = nullptr;  // the CPU beside the cards
  std::vector<Range> before_;           // sums over the layers before this one
  size_t points_ = 0;                   // of the grid over the profile's order
  std::vector<double> grid_bytes_;      // [layers + 1][points_]: of the pairs before the point
  std::vector<double> grid_share_;      // [layers][points_]: their share of the layer's work
};

}  // namespace strata::engine
