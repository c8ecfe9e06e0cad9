// The contract tier compiled for: avx512vbmi.
#include "backend/cpu/contract/tier.h"

#if STRATA_X86_TIERS

#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx512vbmi,gfni,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,prefer-vector-width=512")
#define STRATA_TIER avx512vbmi
#define STRATA_TIER_NAME "avx512vbmi"
#define STRATA_TIER_WIDTH 512
#define STRATA_TIER_NEON 0
#define STRATA_TIER_VNNI 1
#define STRATA_TIER_VBMI 1
#define STRATA_TIER_NEEDS (kCpuAvx2 | kCpuAvx512 | kCpuAvx512Vnni | kCpuAvx512Vbmi)
#define STRATA_TIER_RANK 50
#include "backend/cpu/contract/kernels.inl"
#pragma GCC pop_options

#endif
