// The contract tier compiled for: neoni8mm.
#include "backend/cpu/contract/tier.h"

#if STRATA_NEON_TIERS

#include <arm_neon.h>

#pragma GCC push_options
// Only where the build's own flags do not ask for as much: functions of a wider target cannot be inlined
// into this one.
#if !defined(__ARM_FEATURE_MATMUL_INT8) || !defined(__ARM_FEATURE_DOTPROD)
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#endif
#define STRATA_TIER neoni8mm
#define STRATA_TIER_NAME "neoni8mm"
#define STRATA_TIER_WIDTH 0
#define STRATA_TIER_NEON 1
#define STRATA_TIER_DOT 1
#define STRATA_TIER_MATMUL 1
#define STRATA_TIER_VNNI 0
#define STRATA_TIER_VBMI 0
#define STRATA_TIER_NEEDS (kCpuNeonDot | kCpuNeonI8mm)
#define STRATA_TIER_RANK 40
#include "backend/cpu/contract/kernels.inl"
#pragma GCC pop_options
#endif
