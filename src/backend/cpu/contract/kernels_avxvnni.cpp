// The contract tier compiled for: avxvnni.
#include "backend/cpu/contract/tier.h"

#if STRATA_X86_TIERS

#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avxvnni,avx2,fma,f16c,bmi,bmi2")
#define STRATA_TIER avxvnni
#define STRATA_TIER_NAME "avxvnni"
#define STRATA_TIER_WIDTH 256
#define STRATA_TIER_NEON 0
#define STRATA_TIER_VNNI 1
#define STRATA_TIER_VBMI 0
#define STRATA_TIER_NEEDS (kCpuAvx2 | kCpuAvxVnni)
#define STRATA_TIER_RANK 25
#include "backend/cpu/contract/kernels.inl"
#pragma GCC pop_options

#endif
