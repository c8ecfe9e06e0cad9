// All kernels of the contract tier, in the namespace of one instruction set, and their rows.
namespace strata::backend::contract::STRATA_TIER {
namespace {

#if STRATA_TIER_WIDTH
#include "backend/cpu/contract/vec_x86.inl"
#elif STRATA_TIER_NEON
#include "backend/cpu/contract/vec_neon.inl"
#else
#include "backend/cpu/contract/vec_scalar.inl"
#endif
#include "backend/cpu/contract/dot.inl"
#include "backend/cpu/contract/segment.inl"
#if STRATA_TIER_WIDTH
#include "backend/cpu/contract/unpack_x86.inl"
#include "backend/cpu/contract/int8_x86.inl"
#if STRATA_TIER_VBMI
#include "backend/cpu/contract/sixteen_x86.inl"
#endif
#elif STRATA_TIER_NEON
#include "backend/cpu/contract/unpack_neon.inl"
#include "backend/cpu/contract/int8_neon.inl"
#else
#include "backend/cpu/contract/int8_scalar.inl"
#endif
#include "backend/cpu/contract/elementwise.inl"
#include "backend/cpu/contract/float_product.inl"
#include "backend/cpu/contract/matmul.inl"
#include "backend/cpu/contract/hyper_connection.inl"
#include "backend/cpu/contract/convolve.inl"
#include "backend/cpu/contract/gdn.inl"
#include "backend/cpu/contract/qsa.inl"
#include "backend/cpu/contract/attention.inl"
#include "backend/cpu/contract/moe.inl"
#include "backend/cpu/contract/ple.inl"
#include "backend/cpu/contract/top_k.inl"

template <class Args, Status (*kRun)(CpuStream&, const Args&)>
Status launch(Stream& stream, const void* args) {
  return kRun(static_cast<CpuStream&>(stream), *static_cast<const Args*>(args));
}

template <class Args, Status (*kRun)(CpuStream&, const Args&)>
constexpr KernelSpec row(const char* name) {
  return {name,           Args::kOp,          std::nullopt,      /*reference=*/false,
          STRATA_TIER_RANK, STRATA_TIER_NEEDS, &launch<Args, kRun>};
}

constexpr KernelSpec kRows[] = {
    row<EmbedArgs, embed>("embed/" STRATA_TIER_NAME),
    row<HcBroadcastArgs, hc_broadcast>("hc_broadcast/" STRATA_TIER_NAME),
    row<HcReadArgs, hc_read>("hc_read/" STRATA_TIER_NAME),
    row<HcWriteArgs, hc_write>("hc_write/" STRATA_TIER_NAME),
    row<MatmulArgs, matmul>("matmul/" STRATA_TIER_NAME),
    row<GdnArgs, gdn>("gdn/" STRATA_TIER_NAME),
    row<QsaPrepareArgs, qsa_prepare>("qsa_prepare/" STRATA_TIER_NAME),
    row<QsaSelectArgs, qsa_select>("qsa_select/" STRATA_TIER_NAME),
    row<AttentionArgs, attention>("attention/" STRATA_TIER_NAME),
    row<RouterArgs, router>("router/" STRATA_TIER_NAME),
    row<ExpertsArgs, experts>("experts/" STRATA_TIER_NAME),
    row<SwiGluArgs, swiglu>("swiglu/" STRATA_TIER_NAME),
    row<SharedExpertAddArgs, shared_expert_add>("shared_expert_add/" STRATA_TIER_NAME),
    row<PleInjectArgs, ple_inject>("ple_inject/" STRATA_TIER_NAME),
    row<TopKLogitsArgs, top_k_logits>("top_k_logits/" STRATA_TIER_NAME),
};

}  // namespace
}  // namespace strata::backend::contract::STRATA_TIER

namespace strata::backend::contract {

#define STRATA_ROWS_INNER(tier) tier##_rows
#define STRATA_ROWS(tier) STRATA_ROWS_INNER(tier)
std::span<const KernelSpec> STRATA_ROWS(STRATA_TIER)() { return STRATA_TIER::kRows; }
#undef STRATA_ROWS
#undef STRATA_ROWS_INNER

}  // namespace strata::backend::contract
