// How an op finds its kernel on one device. Rows (KernelSpec) are const data compiled into a
// back end; each Device builds its own KernelTable when it is opened: keep the rows whose needs the
// device meets, probe them there, rank, freeze. Nothing here is shared between devices, because a
// choice made for one card is wrong for another one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/op_args.h"
#include "base/status.h"
#include "format/quant/quant.h"

namespace strata::backend {

class Stream;

// Runs one op on a stream. `args` points at the Args struct of the row's op and must stay valid
// until the call returns; what it points at must stay valid until the stream has run it.
using LaunchFn = Status (*)(Stream& stream, const void* args);

// Device features a row may need, as bits. A device states its own in DeviceCaps.
using FeatureSet = uint64_t;

struct KernelSpec {
  const char* name;      // "matmul_int8/avx512": what it computes, then how
  OpId op;
  // Weight type the row is compiled for; nullopt serves every type.
  std::optional<QuantType> weight_type;
  bool reference;        // what kernels=reference selects. CPU: plain loops in double precision,
                         // the oracle; GPU: the portable form
  int rank;              // the highest admitted rank wins
  FeatureSet needs;      // all of these bits must be present
  LaunchFn launch;
  // Compiled images the row launches, packed by its back end; empty on the CPU.
  std::span<const uint32_t> images{};
};

// Which ops a user switched to the reference rows on one device: "all", or op names.
struct KernelPolicy {
  bool all_reference = false;
  std::vector<OpId> reference_ops;

  bool wants_reference(OpId op) const;
};

class KernelTable {
 public:
  // Chooses among the rows of all `families` for a device with `features`. The rows must outlive
  // the table. `probe`, where given, has the last word on a row. Fails, listing every op without a
  // row.
  static Result<KernelTable> build(std::string_view device_id,
                                   std::span<const std::span<const KernelSpec>> families,
                                   FeatureSet features, const KernelPolicy& policy,
                                   const std::function<bool(const KernelSpec&)>& probe = {});

  // The chosen row, or nullptr when none serves this op and type (ops/ turns that into a sentence).
  const KernelSpec* find(OpId op, QuantType weight_type) const;
  const KernelSpec* find(OpId op) const;

  // Every row this device admits, chosen or not: what the tests run.
  std::span<const KernelSpec* const> admitted() const { return admitted_; }

 private:
  // [op][weight type]
  std::vector<std::vector<const KernelSpec*>> chosen_;
  std::vector<const KernelSpec*> admitted_;
};

}  // namespace strata::backend
