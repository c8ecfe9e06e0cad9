#include "backend/cpu/cpu_device.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace strata::backend {

FeatureSet detected_cpu_features() {
  FeatureSet features = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2")) {
    features |= kCpuAvx2;
  }
  if (__builtin_cpu_supports("avxvnni")) features |= kCpuAvxVnni;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    features |= kCpuAvx512;
  }
  if (__builtin_cpu_supports("avx512vnni")) features |= kCpuAvx512Vnni;
  if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni")) {
    features |= kCpuAvx512Vbmi;
  }
#elif defined(__aarch64__)
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) features |= kCpuNeonDot;
  if ((::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) features |= kCpuNeonI8mm;
#endif
  return features;
}

}  // namespace strata::backend
