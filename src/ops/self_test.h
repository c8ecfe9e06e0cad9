// The proof that a device computes what this program means: small cases of every op, run on every
// kernel row the device admits and compared with the CPU. Runs at start, for each device, in any
// order and on several devices at once; nothing here changes once it is made.
//
// Rows that follow docs/ARITHMETIC.md must give the CPU's bits. The CPU's reference rows, which
// compute in double precision, are an independent second opinion: the contract's answers must lie
// within a case's tolerance of theirs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "base/status.h"
#include "ops/operands.h"

namespace strata::ops {

struct SelfTestCase {
  std::string description;        // "gdn, 3 rows, heads of 128"
  backend::OpId op{};
  std::optional<QuantType> type;  // weight type by which the op finds its row
  // On fresh copies of the operands; may be called from several threads.
  std::function<Result<OpOutputs>(backend::Device&, const backend::KernelSpec&)> run;
  std::vector<ValueKind> outputs;  // what run() returns
  // Largest difference between a contract row and a reference row, in parts of the largest magnitude
  // of the output. Integers must be equal.
  double tolerance = 0;
};

// A case whose operands lie on the host; they are copied.
template <HasOperands Args>
SelfTestCase self_test_case(std::string description, const Args& args, double tolerance,
                            std::optional<QuantType> type = std::nullopt) {
  return {.description = std::move(description),
          .op = Args::kOp,
          .type = type,
          .run = [captured = capture(args)](
                     backend::Device& device,
                     const backend::KernelSpec& row) { return captured.run(device, row); },
          .outputs = output_kinds(args),
          .tolerance = tolerance};
}

// What the CPU answers, per case.
struct SelfTestAnswers {
  std::vector<OpOutputs> contract;
  std::vector<OpOutputs> reference;
};

// Every op of the model; ops with weights once per type of `types`.
std::vector<SelfTestCase> self_test_cases(std::span<const QuantType> types);

// Fails when the CPU's two tiers disagree beyond a tolerance.
Result<SelfTestAnswers> self_test_answers(const std::vector<SelfTestCase>& cases,
                                          backend::Device& cpu);

// Runs every case on every row of `device` that serves it. A failure names the device, its
// architecture, the row, the case, the worst difference and what to do; all failures are in one
// message.
Status run_self_tests(backend::Device& device, const std::vector<SelfTestCase>& cases,
                      const SelfTestAnswers& answers);

// The parts of self_test_cases().
void add_model_cases(std::span<const QuantType> types, std::vector<SelfTestCase>& cases);
void add_product_cases(std::span<const QuantType> types, std::vector<SelfTestCase>& cases);

}  // namespace strata::ops
