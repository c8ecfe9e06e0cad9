// The calls that ops_bench times, in the shapes of the full model (docs/MODEL.md 1).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/op_args.h"

namespace strata::bench {

// One prepared call. Weights lie several times in memory, as far as caches could hold them, and
// calls take turns, so that every call finds them in memory as a token does.
struct OpCall {
  std::function<Status(const backend::KernelSpec&, backend::Stream&)> run;
  double bytes = 0;  // read and written at least: weights, state and activations, once each
  double flops = 0;  // a fused multiply-add is two
};

struct OpCase {
  backend::OpId op;
  std::optional<QuantType> weight_type;  // that the op dispatches on
  std::string name;                      // "Q8_0/2560x10240/rows:8"
  std::function<OpCall()> prepare;
};

std::vector<OpCase> op_cases();

}  // namespace strata::bench
