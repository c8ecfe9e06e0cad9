// The contract tier compiled for: neondot.
#include "backend/cpu/contract/tier.h"

#if STRATA_NEON_TIERS

#include <arm_neon.h>

#pragma GCC push_options
// Only where the build's own flags do not ask for as much: functions of a wider target cannot be inlined
// into this one.
#if !defined(__ARM_FEATURE_DOTPROD)
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#define STRATA_TIER neondot
#define STRATA_TIER_NAME "neondot"
#define STRATA_TIER_WIDTH 0
#define STRATA_TIER_NEON 1
#define STRATA_TIER_DOT 1
#define STRATA_TIER_MATMUL 0
#define STRATA_TIER_VNNI 0
#define STRATA_TIER_VBMI 0
#define STRATA_TIER_NEEDS (kCpuNeonDot)
#define STRATA_TIER_RANK 30
#include "backend/cpu/contract/kernels.inl"
#pragma GCC pop_options
#endif
