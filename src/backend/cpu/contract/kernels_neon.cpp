// The contract tier compiled for: neon.
#include "backend/cpu/contract/tier.h"

#if STRATA_NEON_TIERS

#include <arm_neon.h>

#define STRATA_TIER neon
#define STRATA_TIER_NAME "neon"
#define STRATA_TIER_WIDTH 0
#define STRATA_TIER_NEON 1
#define STRATA_TIER_DOT 0
#define STRATA_TIER_MATMUL 0
#define STRATA_TIER_VNNI 0
#define STRATA_TIER_VBMI 0
#define STRATA_TIER_NEEDS (0)
#define STRATA_TIER_RANK 20
#include "backend/cpu/contract/kernels.inl"

#endif
