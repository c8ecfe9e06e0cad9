// The contract tier compiled for: avx2.
#include "backend/cpu/contract/tier.h"

#if STRATA_X86_TIERS

#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define STRATA_TIER avx2
#define STRATA_TIER_NAME "avx2"
#define STRATA_TIER_WIDTH 256
#define STRATA_TIER_NEON 0
#define STRATA_TIER_VNNI 0
#define STRATA_TIER_VBMI 0
#define STRATA_TIER_NEEDS (kCpuAvx2)
#define STRATA_TIER_RANK 20
#include "backend/cpu/contract/kernels.inl"
#pragma GCC pop_options

#endif
