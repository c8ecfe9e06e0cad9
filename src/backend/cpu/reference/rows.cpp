#include "backend/cpu/cpu_device.h"
#include "backend/cpu/reference/launchers.h"

namespace strata::backend {

namespace {

constexpr KernelSpec row(const char* name, OpId op, LaunchFn launch) {
  return {.name = name,
          .op = op,
          .weight_type = std::nullopt,
          .reference = true,
          .rank = 0,
          .needs = 0,
          .launch = launch};
}

constexpr KernelSpec kRows[] = {
    row("embed/reference", OpId::kEmbed, reference::embed),
    row("hc_broadcast/reference", OpId::kHcBroadcast, reference::hc_broadcast),
    row("hc_read/reference", OpId::kHcRead, reference::hc_read),
    row("hc_write/reference", OpId::kHcWrite, reference::hc_write),
    row("matmul/reference", OpId::kMatmul, reference::matmul),
    row("gdn/reference", OpId::kGdn, reference::gdn),
    row("qsa_prepare/reference", OpId::kQsaPrepare, reference::qsa_prepare),
    row("qsa_select/reference", OpId::kQsaSelect, reference::qsa_select),
    row("attention/reference", OpId::kAttention, reference::attention),
    row("router/reference", OpId::kRouter, reference::router),
    row("experts/reference", OpId::kExperts, reference::experts),
    row("swiglu/reference", OpId::kSwiGlu, reference::swiglu),
    row("shared_expert_add/reference", OpId::kSharedExpertAdd, reference::shared_expert_add),
    row("ple_inject/reference", OpId::kPleInject, reference::ple_inject),
    row("top_k_logits/reference", OpId::kTopKLogits, reference::top_k_logits),
};
static_assert(std::size(kRows) == static_cast<size_t>(OpId::kCount));

}  // namespace

std::span<const KernelSpec> cpu_reference_rows() { return kRows; }

}  // namespace strata::backend
