// The contract tier compiled for: scalar.
#include "backend/cpu/contract/tier.h"

#define STRATA_TIER scalar
#define STRATA_TIER_NAME "scalar"
#define STRATA_TIER_WIDTH 0
#define STRATA_TIER_NEON 0
#define STRATA_TIER_VNNI 0
#define STRATA_TIER_VBMI 0
#define STRATA_TIER_NEEDS (0)
#define STRATA_TIER_RANK 10
#include "backend/cpu/contract/kernels.inl"
