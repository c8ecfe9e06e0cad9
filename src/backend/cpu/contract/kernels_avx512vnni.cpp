// The contract tier compiled for: avx512vnni.
#include "backend/cpu/contract/tier.h"

#if STRATA_X86_TIERS

#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,prefer-vector-width=512")
#define STRATA_TIER avx512vnni
#define STRATA_TIER_NAME "avx512vnni"
#define STRATA_TIER_WIDTH 512
#define STRATA_TIER_NEON 0
#define STRATA_TIER_VNNI 1
#define STRATA_TIER_VBMI 0
#define STRATA_TIER_NEEDS (kCpuAvx2 | kCpuAvx512 | kCpuAvx512Vnni)
#define STRATA_TIER_RANK 40
#include "backend/cpu/contract/kernels.inl"
#pragma GCC pop_options

#endif
