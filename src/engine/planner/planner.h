// Which device runs which layers. A pure function of the model, the measured devices and the
// options: the same input gives the same plan, nothing is asked of a device and nothing is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/op_args.h"
#include "base/status.h"
#include "engine/planner/expert_profile.h"
#include "engine/planner/layer_split.h"
#include "engine/planner/model_cost.h"
#include "engine/planner/plan_device.h"

namespace strata::engine {

// What the engine can run; nothing else is planned.
struct EngineAbilities {
  bool layer_split = true;      // several devices for one model
  bool prompt_pipeline = true;  // stages read different chunks of one prompt at the same time
  bool expert_cache = false;    // a card that holds some experts of its layers; others stay in RAM
  bool drafts = false;          // a draft layer, and decode windows of several tokens
  bool weights_from_disk = true;  // a CPU stage whose weights are mapped and may exceed RAM
};

struct PlanOptions {
  int context = 0;    // tokens per sequence, > 0
  int sequences = 1;  // that are held at a time
  backend::KvType kv_type = backend::KvType::kF16;
  int window_rows = 1;   // tokens of a decode window: the last one and its drafts
  int prompt_chunk = 0;  // tokens of a prompt per step at most; 0: chosen here
  LayerSplit split;
  bool order_as_given = false;             // stages only in the order of the devices
  bool skip_split_if_fits = false;         // one device whenever one holds everything
  const ExpertProfile* profile = nullptr;  // null: every expert alike
};

struct PlanStage {
  size_t device = 0;  // index into the devices that were given
  std::string id, title;
  bool cpu = false;
  int first = 0, last = 0;  // layers, both included

  // Bytes on the device. The weights of a CPU stage are pages of the model file.
  uint64_t dense_bytes = 0, expert_bytes = 0, embedding_bytes = 0, head_bytes = 0, draft_bytes = 0;
  uint64_t cache_bytes = 0, state_bytes = 0, workspace_bytes = 0;
  uint64_t used_bytes() const;
  uint64_t free_bytes = 0;        // before the plan
  uint64_t ram_expert_bytes = 0;  // experts of a card's layers that are only in RAM
  uint64_t disk_bytes = 0;        // of its weights beyond RAM, read from the file again and again

  int64_t pairs = 0;                // (layer, expert) pairs of its layers
  int64_t resident_pairs = 0;       // of which the device holds: slots of its cache
  double resident_mass = 1;         // share of its routed work that goes to these
  double decode_ms = 0;             // of a window, its hand-offs included
  double chunk_ms = 0;              // of a chunk of the plan's size, its hand-offs included
  double handoff_ms = 0;            // these alone; other chunks are computed meanwhile
  std::vector<double> chunk_curve;  // ms for chunks of 1, 2, 4, ... tokens, up to the plan's size
};

struct RejectedPlan {
  std::string what;  // "hip:0 alone"
  std::string why;   // "12.3 ms instead of 9.8 ms per decode window, ..."
};

struct Plan {
  std::vector<PlanStage> stages;  // in the order of the layers, each layer exactly once
  int layers = 0;
  int context = 0;
  int window_rows = 1;
  int chunk = 0;          // prompt tokens per step at most
  bool automatic = true;  // the split was chosen here
  bool profiled = false;
  double decode_ms = 0;     // predicted, per window, early in a context (kDecodeDepth)
  int prompt_tokens = 0;    // the prompt that the next figure is for
  double prompt_tok_s = 0;  // predicted
  // The measure that plans are compared by: such a prompt and kRequestWindows windows, in ms.
  double request_ms = 0;
  std::string order;  // the order of the stages and why
  std::vector<RejectedPlan> rejected;
  std::vector<std::string> warnings;

  std::vector<int> split_points() const;
  int64_t pairs() const;
  int64_t resident_pairs() const;
  double resident_mass() const;  // share of all routed work, 0..1
};

inline constexpr int kDecodeDepth = 4096;   // tokens in the sequence for decode_ms, or the context
inline constexpr int kPromptTokens = 8192;  // for prompt_tok_s, or the context
inline constexpr int kRequestWindows = 512;
// The search stops when no plan can be better by more than this part of request_ms.
inline constexpr double kSearchTolerance = 4e-3;
// A device must gain at least this part of request_ms to be used. With both, a device more makes
// the predicted request_ms at most about 1.5 % longer, and only where fewer devices then do the
// work.
inline constexpr double kWorthADevice = 1e-2;

// The plan with the least request_ms. Fails with kInvalidArgument when options contradict the model
// or the devices, with kFailedPrecondition for the profile of another model, and with
// kResourceExhausted when no plan holds the model; then it says how much memory is missing where
// and what helps.
Result<Plan> make_plan(const ModelCost& model, std::span<const PlanDevice> devices,
                       const PlanOptions& options, const EngineAbilities& abilities);

// Tokens per step for a prompt of this length: the plan's chunk, or fewer where several stages
// share a short prompt. And the time that takes in all.
struct PromptCut {
  int tokens = 0;
  double ms = 0;
};
PromptCut cut_prompt(const Plan& plan, int prompt_tokens, bool pipeline = true);

}  // namespace strata::engine
