// Runs the cases of bench on a loaded model, round after round.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "apps/bench_memory.h"
#include "apps/bench_model.h"
#include "apps/bench_plan.h"
#include "base/status.h"

namespace strata::apps {

struct BenchOptions {
  backend::KvType kv_type = backend::KvType::kF16;
  int prompt_chunk = 512;  // prompt tokens per forward call
  int steps = 32;          // tokens that each sequence decodes
  int repeat = 3;          // rounds that count
  std::function<bool()> cancelled = [] { return false; };
  std::function<void(double done)> progress = [](double) {};
};

struct BenchMeasure {
  enum class Kind { kPrompt, kDecode };
  Kind kind = Kind::kPrompt;
  int depth = 0;                // tokens before the first one timed
  int rows = 1;                 // sequences
  int tokens = 0;               // timed per sequence and round
  std::vector<double> seconds;  // of each round that counts
  double step_bytes = 0;        // decoding: bytes that a step reads, averaged over the steps

  double tokens_per_round() const { return static_cast<double>(rows) * tokens; }
};

// A round that does not count comes first; in it the experts chosen are looked at for step_bytes.
// `memory` makes a few passes in every round. Prompts stand first in the result. Fails with
// kCancelled when asked to stop.
Result<std::vector<BenchMeasure>> run_bench(BenchModel& loaded, std::span<const BenchCase> cases,
                                            const BenchOptions& options, MemoryMeter& memory);

}  // namespace strata::apps
