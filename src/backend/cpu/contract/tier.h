// What the kernel sources of the contract tier need before they are compiled once per instruction
// set. Everything included here is compiled for the baseline; only the .inl files that follow a
// `#pragma GCC target` may use wide instructions, and they define nothing with external linkage
// outside their own namespace. That keeps a wide copy of a shared inline function from being
// picked by the linker for a machine that lacks the instructions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_device.h"
#include "backend/kernel_table.h"
#include "backend/logit_order.h"
#include "backend/numeric.h"
#include "backend/op_args.h"
#include "format/quant/half.h"
#include "format/quant/quant.h"

// The wide tiers rely on GCC's `#pragma GCC target`; another compiler builds the scalar one alone.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define STRATA_X86_TIERS 1
#else
#define STRATA_X86_TIERS 0
#endif

// NEON belongs to every 64-bit ARM machine; its dot products and its products of 8-bit matrices
// (I8MM) do not. There is no tier of scalable vectors: machines with SVE2 have vectors of 128 bits,
// those with SVE of 256 bits and I8MM run half as many of them at a time, and every SVE2 machine
// that is sold for servers has I8MM, so `neoni8mm` asks as much of their units as SVE2 code could.
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
#define STRATA_NEON_TIERS 1
#else
#define STRATA_NEON_TIERS 0
#endif

namespace strata::backend::contract {

// Rows of each instruction set, defined by kernels_<set>.cpp.
std::span<const KernelSpec> scalar_rows();
std::span<const KernelSpec> avx2_rows();
std::span<const KernelSpec> avxvnni_rows();
std::span<const KernelSpec> avx512_rows();
std::span<const KernelSpec> avx512vnni_rows();
std::span<const KernelSpec> avx512vbmi_rows();
std::span<const KernelSpec> neon_rows();
std::span<const KernelSpec> neondot_rows();
std::span<const KernelSpec> neoni8mm_rows();

}  // namespace strata::backend::contract
