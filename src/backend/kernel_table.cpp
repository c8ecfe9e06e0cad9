#include "backend/kernel_table.h"

#include <algorithm>

namespace strata::backend {

namespace {

constexpr size_t kOps = static_cast<size_t>(OpId::kCount);

constexpr const char* kOpNames[kOps] = {
    "embed",     "hc_broadcast", "hc_read", "hc_write", "matmul", "gdn",    "qsa_prepare",
    "qsa_select", "attention",   "router",  "experts",  "swiglu", "shared_expert_add", "ple_inject",
    "top_k_logits",
};

}  // namespace

const char* op_name(OpId op) { return kOpNames[static_cast<size_t>(op)]; }

bool KernelPolicy::wants_reference(OpId op) const {
  return all_reference ||
         std::find(reference_ops.begin(), reference_ops.end(), op) != reference_ops.end();
}

Result<KernelTable> KernelTable::build(std::string_view device_id,
                                       std::span<const std::span<const KernelSpec>> families,
                                       FeatureSet features, const KernelPolicy& policy,
                                       const std::function<bool(const KernelSpec&)>& probe) {
  KernelTable table;
  table.chosen_.assign(kOps, std::vector<const KernelSpec*>(kQuantTypeCount, nullptr));
  for (const auto& rows : families) {
    for (const KernelSpec& row : rows) {
      if ((row.needs & ~features) != 0) continue;
      if (probe && !probe(row)) continue;
      table.admitted_.push_back(&row);
      if (policy.wants_reference(row.op) && !row.reference) continue;
      auto& slots = table.chosen_[static_cast<size_t>(row.op)];
      for (size_t type = 0; type < slots.size(); ++type) {
        if (row.weight_type && static_cast<size_t>(*row.weight_type) != type) continue;
        if (slots[type] == nullptr || slots[type]->rank < row.rank) slots[type] = &row;
      }
    }
  }
  std::string missing;
  for (size_t op = 0; op < kOps; ++op) {
    const auto& slots = table.chosen_[op];
    if (std::all_of(slots.begin(), slots.end(), [](auto* row) { return row == nullptr; })) {
      missing += missing.empty() ? kOpNames[op] : fmt::format(", {}", kOpNames[op]);
    }
  }
  if (!missing.empty()) {
    return failed_precondition("{}: this build has no kernel that the device can run for {}",
                               device_id, missing);
  }
  return table;
}

const KernelSpec* KernelTable::find(OpId op, QuantType weight_type) const {
  return chosen_[static_cast<size_t>(op)][static_cast<size_t>(weight_type)];
}

const KernelSpec* KernelTable::find(OpId op) const {
  return chosen_[static_cast<size_t>(op)].front();
}

}  // namespace strata::backend
