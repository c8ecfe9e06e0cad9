#include "backend/cpu/contract/tier.h"

namespace strata::backend {

std::vector<std::span<const KernelSpec>> cpu_contract_rows() {
  return {
      contract::scalar_rows(),
#if STRATA_X86_TIERS
      contract::avx2_rows(),
      contract::avxvnni_rows(),
      contract::avx512_rows(),
      contract::avx512vnni_rows(),
      contract::avx512vbmi_rows(),
#endif
#if STRATA_NEON_TIERS
      contract::neon_rows(),
      contract::neondot_rows(),
      contract::neoni8mm_rows(),
#endif
  };
}

}  // namespace strata::backend
